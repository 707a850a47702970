package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Words of torch 2.15.0's Gloo and NCCL, November 2026.
const (
	vainWords  = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete"
	lostWords  = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:33962"
	namedWords = "RuntimeError: [Rank 0]: Rank 3 failed to pass monitoredBarrier in 2000 ms"
	ownWords   = "ValueError: loss is nan"

	inReduce    = "c10d::Work::wait|all_reduce (torch/distributed/distributed_c10d.py:4181)|step (fail.py:66)|Py_BytesMain"
	inBroadcast = "c10d::Work::wait|broadcast (torch/distributed/distributed_c10d.py:4055)|step (fail.py:65)|Py_BytesMain"
	inSleep     = "clock_nanosleep|evaluate (fail.py:14)|step (fail.py:23)|Py_BytesMain"
)

// raised is what a rank has said that ended by an exception in a call of torch.
func raised(text, call string) verdict.Said {
	return verdict.Said{Raised: []verdict.Exception{{Text: text, Where: "fail.py:66", Call: call}}, Mute: true}
}

// waits is a run of four ranks on two hosts, of which some have said something.
func waits(t *testing.T, said map[int]verdict.Said) *play {
	r := aboutToLaunch(t, Config{Wishes: Wishes{PMI: job.AutoProtocol}, Wrote: func(id int) verdict.Said { return said[id] }})
	r.play(r.Start(r.now))
	chose(r, &apiv1.Chosen{Why: "none"}, &apiv1.Chosen{Why: "none"})
	for id := range r.ranks {
		r.on(r.who.HostOf(id), (&apiv1.Started{Rank: uint32(id), Pid: int32(10 + id)}).Frame())
	}
	return r
}

func (p *play) ends(id int, x *apiv1.Exited) {
	x.Rank = uint32(id)
	p.on(p.who.HostOf(id), x.Frame())
	p.step(Turn{})
}

// tell answers where ranks are, on their hosts.
func (p *play) tell(stacks map[int]string) {
	for h := range 2 {
		w := &apiv1.Waits{Id: p.inquiry.id}
		for id, frames := range stacks {
			if p.who.HostOf(id) == h {
				w.Stacks = append(w.Stacks, &apiv1.ProcStack{Id: uint32(id), Pid: int32(10 + id), Means: "eu-stack and py-spy", Frames: strings.Split(frames, "|")})
			}
		}
		p.on(h, w.Frame())
	}
	p.step(Turn{})
}

func (p *play) stops() bool {
	return slices.ContainsFunc(p.sent(0), func(f *apiv1.Frame) bool { return f.GetStop() != nil })
}

func (p *play) asked() (ids []string) {
	for h := range 2 {
		for _, f := range p.sent(h) {
			if q := f.GetAskWaits(); q.GetStacks() != "" {
				ids = append(ids, q.Stacks)
				if within := time.Duration(q.WithinMs) * time.Millisecond; within <= 0 || within >= awayBound {
					panic("agents do not know how long they may look")
				}
			}
		}
	}
	return ids
}

func TestWhoWaitedInVainIsNoReasonToEndOthersUnseen(t *testing.T) {
	for name, tt := range map[string]struct {
		said   map[int]verdict.Said
		stacks map[int]string
		away   string   // "3: it was in ..."; "": nobody
		lines  []string // parts of those
		differ bool
	}{
		"one sleeps": {map[int]verdict.Said{0: raised(vainWords, "all_reduce"), 1: raised(vainWords, "all_reduce")}, map[int]string{2: inReduce, 3: inSleep},
			"rank 3: it was in clock_nanosleep, called by evaluate (fail.py:14), called by step (fail.py:23), while ranks 0-1 waited in all_reduce at fail.py:66", nil, false},
		"a library names it": {map[int]verdict.Said{0: raised(namedWords, "monitored_barrier")}, map[int]string{1: inReduce, 2: inReduce, 3: inSleep},
			"rank 3: rank 0 names it, and it was in clock_nanosleep", nil, false},
		"a library names one that waits": {map[int]verdict.Said{0: raised(namedWords, "monitored_barrier")}, map[int]string{3: inReduce}, "",
			[]string{"ranks were in different collectives: "}, true},
		"a library names one that does not show": {map[int]verdict.Said{0: raised(namedWords, "")}, nil, "", []string{"that is rank 0's word about rank 3 alone"}, false},
		"in different collectives": {map[int]verdict.Said{0: raised(vainWords, "all_reduce"), 1: raised(lostWords, "all_reduce")}, map[int]string{2: inReduce, 3: inBroadcast}, "",
			[]string{"ranks were in different collectives: ", "rank 3 in broadcast at fail.py:65"}, true},
		"by their words alone": {map[int]verdict.Said{0: raised(vainWords, "all_reduce"), 1: raised(vainWords, "all_reduce"), 2: raised(lostWords, "all_reduce"),
			3: raised(lostWords, "broadcast")}, nil, "", []string{"rank 3 in broadcast at fail.py:66, ranks 0-2 in all_reduce at fail.py:66"}, true},
		"nobody is elsewhere": {map[int]verdict.Said{0: raised(vainWords, "all_reduce")}, map[int]string{1: inReduce, 2: inReduce, 3: inReduce}, "",
			[]string{"no rank was elsewhere: "}, false},
		"most are": {map[int]verdict.Said{0: raised(vainWords, "all_reduce")}, map[int]string{1: inSleep, 2: inSleep, 3: inSleep}, "",
			[]string{"rank 1 (w0, pid 11) was in clock_nanosleep", "rank 3 (w1, pid 13) was in clock_nanosleep"}, false},
		"one has failed since": {map[int]verdict.Said{0: raised(vainWords, "all_reduce"), 3: raised(ownWords, "")}, map[int]string{1: inReduce, 2: inReduce, 3: inSleep}, "", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := waits(t, tt.said)
			r.ends(0, &apiv1.Exited{Code: 1})
			if tt.stacks != nil || tt.away != "" {
				if r.stops() || len(r.asked()) == 0 {
					t.Fatalf("stopped %v, asked %q", r.stops(), r.asked())
				}
			}
			r.tell(tt.stacks)
			if !r.stops() {
				t.Fatal("it goes on")
			}
			got := r.verdict.Look
			var away []string
			for _, a := range got.Away {
				away = append(away, a.Name+": "+a.Why)
			}
			if !strings.HasPrefix(strings.Join(away, "; "), tt.away) || tt.away == "" && away != nil {
				t.Errorf("away: %q, want %q", away, tt.away)
			}
			for _, l := range tt.lines {
				if !strings.Contains(strings.Join(got.Lines, "\n"), l) {
					t.Errorf("lines %q lack %q", got.Lines, l)
				}
			}
			if got.Differ != tt.differ {
				t.Errorf("in different collectives: %v", got.Differ)
			}
		})
	}
}

// A death waits for no look, and what ends a run ends the look.
func TestADeathWaitsForNoLook(t *testing.T) {
	said := map[int]verdict.Said{0: raised(vainWords, "all_reduce"), 1: raised(ownWords, "")}
	code := func() *apiv1.Exited { return &apiv1.Exited{Code: 1} }
	for name, do := range map[string]func(r *play){
		"killed":                      func(r *play) { r.ends(0, &apiv1.Exited{Signal: job.SIGKILL}) },
		"segfault":                    func(r *play) { r.ends(0, &apiv1.Exited{Signal: job.SIGSEGV}) },
		"a reason of its own":         func(r *play) { r.ends(1, code()) },
		"without a word":              func(r *play) { r.ends(2, code()) },
		"another is killed meanwhile": func(r *play) { r.ends(0, code()); r.ends(3, &apiv1.Exited{Signal: job.SIGKILL}) },
		"a host is lost meanwhile": func(r *play) {
			r.ends(0, code())
			r.step(Ended{Host: 1, Lost: &model.Lost{Why: "it is silent", Since: r.now.Clock}})
			r.step(Turn{})
		},
		"all that were asked end":  func(r *play) { r.ends(0, code()); r.ends(1, code()); r.ends(2, code()); r.ends(3, code()) },
		"the time for it is up":    func(r *play) { r.ends(0, code()); r.step(Expired{Answers}) },
		"the time limit":           func(r *play) { r.ends(0, code()); r.step(Expired{Limit}); r.step(Turn{}) },
		"its own library, SIGABRT": func(r *play) { r.ends(0, &apiv1.Exited{Signal: job.SIGABRT}); r.tell(nil) },
	} {
		r := waits(t, said)
		if do(r); !r.stops() {
			t.Errorf("%s: the run goes on", name)
		}
	}

	for _, o := range waitsOrders(t, said) {
		if set, ok := o.(Set); ok && set.Timer == Answers && set.After > awayBound {
			t.Errorf("the look takes %v", set.After)
		}
	}
}

// waitsOrders are the orders of a look with a short grace.
func waitsOrders(t *testing.T, said map[int]verdict.Said) []Order {
	r := waits(t, said)
	r.cfg.Grace = time.Second
	r.ends(0, &apiv1.Exited{Code: 1})
	for _, o := range r.given {
		if set, ok := o.(Set); ok && set.Timer == Answers && set.After > time.Second {
			t.Errorf("ranks are kept for %v, with a grace of 1s", set.After)
		}
	}
	return r.given
}

// The words of a rank may be others when the look is over, so that nobody waited in vain by then: nobody is said to name anybody.
func TestNobodyNamesWhereNobodyWaits(t *testing.T) {
	var r Run
	if named := r.namedBy(heardVain{who: -1}); !named.Empty() {
		t.Errorf("%s is named by nobody", named)
	}
}
