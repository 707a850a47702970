package run

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Four ranks of one program, two on each of two hosts.
func attended(t *testing.T) *play {
	t.Helper()
	r := aboutToLaunch(t, Config{})
	for rank := range uint32(4) {
		r.on(int(rank/2), (&apiv1.Started{Rank: rank, Pid: int32(100 + rank)}).Frame())
	}
	return r
}

func (r *play) hears(host int, m *apiv1.Met) {
	r.on(host, m.Frame())
}

func (r *play) exits(codes ...int32) {
	for rank, code := range codes {
		r.on(rank/2, (&apiv1.Exited{Rank: uint32(rank), Code: code}).Frame())
	}
}

func TestRanksThatNeverMet(t *testing.T) {
	const warning = "mpiup: warning: 4 ranks of a.out loaded torch, and none ever met another: if they were to train together, " +
		"call torch.distributed.init_process_group (mpiup run --env torch sets what it reads), and give Lightning's Trainer num_nodes=2 and devices=2; " +
		"--independent if each is meant to run alone\n"
	torch := func(ids string) *apiv1.Met { return &apiv1.Met{Framework: "torch", Loaded: ids} }
	for _, tt := range []struct {
		name   string
		w0, w1 *apiv1.Met
		codes  []int32
		want   string
	}{
		{"all loaded it", torch("0-1"), torch("2-3"), []int32{0, 0, 0, 0}, warning},
		{"one failed", torch("0-1"), torch("2-3"), []int32{0, 0, 0, 1}, ""},
		{"one has not ended", torch("0-1"), torch("2-3"), []int32{0, 0, 0}, ""},
		{"a host says nothing, as an older agent", torch("0-1"), nil, []int32{0, 0, 0, 0}, ""},
		{"a host tells of another's ranks", torch("0-3"), &apiv1.Met{}, []int32{0, 0, 0, 0}, ""},
		{"somebody came to the place", torch("0-1"), &apiv1.Met{Framework: "torch", Loaded: "2-3", Visited: true}, []int32{0, 0, 0, 0}, ""},
		{"they met", &apiv1.Met{Framework: "torch", Loaded: "0-1", Met: "0-1"}, torch("2-3"), []int32{0, 0, 0, 0}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := attended(t)
			r.hears(0, tt.w0)
			if tt.w1 != nil {
				r.hears(1, tt.w1)
			}
			r.exits(tt.codes...)
			r.step(Over{})
			if r.said.String() != tt.want {
				t.Errorf("said %q, not %q", r.said.String(), tt.want)
			}
		})
	}
}

// A program that loads no framework is told of none that nobody asked for.
func TestPortsThatFrameworksLack(t *testing.T) {
	const torch, jax = "mpiup: ranks of torch get no MASTER_PORT on host w0: no port is free there, or give one with -x MASTER_PORT=\n",
		"mpiup: ranks of JAX get no port to meet at on host w0: no port is free there, or give one with -x JAX_COORDINATOR_ADDRESS=\n"
	for _, tt := range []struct {
		name   string
		set    frameworks.Set
		ports  []uint32
		loaded string
		want   string
	}{
		{"one port, and MPI alone", frameworks.Auto, []uint32{18110}, "", ""},
		{"no port, and MPI alone", frameworks.Auto, nil, "", ""},
		{"one port, and JAX is loaded", frameworks.Auto, []uint32{18110}, "JAX", jax},
		{"one port, and torch is loaded", frameworks.Auto, []uint32{18110}, "torch", ""},
		{"no port, and torch is loaded", frameworks.Auto, nil, "torch", torch},
		{"JAX by its name", frameworks.JAX | frameworks.JAXAlways, nil, "", jax},
		{"torch by its name", frameworks.Torch, nil, "torch", torch},
		{"as torchrun", frameworks.Torch | frameworks.Torchrun, nil, "", torch},
	} {
		r := aboutToLaunch(t, Config{Wishes: Wishes{Frameworks: tt.set}})
		r.hosts[0].Meets, r.hosts[0].Ports = netip.MustParseAddr("10.0.0.1"), tt.ports
		r.play(r.Start(r.now))
		for rank := range uint32(4) {
			r.on(int(rank/2), (&apiv1.Started{Rank: rank, Pid: int32(100 + rank)}).Frame())
		}
		for range 2 {
			if tt.loaded != "" {
				r.hears(0, &apiv1.Met{Framework: tt.loaded, Loaded: "0-1"})
			}
		}
		if got := r.said.String(); got != tt.want {
			t.Errorf("%s: said %q, not %q", tt.name, got, tt.want)
		}
	}
}

// A program that has MPI too is warned of once: by the framework that its ranks loaded, and not at all where they met by it.
func TestOneWarningForMPIAndAFramework(t *testing.T) {
	exits := func(r *play) {
		for rank := range uint32(4) {
			r.on(int(rank/2), (&apiv1.Exited{Rank: rank, Library: openMPI}).Frame())
		}
		r.step(Over{})
	}
	r := attended(t)
	r.hears(0, &apiv1.Met{Framework: "Horovod", Loaded: "0-1"})
	r.hears(1, &apiv1.Met{Framework: "Horovod", Loaded: "2-3"})
	exits(r)
	if n := strings.Count(r.said.String(), "warning"); n != 1 || !strings.Contains(r.said.String(), "call hvd.init()") {
		t.Errorf("%q", r.said.String())
	}
	r = attended(t)
	r.hears(0, &apiv1.Met{Framework: "torch", Loaded: "0-1", Met: "0-1", Visited: true})
	exits(r)
	if r.said.String() != "" {
		t.Errorf("%q", r.said.String())
	}
}

// Ranks that wait for another are told of by name while they run, and in the verdict.
func TestRanksThatAreMissing(t *testing.T) {
	r := attended(t)
	r.step(Expired{Missing})
	r.hears(0, &apiv1.Met{Framework: "torch", Loaded: "0-1", Met: "0-1", Visited: true})
	r.hears(1, &apiv1.Met{Framework: "torch", Loaded: "2-3", Met: "3", Visited: true})
	r.now.Wall = r.now.Wall.Add(30 * time.Second)
	r.step(Expired{Missing})
	const want = "rank 2 (w1, pid 102) has not come to where torch's ranks meet (MASTER_ADDR and MASTER_PORT); ranks 0-1,3 have waited for it for 30s"
	if r.said.String() != "mpiup: "+want+"\nmpiup: see what it does: on w1 py-spy dump --pid 102, or mpiup stacks\n" {
		t.Errorf("said %q", r.said.String())
	}
	r.step(Expired{Limit})
	r.step(Expired{Answers})
	if lines := r.verdict.Explain(); len(lines) != 3 || lines[1] != want {
		t.Errorf("%q", lines)
	}
	if v, _ := r.verdict.Verdict(verdict.Circumstances{PID: 102}); v.Rank == nil || *v.Rank != 2 || v.Host != "w1" || v.PID != 102 || v.Confidence != verdict.Certain {
		t.Errorf("%+v", v)
	}
}

func TestNoRankIsMissing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		w0, w1 *apiv1.Met
	}{
		{"nobody has come", &apiv1.Met{Framework: "torch", Loaded: "0-1"}, &apiv1.Met{}},
		{"all have", &apiv1.Met{Met: "0-1"}, &apiv1.Met{Met: "2-3"}},
		{"one is elsewhere", &apiv1.Met{Met: "0-1"}, &apiv1.Met{Met: "3", Elsewhere: "2"}},
	} {
		r := attended(t)
		r.hears(0, tt.w0)
		r.hears(1, tt.w1)
		r.now.Wall = r.now.Wall.Add(time.Hour)
		if lines, _, _ := r.Run.meet.missing(r.now.Wall); lines != nil {
			t.Errorf("%s: %q", tt.name, lines)
		}
	}
}

// While they run, ranks that have met nobody for long are told of once.
func TestRanksThatHaveNotMetForLong(t *testing.T) {
	r := attended(t)
	r.hears(0, &apiv1.Met{Framework: "JAX", Loaded: "0-1"})
	r.hears(1, &apiv1.Met{Framework: "JAX", Loaded: "2-3"})
	r.step(Expired{Lone})
	r.step(Expired{Lone})
	r.exits(0, 0, 0, 0)
	r.step(Over{})
	if want := "mpiup: warning: 4 ranks of a.out loaded JAX, and after 3m0s none has met another yet: if they are to train together, call jax.distributed.initialize() " +
		"(mpiup run --env jax sets what it reads); --independent if each is meant to run alone\n"; r.said.String() != want {
		t.Errorf("said %q", r.said.String())
	}
}

func TestNonsenseAboutMeetings(t *testing.T) {
	for _, m := range []*apiv1.Met{{Job: 1}, {Loaded: "x"}} {
		r := attended(t)
		r.hears(0, m)
		if f, ok := r.verdict.Cause(); !ok || f.Event != verdict.Internal {
			t.Errorf("%v is %+v", m, f)
		}
	}
}
