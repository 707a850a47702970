package launcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/iof"
)

const (
	lostPeer  = "Traceback (most recent call last):\n  File \"x\", line 1\nRuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:33969\n"
	nan       = "Traceback (most recent call last):\n  File \"x\", line 1\nValueError: loss is nan\n"
	gpuMemory = "Traceback (most recent call last):\n  File \"x\", line 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 31.36 GiB\n"
)

// What ranks wrote decides whose fault it is: those that lost their peer are not named where another failed by itself.
func TestBlame(t *testing.T) {
	type end struct {
		rank   uint32
		code   int32
		signal int32
		ours   bool // stopped because of the first
	}
	lost := "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:33969"
	for _, tt := range []struct {
		name string
		says map[int]string
		ends []end
		late map[int]string // written after the ranks were told to stop
		want []string       // the first lines
		code int
	}{
		{"its own exception", map[int]string{2: nan}, []end{{2, 1, 0, false}}, nil, []string{"rank 2 on w1 exited with code 1: ValueError: loss is nan"}, 1},
		{"the peers are reported first", map[int]string{0: lostPeer, 2: nan}, []end{{0, 1, 0, false}, {2, 3, 0, false}}, nil,
			[]string{"rank 2 on w1 exited with code 3: ValueError: loss is nan", "before that: rank 0 on w0 exited with code 1"}, 3},
		{"a rank is killed, and its end is reported last", map[int]string{0: lostPeer, 1: lostPeer}, []end{{0, 1, 0, false}, {1, 1, 0, false}, {3, 0, 9, false}}, nil,
			[]string{"rank 3 on w1 was killed by signal 9 (SIGKILL)"}, 137},
		{"it was stopped while it ended", map[int]string{0: lostPeer, 2: nan}, []end{{0, 1, 0, false}, {2, 0, 15, true}}, nil,
			[]string{"rank 2 on w1 failed: ValueError: loss is nan", "then: rank 0 on w0 exited with code 1"}, 1},
		{"what it says when stopped is no cause", map[int]string{0: lostPeer}, []end{{0, 1, 0, false}, {2, 1, 0, true}}, map[int]string{2: nan},
			[]string{"rank 0 on w0 exited with code 1: " + lost, "another rank ended, or the network between them broke: what that one wrote, and its pod, tell why"}, 1},
		{"one that says nothing", map[int]string{0: lostPeer}, []end{{0, 1, 0, false}, {2, 3, 0, false}}, nil, []string{"rank 2 on w1 exited with code 3"}, 3},
		{"all lost their peers", map[int]string{0: lostPeer, 2: lostPeer}, []end{{0, 1, 0, false}, {2, 1, 0, false}}, nil, []string{"rank 0 on w0 exited with code 1: " + lost}, 1},
		{"the GPU's memory", map[int]string{1: gpuMemory}, []end{{1, 1, 0, false}}, nil, []string{
			"rank 1 on w0 exited with code 1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 31.36 GiB",
			"its GPU has no memory left"}, 1},
		{"a crash has its own words", map[int]string{1: nan}, []end{{1, 0, 11, false}}, nil, []string{"rank 1 on w0 was killed by signal 11 (SIGSEGV)"}, 139},
		{"and abort(3) the program's", map[int]string{1: nan}, []end{{1, 0, 6, false}}, nil, []string{"rank 1 on w0 was killed by signal 6 (SIGABRT): ValueError: loss is nan"}, 134},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := aboutToLaunch(t)
			r.cfg.Stderr = &strings.Builder{}
			defer stopTimers(r.timers.quiet, r.timers.grace, r.timers.bound)
			var err error
			if r.sink, err = iof.New(iof.Config{Ranks: 4}); err != nil {
				t.Fatal(err)
			}
			for rank, text := range tt.says {
				r.sink.Write(rank, job.Stderr, []byte(text), false, time.Time{})
			}
			for rank := range uint32(4) {
				r.handle(event{host: int(rank / 2), frame: &apiv1.Frame{Body: &apiv1.Frame_Started{Started: &apiv1.Started{Rank: rank, Pid: 1}}}})
			}
			for i, e := range tt.ends {
				r.handle(event{host: int(e.rank / 2), at: time.Duration(i+1) * time.Millisecond, frame: &apiv1.Frame{Body: &apiv1.Frame_Exited{Exited: &apiv1.Exited{
					Rank: e.rank, Code: e.code, Signal: e.signal, StoppedByUs: e.ours, Pmi: apiv1.PmiState_PMI_FINALIZED}}}})
			}
			r.judge()
			for rank, text := range tt.late {
				r.sink.Write(rank, job.Stderr, []byte(text), false, time.Time{})
			}
			r.readWords()
			lines := r.verdict.explain()
			for i, want := range tt.want {
				if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
					t.Fatalf("%q, want %q", lines, tt.want)
				}
			}
			if got := r.verdict.exit(); got != tt.code {
				t.Errorf("exit code %d, want %d", got, tt.code)
			}
		})
	}
}

// mpi4py's way: an uncaught exception becomes MPI_Abort.
func TestAnAbortAfterAnException(t *testing.T) {
	r := aboutToLaunch(t)
	defer stopTimers(r.timers.quiet, r.timers.grace, r.timers.bound)
	var err error
	if r.sink, err = iof.New(iof.Config{Ranks: 4}); err != nil {
		t.Fatal(err)
	}
	r.sink.Write(1, job.Stderr, []byte(nan), false, time.Time{})
	r.fail(fault{kind: faultAbort, rank: 1, host: "w0", code: 1, exit: job.Exit{}})
	r.readWords()
	want := []string{"rank 1 on w0 called MPI_Abort with code 1", "the program ended the job itself, after ValueError: loss is nan"}
	if got := r.verdict.explain(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
