package ranks

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/gloo"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/sockets"
	"google.golang.org/protobuf/proto"
)

// newGloo is where the job's Horovod ranks meet; nil where Horovod is told nothing.
func (st *Job) newGloo() *gloo.Server {
	l := st.Launch
	if frameworks.Set(l.Job.Meeting.GetFrameworks())&frameworks.Horovod == 0 || l.Exec != nil || len(l.Procs) == 0 {
		return nil
	}
	return gloo.New(gloo.Config{
		Check: st.maySpeak, Log: st.s.Log,
		Send: func(u gloo.Update) {
			if l.Job.Hosts > 1 {
				st.send((&apiv1.Rendezvous{
					Job: l.Job.Number, Scope: u.Scope, Epoch: u.Epoch, Rank: uint32(u.Rank), Key: u.Key, Value: u.Value, Done: u.Done}).Frame())
			}
		},
		Full: func(err error) { st.Notice(true, "%v", err) },
	})
}

// openGloo gives the ranks their ports where a program may use them: the user said so, or its Python has Horovod.
func (st *Job) openGloo(dirs []string) error {
	l := st.Launch
	if st.gloo == nil || frameworks.Set(l.Job.Meeting.GetFrameworks())&frameworks.HorovodGloo == 0 && !st.hasHorovod(dirs) {
		return nil
	}
	ranks := make([]int, len(l.Procs))
	for i, p := range l.Procs {
		ranks[i] = int(p.Rank)
	}
	if err := st.gloo.Open(ranks); err != nil {
		return fmt.Errorf("a port for Horovod's rendezvous: %w", err)
	}
	st.wg.Go(func() { st.gloo.Run(st.ctx) })
	return nil
}

// hasHorovod says that a program of the job here runs a Python that has Horovod.
func (st *Job) hasHorovod(dirs []string) bool {
	asked := make([]bool, len(st.Launch.Apps)) // each program once, however many ranks it has
	for _, p := range st.Launch.Procs {
		if !asked[p.App] && st.library(int(p.App), dirs[p.App]).Horovod {
			return true
		}
		asked[p.App] = true
	}
	return false
}

func (st *Job) glooPort(rank uint32) uint16 {
	if st.gloo == nil {
		return 0
	}
	return st.gloo.Port(int(rank))
}

// Rendezvous takes what Horovod's ranks on another host put.
func (st *Job) Rendezvous(m *apiv1.Rendezvous) {
	if st.gloo != nil {
		st.gloo.Apply(gloo.Update{Scope: m.Scope, Epoch: m.Epoch, Rank: int(m.Rank), Key: m.Key, Value: m.Value, Done: m.Done})
	}
}

// attendance is who of a job's ranks here has come to where frameworks meet, as far as /proc shows.
type attendance struct {
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

const (
	meetingLook  = 200 * time.Millisecond // between two looks in the first minute, once a framework is loaded,
	meetingLoad  = 500 * time.Millisecond // and before: it takes longer to load
	meetingShare = 100                    // of the time that a look took is between two, at least,
	meetingBusy  = time.Second            // but no more than this: on a busy machine a look takes long, and so does all else
	meetingYoung = time.Minute
	meetingOld   = 5 * time.Second // between two looks after that, where a framework is loaded or somebody has come
	meetingNever = time.Minute     // and where not
	freshLook    = 20 * time.Millisecond
	// The lists are read at each look where a framework is loaded. A rank may also be a script that runs one, but most
	// are MPI's, and the kernel goes through the connections of all pods for each list (3 to 13 ms on a busy machine).
	strangerRead = 10 * time.Second
)

// watchMeeting looks now and then which ranks have come to where they meet, until all have or the job ends.
func (st *Job) watchMeeting() {
	t := time.NewTimer(meetingLook)
	defer t.Stop()
	begun := time.Now()
	for {
		select {
		case <-t.C:
		case <-st.ctx.Done():
			return
		}
		look := time.Now()
		st.lookAtMeeting()
		next := st.nextMeetingLook(time.Since(begun))
		if next == 0 {
			return
		}
		t.Reset(max(next, min(meetingShare*time.Since(look), meetingBusy)))
	}
}

// nextMeetingLook is the time until the next look; 0: there is nothing more to be seen.
func (st *Job) nextMeetingLook(age time.Duration) time.Duration {
	a := &st.meets
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.met.Union(a.elsewhere)
	switch {
	case a.blind, known.Len() == len(st.Launch.Procs):
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

// meetsAt notes where the processes of an environment meet others.
func (st *Job) meetsAt(env []string) {
	if !st.Launch.Job.GetMeeting().GetWatch() {
		return
	}
	a := &st.meets
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ports == nil {
		a.ports = map[uint16]bool{}
		for _, at := range st.Launch.Job.Meeting.Tf {
			if ap, err := netip.ParseAddrPort(at); err == nil {
				a.ports[ap.Port()] = true
			}
		}
	}
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

// lookAtMeeting takes one look, and tells the launcher what is new.
func (st *Job) lookAtMeeting() {
	a := &st.meets
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.blind || time.Since(a.looked) < freshLook {
		return
	}
	a.looked = time.Now()
	procs := slices.DeleteFunc(st.All(), func(p *Process) bool { return p.process.Over() })
	slices.SortFunc(procs, func(p, q *Process) int { return cmp.Compare(p.ID, q.ID) })
	st.loads(procs)
	seen, err := a.see(os.DirFS("/"))
	if err != nil {
		a.blind = true
		return
	}
	for _, p := range procs {
		id := int(p.ID)
		switch {
		case a.met.Contains(id) || a.elsewhere.Contains(id):
		case apiv1.PmiState(p.pmi.Load()) != apiv1.PmiState_PMI_NEVER:
			a.elsewhere.Add(id)
		case st.gloo != nil && st.gloo.Met(int(p.Spec.Rank)):
			a.met.Add(id)
		case len(seen.there) > 0 || len(seen.other) > 0 && a.frameworks[p.Spec.App] != "":
			st.place(p, seen)
		}
	}
	if !a.visited && len(seen.inside) > 0 && slices.ContainsFunc(procs, func(p *Process) bool { return a.frameworks[p.Spec.App] != "" }) {
		st.pairs(procs, seen.inside)
	}
	st.tellMet()
}

// seenSockets is what one look at the lists of sockets shows.
type seenSockets struct {
	there  map[uint64]bool  // inodes of those at the places where ranks meet
	other  map[uint64]bool  // of listeners elsewhere that other hosts reach
	inside []sockets.Socket // connections of this host with itself
}

// see reads the lists of sockets where it is time to. a.mu is held.
func (a *attendance) see(host fs.FS) (seen seenSockets, err error) {
	if a.read.IsZero() {
		a.read = a.looked
	}
	if len(a.frameworks) == 0 && a.looked.Sub(a.read) < strangerRead {
		return seen, nil
	}
	a.read = a.looked
	return a.meeting(host)
}

// meeting reads the lists of sockets. a.mu is held.
func (a *attendance) meeting(host fs.FS) (seen seenSockets, err error) {
	seen.there, seen.other = map[uint64]bool{}, map[uint64]bool{}
	err = sockets.Each(host, func(s sockets.Socket) {
		listens, here := s.State == sockets.Listen, a.ports[s.Local.Port()]
		switch {
		case listens && here:
			seen.there[s.Inode], a.visited = true, true
		case listens && !usualLoopback(s.Local.Addr()):
			seen.other[s.Inode] = true
		case !listens && (here || a.ports[s.Remote.Port()]):
			a.visited = a.visited || s.State == sockets.Established || s.State == sockets.TimeWait
			if s.State == sockets.Established && s.Inode > 0 {
				seen.there[s.Inode] = true
			}
		case s.State == sockets.Established && s.Inode > 0 && s.Local.Addr() == s.Remote.Addr():
			seen.inside = append(seen.inside, s)
		}
	})
	return seen, err
}

// pairs finds ranks here that are connected with each other: they have met in a way of their own. Some ranks of a
// program are looked at, and speak for the others.
func (st *Job) pairs(procs []*Process, inside []sockets.Socket) {
	a := &st.meets
	taken := map[uint32]int{}
	holder := map[uint64]int{}
	for _, p := range procs {
		if taken[p.Spec.App]++; taken[p.Spec.App] > samples {
			continue
		}
		_ = st.s.Super.EachSocket(p.process.Pid(), func(inode uint64) bool { // place has seen to what does not show
			holder[inode] = int(p.ID)
			return true
		})
	}
	ends := map[[2]netip.AddrPort]int{}
	for _, s := range inside {
		if id, ok := holder[s.Inode]; ok {
			ends[[2]netip.AddrPort{s.Local, s.Remote}] = id
		}
	}
	for way, id := range ends {
		if other, ok := ends[[2]netip.AddrPort{way[1], way[0]}]; ok && other != id {
			a.elsewhere.Add(id)
		}
	}
}

// usualLoopback is where services of a process's own listen (wandb, debuggers). Gloo may listen at another one, that
// of the host's name (127.0.1.1).
func usualLoopback(a netip.Addr) bool {
	return a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a == netip.IPv6Loopback()
}

// place finds out which of the sockets a rank holds.
func (st *Job) place(p *Process, seen seenSockets) {
	a := &st.meets
	met, away := false, false
	err := st.s.Super.EachSocket(p.process.Pid(), func(inode uint64) bool {
		met = seen.there[inode]
		away = away || seen.other[inode]
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
func (st *Job) loads(procs []*Process) {
	a := &st.meets
	seen := map[uint32]int{}
	found := map[uint32]string{}
	for _, p := range procs {
		app := p.Spec.App
		if f, known := a.frameworks[app]; seen[app] >= samples || known && (f == "" || a.visited || time.Since(p.begun) > meetingYoung) {
			continue
		}
		if seen[app]++; seen[app] == 1 || found[app] != "" {
			found[app] = st.s.Libs.Framework(p.process.Pid())
		}
	}
	for app, framework := range found {
		if framework == "" {
			continue
		}
		if a.frameworks == nil {
			a.frameworks = map[uint32]string{}
		}
		if st.shards[app] {
			framework = ""
		}
		a.frameworks[app] = framework
	}
}

// tellMet tells the launcher, where there is something to tell that it does not know. a.mu is held.
func (st *Job) tellMet() {
	a := &st.meets
	m := &apiv1.Met{Job: st.Launch.Job.Number, Met: a.met.String(), Elsewhere: a.elsewhere.String(), Visited: a.visited}
	var loaded idset.Set
	for _, p := range st.Launch.Procs {
		if f := a.frameworks[p.App]; f != "" {
			m.Framework = cmp.Or(m.Framework, f)
			loaded.Add(st.id(int(p.Rank)))
		}
	}
	m.Loaded = loaded.String()
	if m.Loaded == "" && m.Met == "" && !m.Visited || proto.Equal(m, a.told) {
		return
	}
	a.told = m
	st.send(m.Frame())
}

// lastMeetingLook is a look when a rank has ended, before the launcher hears of that: its connections are listed for a
// while yet.
func (st *Job) lastMeetingLook() {
	a := &st.meets
	a.mu.Lock()
	needless := len(a.frameworks) == 0 || a.visited
	a.mu.Unlock()
	if !needless && st.watches() {
		st.lookAtMeeting()
	}
}

// watches says that the launcher wants to know who comes to where ranks meet.
func (st *Job) watches() bool {
	l := st.Launch
	return l.Job.GetMeeting().GetWatch() && l.Exec == nil && l.Job.Explain == 0 && l.Job.Size > 1
}
