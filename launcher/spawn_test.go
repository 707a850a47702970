package launcher

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/spawn"
)

// player is an agent whose ranks do what their program's name says:
//
//	parent    rank 0 sends the test's spawn request, and once it is answered an Event, and ends;
//	          the others end at the Event
//	later     as parent, a second after it has started
//	again     as parent, but asks once more when it is answered
//	child     writes its name and ends
//	speaks    ends, having spoken PMI
//	lingers   ends some time after it has started
//	lasts     ends longer after that
//	bad       ends with code 3
//	missing   cannot be started
//	culler    has process 1 ended with PMIx_Abort, and ends
//	chief     has process 1 ended with PMIx_Job_control, and ends
//	stays     runs until it gets a signal, or is stopped
//	gone      ends its agent's stream
//	MPICH 4.0.2, Open MPI 4.1.4   loads that library, waits for the word on it and ends
type player struct {
	name  string
	ask   *apiv1.SpawnRequest
	send  func(*apiv1.Frame) error
	mu    sync.Mutex
	seen  []string // frames, guarded by mu
	over  []string // of JobOver, guarded by mu
	alive []uint32 // ids, guarded by mu
	again bool     // one more request is to be sent
	waits []uint32 // ids of processes that wait for the word
}

func (p *player) serve(ctx context.Context, s wire.Stream) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	hello := &apiv1.HelloReply{Incarnation: p.name, Name: p.name + "-pod", Slots: 2, Cpus: 8}
	if err := s.Send((&apiv1.Opened{Protocol: apiv1.Protocol, Host: hello}).Frame()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	link := wire.NewLink(wire.NewClock())
	p.send = link.Send
	_ = link.Run(ctx, s, 0, func(f *apiv1.Frame) error { // its end is the launcher's doing, or gone's
		p.see(f)
		answer, err := p.answer(f)
		for _, f := range answer {
			_ = link.Send(f)
		}
		return err
	})
	return fmt.Errorf("%s ended", p.name)
}

func (p *player) see(f *apiv1.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch b := f.Body.(type) {
	case *apiv1.Frame_Launch:
		l := b.Launch
		var ranks []string
		for _, pr := range l.Procs {
			ranks = append(ranks, fmt.Sprintf("%d@%d.%d", pr.Rank, pr.NodeRank, pr.LocalRank))
		}
		line := fmt.Sprintf("job %d from %d, %d on %d hosts: %s", l.Job.Number, l.Job.Base, l.Job.Size, l.Job.Hosts, l.Apps[0].Argv[0])
		if len(ranks) > 0 {
			line += " " + strings.Join(ranks, " ")
		}
		if l.Job.Spawned {
			line += fmt.Sprintf(" by %d", l.Job.Parent)
		}
		p.seen = append(p.seen, line)
	case *apiv1.Frame_SpawnResult:
		p.seen = append(p.seen, fmt.Sprintf("result %d: job %d %.30s", b.SpawnResult.Id, b.SpawnResult.Job, b.SpawnResult.Error))
	case *apiv1.Frame_Signal:
		p.seen = append(p.seen, fmt.Sprintf("signal %d to %v", b.Signal.Number, b.Signal.Ranks))
	case *apiv1.Frame_JobOver:
		p.over = append(p.over, fmt.Sprintf("job %d over, mute %v", b.JobOver.Job, b.JobOver.Mute))
	case *apiv1.Frame_Gone:
		p.seen = append(p.seen, fmt.Sprintf("gone %s code %d signal %d host %v", b.Gone.Ids, b.Gone.Code, b.Gone.Signal, b.Gone.Host))
	}
}

func (p *player) answer(f *apiv1.Frame) (out []*apiv1.Frame, err error) {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Launch:
		return p.launch(b.Launch)
	case *apiv1.Frame_SpawnResult:
		if p.again {
			p.again = false
			return []*apiv1.Frame{{Body: &apiv1.Frame_SpawnRequest{SpawnRequest: p.ask}}}, nil
		}
		out = append(out, (&apiv1.Event{Data: []byte("e")}).Frame())
		out = append(out, p.end(0, 0)...)
	case *apiv1.Frame_Proceed:
		if b.Proceed.Refused != "" && len(p.waits) > 0 {
			f := &apiv1.StartFailed{Rank: p.waits[0], Phase: apiv1.StartPhase_START_INIT, Text: b.Proceed.Refused}
			out = append(out, f.Frame())
			p.waits = nil
		}
		for _, id := range p.waits {
			p.alive = append(p.alive, id)
			out = append(append(out, started(int(id))), p.end(id, 0)...)
		}
		p.waits = nil
	case *apiv1.Frame_Event:
		if len(p.alive) > 0 {
			out = p.end(slices.Max(p.alive), 0)
		}
	case *apiv1.Frame_Signal:
		for _, id := range b.Signal.Ranks {
			out = append(out, p.end(id, b.Signal.Number)...)
		}
	case *apiv1.Frame_Stop:
		for _, id := range slices.Clone(p.alive) {
			p.end(id, 0)
			out = append(out, stoppedByUs(int(id))...)
		}
	case *apiv1.Frame_Bye:
		out = append(out, (&apiv1.Closed{}).Frame())
	}
	return out, nil
}

func (p *player) launch(l *apiv1.Launch) (out []*apiv1.Frame, err error) {
	for _, pr := range l.Procs {
		id, does := l.Job.Base+pr.Rank, l.Apps[pr.App].Argv[0]
		if does == "missing" {
			f := &apiv1.StartFailed{Rank: id, Text: "/x: not found"}
			return append(out, f.Frame()), nil
		}
		if strings.Contains(does, "MPI") {
			c := &apiv1.Chosen{Job: l.Job.Number, App: pr.App, Pmi: apiv1.Pmi_PMI_FD, Library: does, Sure: true, Waits: l.Job.Await}
			out = append(out, c.Frame())
			p.waits = append(p.waits, id)
			continue
		}
		p.mu.Lock()
		p.alive = append(p.alive, id)
		p.mu.Unlock()
		out = append(out, started(int(id)))
		switch does {
		case "parent", "again":
			if pr.Rank == 0 {
				p.again = does == "again"
				out = append(out, p.ask.Frame())
			}
		case "culler":
			a := &apiv1.Aborted{Rank: id, Code: 3, Text: "enough", Targets: "1"}
			out = append(out, (&apiv1.Chosen{App: pr.App, Pmi: apiv1.Pmi_PMI_PMIX}).Frame(), a.Frame())
			out = append(out, p.end(id, 0)...)
		case "chief":
			c := &apiv1.Control{Rank: id, Targets: "1", Signal: 9, End: true}
			out = append(out, (&apiv1.Chosen{App: pr.App, Pmi: apiv1.Pmi_PMI_PMIX}).Frame(), c.Frame())
			out = append(out, p.end(id, 0)...)
		case "later":
			time.AfterFunc(time.Second, func() {
				_ = p.send(p.ask.Frame())
			})
		case "lingers", "lasts":
			after := time.Second / 2
			if does == "lasts" {
				after = 3 * time.Second
			}
			time.AfterFunc(after, func() {
				for _, f := range p.end(id, 0) {
					_ = p.send(f)
				}
			})
		case "child":
			out = append(out, output(int(id), strings.Join(l.Apps[pr.App].Env, " ")+"\n"))
			out = append(out, p.end(id, 0)...)
		case "speaks":
			fs := p.end(id, 0)
			fs[0].GetExited().Pmi = apiv1.PmiState_PMI_FINALIZED
			out = append(out, fs...)
		case "bad":
			p.end(id, 0)
			out = append(out, exited(int(id), 3)...)
		case "gone":
			return out, fmt.Errorf("gone")
		}
	}
	return out, nil
}

// end is the end of a process, by a signal or with 0.
func (p *player) end(id uint32, signal int32) []*apiv1.Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.alive, id)
	if i < 0 {
		return nil
	}
	p.alive = slices.Delete(p.alive, i, i+1)
	fs := exited(int(id), 0)
	fs[0].GetExited().Signal = signal
	return fs
}

func program(name string, procs int, hosts ...string) *apiv1.SpawnApp {
	return &apiv1.SpawnApp{App: &apiv1.App{Argv: []string{name}, Env: []string{"B=b"}}, Procs: uint32(procs), Hosts: hosts}
}

// playSpawn runs a job whose ranks go round the hosts. Their addresses are 10.0.0.0 and up, and at
// 10.0.0.9 is an agent that the run does not have.
func playSpawn(t *testing.T, placed []job.Host, first []job.App, pmi job.Protocol, apps ...*apiv1.SpawnApp) (code int, out, errs string, seen map[string][]string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cfg := Config{Wishes: Wishes{Apps: first, Policy: placement.Policy{MapBy: placement.ByNode}, PMI: pmi}, Output: iof.Config{Mode: iof.Tag}, Reach: reach.Reach{Sources: hosts.Sources{Root: t.TempDir()}, Stdout: &stdout, Stderr: &stderr,
		Embedded: func(context.Context, wire.Stream) error { return nil }}}
	cfg.Identity = ourIdentity(t)
	cfg.Fill()
	r := newDriver(cfg)
	players := map[string]*player{}
	meet := func(name string) *player {
		p := players[name]
		if p == nil { // else it was let go and is asked anew, or its stream ended before the driver had read its Closed
			p = &player{name: name, ask: &apiv1.SpawnRequest{Id: 7, Apps: apps}}
			players[name] = p
		}
		return p
	}
	life, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if r.plan, err = placement.Place(placed, r.cfg.Apps, r.cfg.Policy); err != nil {
		t.Fatal(err)
	}
	o := reach.NewOpener(&r.cfg.Reach)
	var have []reach.Found
	want := make([]hosts.Wanted, len(placed))
	for i, h := range placed {
		want[i].Entry = hostlist.Entry{Name: h.Name, Slots: h.Slots, Given: h.SlotsGiven}
		want[i].Fixed = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 1)}
		if i < len(r.plan.Hosts) {
			s, wait, err := link.Embed(life, meet(h.Name).serve, o.Open())
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, reach.Found{Wanted: want[i], Session: s, Wait: wait})
		}
	}
	r.dial = func(*reach.Reach, int) link.Attach {
		return func(_, life context.Context, addr netip.AddrPort, open *apiv1.Open) (*link.Session, error) {
			name := addr.Addr().String()
			if b := addr.Addr().As4(); int(b[3]) < len(placed) {
				name = placed[b[3]].Name
			} else if b[3] != 9 {
				return nil, link.Causef(link.StageTLS, "%v: no", addr.Addr())
			}
			if p := addr.Port(); p != 1 && p != uint16(cfg.Identity.Ports()[0]) {
				return nil, &link.Cause{Stage: link.StageConnect, Refused: true, Err: fmt.Errorf("%v: connection refused", addr)}
			}
			s, _, err := link.Embed(life, meet(name).serve, open)
			if s != nil {
				s.Addr = addr
			}
			return s, err
		}
	}
	var all []phases.Answer
	for i, w := range want {
		all = append(all, phases.Answer{Wanted: w})
		if i < len(have) {
			all[i].Host = r.hostOf(have[i])
		}
	}
	r.know(all)
	r.number = 1
	if err := r.prepare(have, o); err != nil {
		t.Fatal(err)
	}
	if err := r.carry(context.Background(), life, cancel); err != nil {
		t.Fatal(err)
	}
	for _, l := range r.run.Verdict().Explain() {
		r.say("%s", l)
	}
	seen = map[string][]string{}
	for name, p := range players {
		seen[name] = p.seen
		if p.over != nil {
			seen[name+" over"] = p.over
		}
	}
	return r.run.Verdict().Exit(), stdout.String(), stderr.String(), seen
}

// ourIdentity is one by which agents of other hosts can be asked.
func ourIdentity(t *testing.T) *identity.Identity {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("our secret of more than sixteen bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := identity.Load(identity.Options{KeyFile: file, Scope: "test", Role: identity.RoleLauncher, Name: "h", Env: func(string) string { return "" }, Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSpawn(t *testing.T) {
	given := func(names ...string) (hosts []job.Host) {
		for _, n := range names {
			hosts = append(hosts, job.Host{Name: n, Slots: 2, SlotsGiven: true})
		}
		return hosts
	}
	for _, tt := range []struct {
		name  string
		hosts []job.Host
		ranks int       // of "parent"
		first []job.App // instead of it
		pmi   job.Protocol
		apps  []*apiv1.SpawnApp
		code  int
		out   []string // lines, sorted
		says  string
		seen  map[string][]string
		told  string // to the last host of the command line
	}{
		{name: "on the run's hosts", hosts: given("w0", "w1"), ranks: 2, apps: []*apiv1.SpawnApp{program("child", 2)},
			out: []string{"[1.0] A=a B=b", "[1.1] A=a B=b"},
			seen: map[string][]string{
				"w0": {"job 0 from 0, 2 on 2 hosts: parent 0@0.0", "job 1 from 2, 2 on 2 hosts: child 0@0.0 by 0", "result 7: job 1 "},
				"w1": {"job 0 from 0, 2 on 2 hosts: parent 1@1.0", "job 1 from 2, 2 on 2 hosts: child 1@1.0 by 0"}}},
		{name: "on one of them", hosts: given("w0", "w1"), ranks: 2, apps: []*apiv1.SpawnApp{program("child", 1, "W1-pod")},
			out: []string{"[1.0] A=a B=b"},
			seen: map[string][]string{
				"w0": {"job 0 from 0, 2 on 2 hosts: parent 0@0.0", "job 1 from 2, 1 on 1 hosts: child by 0", "result 7: job 1 "},
				"w1": {"job 0 from 0, 2 on 2 hosts: parent 1@1.0", "job 1 from 2, 1 on 1 hosts: child 0@0.0 by 0"}}},
		{name: "on a host of the command line that has no rank", hosts: given("w0", "w1"), ranks: 1, apps: []*apiv1.SpawnApp{program("child", 3)},
			out: []string{"[1.0] A=a B=b", "[1.1] A=a B=b", "[1.2] A=a B=b"},
			seen: map[string][]string{
				"w0": {"job 0 from 0, 1 on 1 hosts: parent 0@0.0", "job 1 from 1, 3 on 2 hosts: child 0@0.0 by 0", "result 7: job 1 "},
				"w1": {"job 0 from 0, 1 on 1 hosts: parent", "job 1 from 1, 3 on 2 hosts: child 1@1.0 2@1.1 by 0"}}},
		{name: "on a host that nobody knew", hosts: given("w0"), ranks: 1, apps: []*apiv1.SpawnApp{program("child", 1), program("child", 1, "10.0.0.9:1")},
			out: []string{"[1.0] A=a B=b", "[1.1] A=a B=b"},
			seen: map[string][]string{
				"w0":       {"job 0 from 0, 1 on 1 hosts: parent 0@0.0", "job 1 from 1, 2 on 2 hosts: child 0@0.0 by 0", "result 7: job 1 "},
				"10.0.0.9": {"job 0 from 0, 1 on 1 hosts: parent", "job 1 from 1, 2 on 2 hosts: child 1@1.0 by 0"}}},
		{name: "on a host that refuses us", hosts: given("w0"), ranks: 1, apps: []*apiv1.SpawnApp{program("child", 1, "10.0.0.8")},
			says: "mpiup: rank 0 on w0 could not spawn child: host 10.0.0.8: 10.0.0.8: no\n",
			seen: map[string][]string{"w0": {"job 0 from 0, 1 on 1 hosts: parent 0@0.0", "result 7: job 0 host 10.0.0.8: 10.0.0.8: no"}}},
		{name: "on a host that was let go", hosts: given("w0", "w1"), first: []job.App{{Argv: []string{"later"}, N: 1}, {Argv: []string{"child"}, N: 1}},
			apps: []*apiv1.SpawnApp{program("child", 2, "w1")}, out: []string{"[1.0] B=b", "[1.1] B=b", "[1] "},
			seen: map[string][]string{
				"w0": {"job 0 from 0, 2 on 2 hosts: later 0@0.0", "job 1 from 2, 2 on 1 hosts: child by 0", "result 7: job 1 "},
				"w1": {"job 0 from 0, 2 on 2 hosts: later 1@1.0", "job 0 from 0, 2 on 2 hosts: later", "job 1 from 2, 2 on 1 hosts: child 0@0.0 1@0.1 by 0"}}},
		{name: "on a host of the run by another name", hosts: given("w0"), ranks: 1, apps: []*apiv1.SpawnApp{program("child", 1, "10.0.0.0")},
			says: "could not spawn child: host 10.0.0.0: 10.0.0.0:16748: the agent there is host w0 already; agents of one machine need a --name each\n"},
		{name: "no room", hosts: given("w0", "w1"), ranks: 2, apps: []*apiv1.SpawnApp{program("child", 3)},
			says: "mpiup: rank 0 on w0 could not spawn child: 3 processes of child asked for, but there is room for 2",
			seen: map[string][]string{
				"w0": {"job 0 from 0, 2 on 2 hosts: parent 0@0.0", "result 7: job 0 3 processes of child asked for"},
				"w1": {"job 0 from 0, 2 on 2 hosts: parent 1@1.0"}}},
		{name: "room that comes", hosts: given("w0"), first: []job.App{{Argv: []string{"again"}, N: 1}}, apps: []*apiv1.SpawnApp{program("lingers", 1)},
			seen: map[string][]string{
				"w0": {"job 0 from 0, 1 on 1 hosts: again 0@0.0", "job 1 from 1, 1 on 1 hosts: lingers 0@0.0 by 0", "result 7: job 1 ",
					"job 2 from 2, 1 on 1 hosts: lingers 0@0.0 by 0", "result 7: job 2 "}}},
		{name: "no room, also later", hosts: given("w0"), first: []job.App{{Argv: []string{"again"}, N: 1}}, apps: []*apiv1.SpawnApp{program("lasts", 1)},
			says: "mpiup: rank 0 on w0 could not spawn lasts: 1 process of lasts asked for, but there is room for 0"},
		{name: "nonsense", hosts: given("w0"), ranks: 1, apps: []*apiv1.SpawnApp{{}}, says: "could not spawn a program: spawn: program 0 has no name",
			seen: map[string][]string{"w0": {"job 0 from 0, 1 on 1 hosts: parent 0@0.0", "result 7: job 0 spawn: program 0 has no name"}}},
		{name: "a program that is missing", hosts: given("w0", "w1"), ranks: 2, apps: []*apiv1.SpawnApp{program("stays", 1), program("missing", 1)},
			says: "mpiup: rank 0 on w0 could not spawn stays: rank 1 of spawned job 1 on w1 could not be started: /x: not found\n",
			seen: map[string][]string{
				"w0": {"job 0 from 0, 2 on 2 hosts: parent 0@0.0", "job 1 from 2, 2 on 2 hosts: stays 0@0.0 by 0",
					"result 7: job 0 rank 1 of spawned job 1 on w1 ", "signal 9 to [2]"},
				"w1": {"job 0 from 0, 2 on 2 hosts: parent 1@1.0", "job 1 from 2, 2 on 2 hosts: stays 1@1.0 by 0"}}},
		{name: "programs of two libraries", hosts: given("w0", "w1"), ranks: 2, pmi: job.AutoProtocol,
			apps: []*apiv1.SpawnApp{program("MPICH 4.0.2", 1, "w0"), program("Open MPI 4.1.4", 1, "w1")},
			says: "mpiup: rank 0 on w0 could not spawn MPICH 4.0.2: these MPI libraries cannot talk to each other: MPICH 4.0.2 in MPICH 4.0.2 of spawned job 1 on host w0 (PMI-1), " +
				"Open MPI 4.1.4 in Open MPI 4.1.4 of spawned job 1 on host w1 (PMI-1)\n",
			seen: map[string][]string{
				"w0": {"job 0 from 0, 2 on 2 hosts: parent 0@0.0", "job 1 from 2, 2 on 2 hosts: MPICH 4.0.2 0@0.0 by 0", "result 7: job 0 these MPI libraries cannot tal"},
				"w1": {"job 0 from 0, 2 on 2 hosts: parent 1@1.0", "job 1 from 2, 2 on 2 hosts: MPICH 4.0.2 1@1.0 by 0"}}},
		{name: "programs of one library", hosts: given("w0", "w1"), ranks: 2, pmi: job.AutoProtocol,
			apps: []*apiv1.SpawnApp{program("MPICH 4.0.2", 1, "w0"), program("MPICH 4.0.2", 1, "w1")},
			seen: map[string][]string{
				"w0": {"job 0 from 0, 2 on 2 hosts: parent 0@0.0", "job 1 from 2, 2 on 2 hosts: MPICH 4.0.2 0@0.0 by 0", "result 7: job 1 "},
				"w1": {"job 0 from 0, 2 on 2 hosts: parent 1@1.0", "job 1 from 2, 2 on 2 hosts: MPICH 4.0.2 1@1.0 by 0"}}},
		{name: "one that a host did not try after it", hosts: given("w0"), ranks: 1, apps: []*apiv1.SpawnApp{
			{App: &apiv1.App{Argv: []string{"missing"}}, Procs: 2, PerHost: 2, AddHosts: []string{"10.0.0.9"}}},
			says: "rank 0 of spawned job 1 on 10.0.0.9 could not be started",
			seen: map[string][]string{
				"w0":       {"job 0 from 0, 1 on 1 hosts: parent 0@0.0", "job 1 from 1, 2 on 1 hosts: missing by 0", "result 7: job 0 rank 0 of spawned job 1 on 10."},
				"10.0.0.9": {"job 0 from 0, 1 on 1 hosts: parent", "job 1 from 1, 2 on 1 hosts: missing 0@0.0 1@0.1 by 0"}}},
		{name: "a child that fails", hosts: given("w0", "w1"), ranks: 2, pmi: job.PMIx, apps: []*apiv1.SpawnApp{program("stays", 1, "w1"), program("bad", 1, "w0")},
			code: 3, says: "mpiup: rank 1 of spawned job 1 on w0 exited with code 3\n", told: "gone 3 code 3 signal 0 host false"},
		{name: "a child's host that is lost", hosts: given("w0"), ranks: 1, apps: []*apiv1.SpawnApp{program("stays", 1, "w0"), program("gone", 1, "10.0.0.9")},
			code: 248, says: "host 10.0.0.9 with rank 1 of spawned job 1 was lost", pmi: job.AutoProtocol, told: "gone 2 code 0 signal 0 host true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := tt.first
				if first == nil {
					first = []job.App{{Argv: []string{"parent"}, N: tt.ranks, Env: []string{"A=a"}}}
				}
				code, out, errs, seen := playSpawn(t, tt.hosts, first, tt.pmi, tt.apps...)
				lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
				slices.Sort(lines)
				if code != tt.code || !strings.Contains(errs, tt.says) || len(tt.says) == 0 && errs != "" {
					t.Errorf("code %d, %q; want %d, %q", code, errs, tt.code, tt.says)
				}
				if strings.Join(lines, "\n") != strings.Join(tt.out, "\n") {
					t.Errorf("output %q, want %q", lines, tt.out)
				}
				if last := tt.hosts[len(tt.hosts)-1].Name; tt.told != "" && !slices.Contains(seen[last], tt.told) {
					t.Errorf("%s was told %q, not %q", last, seen[last], tt.told)
				}
				maps.DeleteFunc(seen, func(name string, _ []string) bool { return strings.HasSuffix(name, " over") })
				if tt.seen != nil {
					if d := cmp.Diff(tt.seen, seen); d != "" {
						t.Error(d)
					}
				}
			})
		})
	}
}

// Every host that is there is told when nothing is left of a spawned job, and whether it ever spoke.
func TestSpawnedJobsThatAreOver(t *testing.T) {
	for _, tt := range []struct {
		child string
		want  []string
	}{
		{"child", []string{"job 1 over, mute true", "job 2 over, mute true"}},
		{"speaks", []string{"job 1 over, mute false", "job 2 over, mute false"}},
		{"missing", []string{"job 1 over, mute false", "job 2 over, mute false"}},
	} {
		t.Run(tt.child, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts := []job.Host{{Name: "w0", Slots: 4, SlotsGiven: true}}
				first := []job.App{{Argv: []string{"again"}, N: 1}, {Argv: []string{"lasts"}, N: 1}}
				code, _, errs, seen := playSpawn(t, hosts, first, job.AutoProtocol, program("child", 1), program(tt.child, 1))
				if got := seen["w0 over"]; code != 0 || !slices.Equal(got, tt.want) {
					t.Errorf("code %d, %q; told %q, want %q", code, errs, got, tt.want)
				}
			})
		})
	}
}

func TestTargets(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	allowed := filepath.Join(dir, "lists")
	if err := os.Mkdir(allowed, 0o700); err != nil {
		t.Fatal(err)
	}
	file, outside := put("lists/hosts", "w3 slots=4\nw4\n"), put("token", "s3cr3t\n")
	put("lists/secret", "host s3cr3t=password\n")
	put("lists/empty", "# s3cr3t\n")
	for link, to := range map[string]string{"up": "../token", "away": outside} {
		if err := os.Symlink(to, filepath.Join(allowed, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(allowed, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		app  *apiv1.SpawnApp
		want string // or the error
	}{
		{"none", &apiv1.SpawnApp{}, "[]"},
		{"hosts", &apiv1.SpawnApp{Hosts: []string{"w0", "w1:2", "w2,w0"}}, "[{w0 2} {w1 2} {w2 0}]"},
		{"hosts that join, hosts in files", &apiv1.SpawnApp{AddHosts: []string{"w9"}, Hostfile: file, AddHostfile: "hosts"}, "[{w9 0} {w3 8} {w4 2}]"},
		{"no name", &apiv1.SpawnApp{Hosts: []string{"w0,"}}, "the host list is empty"},
		{"no file", &apiv1.SpawnApp{Hostfile: "nowhere"}, `hostfile "nowhere" is not to be had below`},
		{"a file elsewhere", &apiv1.SpawnApp{Hostfile: outside}, "is not to be had below"},
		{"a file above", &apiv1.SpawnApp{AddHostfile: "../token"}, "is not to be had below"},
		{"a link that leads up", &apiv1.SpawnApp{Hostfile: "up"}, "is not to be had below"},
		{"a link that leads away", &apiv1.SpawnApp{Hostfile: "away"}, "is not to be had below"},
		{"a device", &apiv1.SpawnApp{Hostfile: "/dev/zero"}, "is not to be had below"},
		{"a pipe", &apiv1.SpawnApp{Hostfile: "pipe"}, "no regular file"},
		{"no hostfile", &apiv1.SpawnApp{Hostfile: "secret"}, "line 1 is none of a hostfile"},
		{"no host", &apiv1.SpawnApp{Hostfile: "empty"}, "cannot be read as one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := targetsOf(tt.app, allowed)
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cr3t") {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			if fmt.Sprint(got[0]) != tt.want {
				t.Errorf("%v, want %s", got[0], tt.want)
			}
		})
	}
}

// A rank names files of the launcher's host as hostfiles, to be told what is in them.
func TestSpawnReadsNoOtherFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("s3cr3t-host\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, allowed, file, says string }{
		{"another file", t.TempDir(), filepath.Join(dir, "token"), "is not to be had below"},
		{"hosts that are not there", dir, "token", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := targetsOf(&apiv1.SpawnApp{Hostfile: tt.file, Procs: 1}, tt.allowed)
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("the user is told %v", err)
			}
		})
	}
}

func targetsOf(app *apiv1.SpawnApp, dir string) ([][]job.Share, error) {
	programs := []job.SpawnProgram{{Hosts: app.Hosts, AddHosts: app.AddHosts, Hostfile: app.Hostfile, AddHostfile: app.AddHostfile}}
	return spawn.Targets(programs, func(file string) ([]hostlist.Entry, error) { return hosts.ReadBelow(dir, file) })
}
