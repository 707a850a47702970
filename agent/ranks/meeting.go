package ranks

import (
	"cmp"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/loopback"
	"google.golang.org/protobuf/proto"
)

// meeting is who of a job's ranks here has come to where frameworks meet, as far as /proc shows. nil: nobody wants to know.
type meeting struct {
	job *Job

	mu         sync.Mutex
	ports      map[uint16]bool   // where ranks meet, guarded by mu
	frameworks map[uint32]string // by program: what its ranks here have loaded; "": they are no job on purpose; guarded by mu
	met        idset.Set         // ids, guarded by mu
	elsewhere  idset.Set         // guarded by mu
	visited    bool              // guarded by mu
	blind      bool              // the lists of sockets cannot be read, guarded by mu
	looked     time.Time         // guarded by mu
	read       time.Time         // the lists of sockets, guarded by mu
	told       *apiv1.Met        // guarded by mu
}

// newMeeting is for a job whose launcher wants to know who comes to where ranks meet.
func newMeeting(st *Job) *meeting {
	l := st.Launch
	if !l.Job.GetMeeting().GetWatch() || l.Exec != nil || l.Job.Explain > 0 || l.Job.Size < 2 || len(l.Procs) == 0 {
		return nil
	}
	m := &meeting{job: st, ports: map[uint16]bool{}}
	for _, at := range l.Job.Meeting.Tf {
		if ap, err := netip.ParseAddrPort(at); err == nil {
			m.ports[ap.Port()] = true
		}
	}
	return m
}

const (
	meetingLook  = 200 * time.Millisecond // between two looks in the first minute, once a framework is loaded,
	meetingLoad  = 300 * time.Millisecond // and before: it takes longer to load
	meetingShare = 100                    // of the time that a look took is between two, at least,
	meetingBusy  = 300 * time.Millisecond // but no more than this: on a busy machine a look takes long, and so does all else
	meetingYoung = time.Minute
	meetingOld   = 5 * time.Second // between two looks after that, where a framework is loaded or somebody has come
	meetingNever = time.Minute     // and where not
	freshLook    = 20 * time.Millisecond
	// The lists are read at each look where a framework is loaded. A rank may also be a script that runs one, but most
	// are MPI's, and the kernel goes through the connections of all pods for each list (3 to 13 ms on a busy machine).
	strangerRead = 10 * time.Second
)

// watch looks now and then which ranks have come to where they meet, until all have or the job ends.
func (a *meeting) watch() {
	t := time.NewTimer(meetingLook)
	defer t.Stop()
	begun := time.Now()
	for {
		select {
		case <-t.C:
		case <-a.job.ctx.Done():
			return
		}
		look := time.Now()
		a.look()
		next := a.next(time.Since(begun))
		if next == 0 {
			return
		}
		t.Reset(max(next, min(meetingShare*time.Since(look), meetingBusy)))
	}
}

// next is the time until the next look; 0: there is nothing more to be seen.
func (a *meeting) next(age time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.met.Union(a.elsewhere)
	switch {
	case a.blind, known.Len() == len(a.job.Launch.Procs):
		return 0
	case age < meetingYoung && len(a.frameworks) == 0:
		return meetingLoad
	case age < meetingYoung:
		return meetingLook
	case a.visited, len(a.frameworks) > 0:
		return meetingOld
	}
	return meetingNever
}

// at notes where a process of that environment meets others.
func (a *meeting) at(env []string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "MASTER_PORT", "PET_MASTER_PORT", "JAX_COORDINATOR_PORT":
		case "JAX_COORDINATOR_ADDRESS", "PET_RDZV_ENDPOINT":
			value = value[strings.LastIndexByte(value, ':')+1:]
		default:
			continue
		}
		if n, err := strconv.ParseUint(value, 10, 16); err == nil && n > 0 {
			a.ports[uint16(n)] = true
		}
	}
}

// look takes one look, and tells the launcher what is new.
func (a *meeting) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.blind || time.Since(a.looked) < freshLook {
		return
	}
	a.looked = time.Now()
	procs := slices.DeleteFunc(a.job.All(), (*Process).Gone)
	slices.SortFunc(procs, func(p, q *Process) int { return cmp.Compare(p.ID, q.ID) })
	a.loads(procs)
	seen, err := a.see(bounded.Tree("/"))
	if err != nil {
		a.blind = true
		return
	}
	for _, p := range procs {
		id := int(p.ID)
		switch {
		case a.met.Contains(id) || a.elsewhere.Contains(id):
		case p.State() != apiv1.PmiState_PMI_NEVER:
			a.elsewhere.Add(id)
		case a.job.horovod.met(p.Spec.Rank):
			a.met.Add(id)
		case len(seen.There) > 0 || len(seen.Other) > 0 && a.frameworks[p.Spec.App] != "":
			a.place(p, seen)
		}
	}
	if !a.visited && seen.Inside() && slices.ContainsFunc(procs, func(p *Process) bool { return a.frameworks[p.Spec.App] != "" }) {
		a.pairs(procs, seen)
	}
	a.tell()
}

// see reads the lists of sockets where it is time to. a.mu is held.
func (a *meeting) see(host fs.FS) (seen loopback.Meeting, err error) {
	if a.read.IsZero() {
		a.read = a.looked
	}
	if len(a.frameworks) == 0 && a.looked.Sub(a.read) < strangerRead {
		return seen, nil
	}
	a.read = a.looked
	seen, err = loopback.FindMeeting(host, a.ports)
	a.visited = a.visited || seen.Visited
	return seen, err
}

// pairs finds ranks here that are connected with each other: they have met in a way of their own. Some ranks of a
// program are looked at, and speak for the others.
func (a *meeting) pairs(procs []*Process, seen loopback.Meeting) {
	taken := map[uint32]int{}
	holder := map[uint64]int{}
	for _, p := range procs {
		if taken[p.Spec.App]++; taken[p.Spec.App] > samples {
			continue
		}
		_ = a.job.s.Super.EachSocket(p.Pid(), func(inode uint64) bool { // place has seen to what does not show
			holder[inode] = int(p.ID)
			return true
		})
	}
	for _, id := range seen.Pairs(holder) {
		a.elsewhere.Add(id)
	}
}

// place finds out which of the sockets a rank holds.
func (a *meeting) place(p *Process, seen loopback.Meeting) {
	met, away := false, false
	err := a.job.s.Super.EachSocket(p.Pid(), func(inode uint64) bool {
		met = seen.There[inode]
		away = away || seen.Other[inode]
		return !met
	})
	switch {
	case met:
		a.met.Add(int(p.ID))
	case away || err != nil: // what does not show is not held against it
		a.elsewhere.Add(int(p.ID))
	}
}

// loads finds out which framework the programs' ranks have loaded: of each program a few are looked at, and speak for
// the others, since all do much the same. Horovod may come some time after the torch that it stands on.
func (a *meeting) loads(procs []*Process) {
	seen := map[uint32]int{}
	found := map[uint32]string{}
	for _, p := range procs {
		app := p.Spec.App
		if f, known := a.frameworks[app]; seen[app] >= samples || known && (f == "" || a.visited || time.Since(p.begun) > meetingYoung) {
			continue
		}
		if seen[app]++; seen[app] == 1 || found[app] != "" {
			found[app] = a.job.s.Libs.Framework(p.Pid())
		}
	}
	for app, framework := range found {
		if framework == "" {
			continue
		}
		if a.frameworks == nil {
			a.frameworks = map[uint32]string{}
		}
		if a.job.shards[app] {
			framework = ""
		}
		a.frameworks[app] = framework
	}
}

// tell tells the launcher, where there is something to tell that it does not know. a.mu is held.
func (a *meeting) tell() {
	l := a.job.Launch
	m := &apiv1.Met{Job: l.Job.Number, Met: a.met.String(), Elsewhere: a.elsewhere.String(), Visited: a.visited}
	var loaded idset.Set
	for _, p := range l.Procs {
		if f := a.frameworks[p.App]; f != "" {
			m.Framework = cmp.Or(m.Framework, f)
			loaded.Add(a.job.id(int(p.Rank)))
		}
	}
	m.Loaded = loaded.String()
	if m.Loaded == "" && m.Met == "" && !m.Visited || proto.Equal(m, a.told) {
		return
	}
	a.told = m
	a.job.send(m.Frame())
}

// last is a look when a rank has ended, before the launcher hears of that: its connections are listed for a
// while yet.
func (a *meeting) last() {
	if a == nil {
		return
	}
	a.mu.Lock()
	needless := len(a.frameworks) == 0 || a.visited
	a.mu.Unlock()
	if !needless {
		a.look()
	}
}
