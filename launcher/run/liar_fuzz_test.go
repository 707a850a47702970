package run

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mpiup/mpiup/internal/api/codec"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/cost"
)

// A whole session of six ranks on three hosts, w0 to w2, of which the agent of w0 lies. Bytes say what happens, one after the other: a
// frame of the liar's, the next one of an honest host, a timer, minutes without an event, a signal, hosts that come (an elastic job), or that the
// launcher is lost and the next one goes on. A rank may spawn onto a fourth host, w3, which joins for it.
//
// After each of them: no panic, no rank of another host has moved by a lie, what the others are sent is theirs, and a fault names the
// liar. At the end: memory within a bound of the bytes, and a verdict of readable length that blames no other host, whose texts a
// terminal shows as they are.
type session struct {
	*play
	t      testing.TB
	in     []byte
	honest [4]*agent // of w0 none
	over   [4]bool   // connections that have ended
	vetted bool      // frames come as they do from the wire: each text short and visible (internal/api/codec)
	asked  bool      // the user, or a clock, has ended the run
	begun  int       // launchers so far
}

// agent is a host that keeps to the protocol, in so far as a launcher can tell.
type agent struct {
	ids    []int
	state  map[int]rankState
	output map[int]bool
	retell []*apiv1.Frame // to the next launcher
	ask    uint64         // question for who waits
	stacks bool           // it is for where ranks are
	epoch  uint64
	stop   bool
	bye    bool
}

func newAgent() *agent { return &agent{state: map[int]rankState{}, output: map[int]bool{}} }

// runs says that both ranks of the first job run.
func (a *agent) runs() bool {
	return len(a.ids) > 1 && a.ids[1] < 6 && a.state[a.ids[0]] == rankRunning && a.state[a.ids[1]] == rankRunning
}

const (
	liar        = 0
	maxSteps    = 512
	maxRestarts = 3
)

func newSession(t testing.TB, in []byte) *session {
	s := &session{t: t, in: in}
	for i := range s.honest[1:] {
		s.honest[1+i] = newAgent()
	}
	s.launcher(false)
	return s
}

// launcher is the first one, or one that takes the run over.
func (s *session) launcher(adopted bool) {
	flags := s.byte()
	cfg := Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"a.out"}, N: 6}}}, Adopted: adopted, Hold: journal}
	cfg.Recover, cfg.Linger = flags&1 != 0, flags&2 != 0
	cfg.Stall.After, cfg.Stall.Init, cfg.Stall.Abort = 5*time.Minute, time.Minute, flags&4 != 0
	cfg.Stall.Watch, cfg.Stall.WatchWindow = flags&8 == 0, time.Second
	cfg.SpawnFiles, cfg.Dumps, s.vetted = flags&8 != 0, true, flags&16 != 0
	cfg.PMI = []job.Protocol{job.AutoProtocol, job.NoProtocol}[flags>>5&1]
	hosts := []job.Host{{Name: "w0", Slots: 2, SlotsGiven: true}, {Name: "w1", Slots: 2, SlotsGiven: true}, {Name: "w2", Slots: 2, SlotsGiven: true}}
	if flags&64 != 0 {
		hosts = append(hosts, job.Host{Name: "w3", Slots: 2, SlotsGiven: true}) // without ranks: it joins for what ranks spawn
	}
	s.play, s.over, s.honest[3] = playing(s.t, cfg, hosts), [4]bool{}, newAgent()
	s.begun++
	if !adopted {
		s.carry(s.Start(s.now))
		return
	}
	s.carry(s.Adopt(s.now))
	for _, a := range s.honest[1:3] {
		a.retell, a.bye, a.stop, a.ask = []*apiv1.Frame{(&apiv1.Resumed{}).Frame()}, false, false, 0
		for _, id := range a.ids {
			if a.state[id] != rankCreated {
				a.retell = append(a.retell, (&apiv1.Started{Rank: uint32(id), Pid: 7}).Frame())
			}
			if a.state[id].over() {
				a.retell = append(a.retell, (&apiv1.Exited{Rank: uint32(id), Pmi: apiv1.PmiState_PMI_FINALIZED}).Frame())
				if !a.output[id] {
					a.retell = append(a.retell, (&apiv1.OutputEnd{Rank: uint32(id)}).Frame())
				}
			}
		}
	}
}

func (s *session) byte() byte {
	if len(s.in) == 0 {
		return 0
	}
	b := s.in[0]
	s.in = s.in[1:]
	return b
}

// play goes through all of it.
func (s *session) playAll() {
	for n := 0; len(s.in) > 0 && n < maxSteps && s.Active() > 0; n++ {
		s.now.Wall, s.now.Clock = s.now.Wall.Add(time.Second), s.now.Clock+time.Second
		switch b := s.byte(); {
		case b < 0x90:
			s.lie(s.frame(b))
		case b < 0xe0:
			s.truth(1 + int(b)%3)
		case b < 0xe7:
			t := Timer(int(s.byte()) % int(Timers))
			s.asked = s.asked || slices.Contains([]Timer{Limit, Grace, Bound, Hang, Answers}, t) // the clock may end the run
			s.do(Expired{t})
		case b == 0xe7: // minutes, in which it is looked whether the run hangs
			s.asked = true
			for range 1 + s.byte()&3 {
				s.now.Wall, s.now.Clock = s.now.Wall.Add(4*time.Minute), s.now.Clock+4*time.Minute
				s.do(Expired{Hang})
			}
		case b < 0xeb:
			s.asked = true
			s.do(Signal{[]int{job.SIGINT, job.SIGTERM, job.SIGUSR1}[int(b-0xe8)]})
		case b < 0xee && !s.over[liar]:
			s.over[liar] = true
			s.do(Ended{Host: liar, Lost: map[bool]*model.Lost{true: {Why: "x", Fenced: b&2 != 0}}[b&1 == 0]})
		case b == 0xee:
			s.asked = true
			s.do(Came{Hosts: "w7", Size: 8})
		case b < 0xf4:
			if s.begun <= maxRestarts && len(s.jobs) == 1 && !s.succession.withdrawn && !s.asked && !s.verdict.Any() {
				s.launcher(true)
			}
		default:
			n := min(int(s.byte()), len(s.in))
			f := &apiv1.Frame{}
			if proto.Unmarshal(s.in[:n], f) == nil && f.Body != nil {
				s.lie(f)
			}
			s.in = s.in[n:]
		}
	}
	s.do(Over{})
	s.Hear(func(int) verdict.Said { return verdict.Said{} })
	s.verdict.Explain()
	s.named(0, "all of it", nil)
	v, bad := s.verdict.Verdict(verdict.Circumstances{Phase: s.Phase()})
	if !bad {
		return
	}
	lines := strings.Join(v.End(verdict.LastLines{All: true}), "\n")
	if len(lines) > 64<<10 {
		s.t.Errorf("a verdict of %d bytes: %.400s", len(lines), lines)
	}
	if s.vetted && visible.Text(lines) != lines {
		s.t.Errorf("a verdict that a terminal obeys: %q", lines)
	}
}

// do is an event, with what the honest hosts make of what they are sent.
func (s *session) do(e Event) []Order {
	list := s.Step(s.now, e)
	list = append(list, s.Step(s.now, Turn{})...)
	s.carry(list)
	return list
}

func (s *session) carry(list []Order) {
	for _, o := range list {
		switch o := o.(type) {
		case Say:
			s.said.WriteString(o.Line + "\n")
		case Grow:
			s.carry(s.Step(s.now, Grown{}))
		case Reach:
			answer := Reached{Err: errors.New("no way there")}
			if slices.Contains(o.Names, "w3") && !slices.Contains(o.Has, 3) {
				answer = Reached{Sites: []model.Host{{Name: "w3", CPUs: 2, Slots: 2}}}
			}
			s.carry(s.Step(s.now, answer))
		case ReadHosts:
			answer := HostsRead{Err: errors.New("no such file")}
			if s.now.Clock%(2*time.Second) < time.Second {
				answer = HostsRead{Targets: make([][]job.Share, len(o.Programs))}
				for i := range answer.Targets {
					answer.Targets[i] = []job.Share{{Host: "w3", Slots: 1}, {Host: "w1"}}
				}
			}
			s.carry(s.Step(s.now, answer))
		case Send:
			if o.Host != liar && o.Host < len(s.honest) {
				s.honest[o.Host].take(o.Frame)
			}
		}
	}
}

// take is what an honest host makes of a frame.
func (a *agent) take(f *apiv1.Frame) {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Launch:
		for _, p := range b.Launch.Procs {
			a.ids = append(a.ids, int(b.Launch.Job.Base+p.Rank))
		}
	case *apiv1.Frame_Stop:
		a.stop = true
	case *apiv1.Frame_Bye:
		a.bye = true
	case *apiv1.Frame_AskWaits:
		a.ask, a.stacks = b.AskWaits.Id, b.AskWaits.Stacks != ""
	}
}

// truth is the next frame of an honest host.
func (s *session) truth(h int) {
	a := s.honest[h]
	if s.over[h] || h >= len(s.hosts) {
		return
	}
	if a.bye {
		s.over[h] = true
		s.do(Frame{Host: h, Frame: (&apiv1.Closed{}).Frame(), At: s.now.Clock})
		s.do(Ended{Host: h})
		return
	}
	if f := s.next(a); f != nil {
		before := s.faults()
		s.do(Frame{Host: h, Frame: f, At: s.now.Clock})
		s.named(before, "an honest frame", f)
	}
}

func (s *session) next(a *agent) *apiv1.Frame {
	if len(a.retell) > 0 {
		f := a.retell[0]
		a.retell = a.retell[1:]
		return f
	}
	what := s.byte()
	for _, id := range a.ids {
		switch rank := uint32(id); {
		case a.state[id] == rankCreated && a.stop:
			a.state[id] = rankExited // and is not spoken of
		case a.state[id] == rankCreated:
			a.state[id], a.output[id] = rankRunning, true
			return (&apiv1.Started{Rank: rank, Pid: 7}).Frame()
		case a.state[id] == rankRunning && (a.stop || what < 0x20 && a.ask == 0):
			a.state[id] = rankExited
			return (&apiv1.Exited{Rank: rank, StoppedByUs: a.stop, Pmi: apiv1.PmiState_PMI_FINALIZED}).Frame()
		case a.state[id].over() && a.output[id]:
			a.output[id] = false
			return (&apiv1.OutputEnd{Rank: rank}).Frame()
		}
	}
	if !a.runs() {
		return nil
	}
	own := idset.Of(a.ids[0], a.ids[1]).String()
	switch {
	case a.ask != 0:
		id := a.ask
		a.ask = 0
		if a.stacks {
			w := &apiv1.Waits{Id: id}
			for _, p := range a.ids[:2] {
				w.Stacks = append(w.Stacks, &apiv1.ProcStack{Id: uint32(p), Pid: 7, Means: "eu-stack", Frames: []string{"poll", "MPI_Barrier", "main"}})
			}
			return w.Frame()
		}
		switch what % 3 {
		case 1: // they have not called MPI_Init
			return (&apiv1.Waits{Id: id, Silent: own}).Frame()
		case 2: // they are not in MPI
			return (&apiv1.Waits{Id: id}).Frame()
		}
		return (&apiv1.Waits{Id: id, Waits: []*apiv1.Wait{{Set: "0-5", Entered: own, Seconds: 90}}}).Frame()
	case what < 0x60:
		a.epoch++
		return (&apiv1.FenceEnter{Set: "0-5", Epoch: a.epoch, Data: []byte("x"), Collect: true}).Frame()
	case what < 0xa0:
		return (&apiv1.Activity{Idle: own, Places: []*apiv1.Place{{Ids: own, Where: "futex"}}}).Frame()
	case what < 0xb0:
		return (&apiv1.FetchRequest{Id: uint64(what), Owner: 0, Key: "k"}).Frame()
	}
	return (&apiv1.Met{Framework: "torch", Loaded: own, Met: own}).Frame()
}

func (s *session) faults() int {
	if !s.verdict.Any() {
		return 0
	}
	return 1
}

// named says that the first fault is the liar's, or nobody's where the user or a clock has ended the run.
func (s *session) named(before int, what string, f *apiv1.Frame) {
	if before > 0 || s.asked {
		return
	}
	c, ok := s.verdict.Cause()
	if !ok || c.Node == liar || c.ID >= 0 && s.who.HostOf(c.ID) == liar || c.Node < 0 && strings.Contains(c.Sentence(), "w0") {
		return
	}
	s.t.Errorf("after %s (%.200v) the verdict is: %s", what, f, c.Sentence())
}

// lie is a frame of the liar's.
func (s *session) lie(f *apiv1.Frame) {
	if s.over[liar] || f == nil {
		return
	}
	type kept struct {
		process
		host int
	}
	var before []kept
	for id := range s.ranks {
		before = append(before, kept{s.ranks[id], s.who.HostOf(id)})
	}
	faults, asks := s.faults(), ends(f)
	sent := proto.CloneOf(f)
	if s.vetted {
		codec.VetFrame(sent)
	}
	list := s.do(Frame{Host: liar, Frame: sent, At: s.now.Clock})
	for id, was := range before {
		is := s.ranks[id]
		if asks {
			is.wanted = was.wanted
		}
		if was.host != liar && (is != was.process || s.who.HostOf(id) != was.host) {
			s.t.Errorf("rank %d of %s is %+v and was %+v, after %.200v", id, s.hosts[was.host].Name, is, was.process, f)
		}
	}
	for _, o := range list {
		s.mine(o, f, len(before))
	}
	s.named(faults, "a lie", f)
}

// ends says that a frame is one by which a rank may end others: PMIx_Abort, PMIx_Job_control.
func ends(f *apiv1.Frame) bool { return f.GetAborted().GetTargets() != "" || f.GetControl() != nil }

// mine looks at an order that came of a lie: it is about the liar's ranks, or about those that the lie has spawned.
func (s *session) mine(o Order, f *apiv1.Frame, known int) {
	foreign := func(id int) bool { return id < known && s.who.HostOf(id) != liar }
	id := -1
	switch o := o.(type) {
	case Started:
		id = o.ID
	case NotStarted:
		id = o.ID
	case Exited:
		id = o.ID
	case Silent:
		id = o.ID
	case EndOutput:
		id = o.ID
	case NoInput:
		id = o.ID
	case Dump:
		if o.Host != "w0" {
			s.t.Errorf("a dump of host %s, after %.200v", o.Host, f)
		}
	case Send:
		if o.Host != liar && o.Host < len(s.honest) {
			s.sent(o.Host, o.Frame, f, known)
		}
	}
	if id >= 0 && foreign(id) {
		s.t.Errorf("%T of rank %d, which is another host's, after %.200v", o, id, f)
	}
}

// sent looks at what an honest host is sent because of a lie.
func (s *session) sent(h int, to, f *apiv1.Frame, known int) {
	wrong := ""
	switch b := to.Body.(type) {
	case *apiv1.Frame_Signal:
		for _, id := range b.Signal.Ranks {
			if int(id) < known && !ends(f) && s.jobOf(int(id)).asked == nil {
				wrong = "a rank gets a signal"
			}
		}
	case *apiv1.Frame_Gone:
		if ids, err := idset.Parse(b.Gone.Ids); err != nil || !ends(f) && slices.ContainsFunc(ids.Slice(), func(id int) bool { return id < known && s.who.HostOf(id) != liar && s.jobOf(id).asked == nil }) {
			wrong = "its ranks are said to be gone"
		}
	case *apiv1.Frame_Bye:
		if s.hosts[h].running > 0 {
			wrong = "its session ends, and ranks run"
		}
	case *apiv1.Frame_Rendezvous:
		if s.who.HostOf(s.who.ID(job.Process{Job: int(b.Rendezvous.Job), Rank: int(b.Rendezvous.Rank)})) != liar {
			wrong = "another host's rank has met, it says"
		}
	case *apiv1.Frame_SpawnResult, *apiv1.Frame_AbortNoted, *apiv1.Frame_Input, *apiv1.Frame_Credit, *apiv1.Frame_CopyData, *apiv1.Frame_Open:
		wrong = "it asked for none"
	}
	if wrong != "" {
		s.t.Errorf("host w%d gets %.200v: %s, after %.200v", h, to, wrong, f)
	}
}

// FuzzLiar plays sessions.
func FuzzLiar(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		in = in[:min(len(in), 4*maxSteps)]
		defer cost.Watch(t, cost.Bound{Fixed: 4 << 20, PerByte: 20 << 10}, len(in))()
		newSession(t, in).playAll()
	})
}

// What the liar may say is each frame that agents send; those that the protocol has for launchers are in the list.
func TestLiesAreAllFrames(t *testing.T) {
	launchers := []string{"open", "opened", "launch", "input", "signal", "stop", "resize", "fence_result", "name_result", "bye", "spawn_result", "gone", "copy_data", "job_over", "abort_noted",
		"ask_waits", "proceed", "hold", "heartbeat"} // opened and heartbeat: the link's
	told := map[string]bool{}
	for i := range lies {
		s := newSession(t, nil)
		told[string(lies[i](s).Frame().ProtoReflect().WhichOneof((&apiv1.Frame{}).ProtoReflect().Descriptor().Oneofs().Get(0)).Name())] = true
	}
	bodies := (&apiv1.Frame{}).ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
	for i := range bodies.Len() {
		if name := string(bodies.Get(i).Name()); told[name] == slices.Contains(launchers, name) && name != "stop" {
			t.Errorf("%s: is it an agent's? The liar tells it: %v", name, told[name])
		}
	}
}

// TestLiar plays sessions of a fixed seed.
func TestLiar(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 1))
	for range 3000 {
		in := make([]byte, 1+r.IntN(200))
		for i := range in {
			in[i] = byte(r.Uint32())
		}
		newSession(t, in).playAll()
		if t.Failed() {
			t.Fatalf("session %x", in)
		}
	}
}
