package hang

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
)

// Frames are of real stacks: torch 2.15.0 and 1.13 over Gloo, mpi4py 4.1.2 with MPICH 5.0.2, by eu-stack 0.188 and py-spy 0.4.3, November 2026.
func TestPlace(t *testing.T) {
	const both = "eu-stack and py-spy"
	for name, tt := range map[string]struct {
		means, frames string // outwards, with "|" between them
		want          Place
	}{
		"a collective of torch": {both, "c10d::Work::wait|broadcast (torch/distributed/distributed_c10d.py:4055)|wrapper (torch/distributed/c10d_logger.py:83)|" +
			"step (fail.py:65)|<module> (fail.py:70)|Py_BytesMain", Place{true, "broadcast", "fail.py:65"}},
		"one that is made of others": {both, "c10d::Work::wait|broadcast (torch/distributed/distributed_c10d.py:4055)|broadcast_object_list (torch/distributed/distributed_c10d.py:3700)|" +
			"step (fail.py:65)|Py_BytesMain", Place{true, "broadcast_object_list", "fail.py:65"}},
		"by Python's lines alone":   {"py-spy", "all_reduce (torch/distributed/distributed_c10d.py:4181)|forward (pkg/layer.py:66)|main (fail.py:7)", Place{true, "all_reduce", "fail.py:7"}},
		"no Python's lines":         {"eu-stack", "c10d::Work::wait|pybind11::cpp_function::dispatcher|Py_BytesMain", Place{true, "c10d::Work::wait", ""}},
		"sleeps":                    {both, "clock_nanosleep|evaluate (fail.py:14)|step (fail.py:23)|Py_BytesMain", Place{Known: true}},
		"sleeps, no Python's lines": {"eu-stack", "clock_nanosleep|Py_BytesMain", Place{Known: true}},
		"large counts":              {"eu-stack", "PMPI_Bcast_c|__pyx_pw_6mpi4py_3MPI_4Comm_121Bcast|Py_BytesMain", Place{true, "MPI_Bcast", ""}},
		"the kernel's word":         {"kernel", "hrtimer_nanosleep|in clock_nanosleep", Place{}},
		"a wrapper: torchrun":       {both, "clock_nanosleep|_monitor_workers (torch/distributed/elastic/agent/server/api.py:900)|main (torch/distributed/run.py:936)|Py_BytesMain", Place{}},
		"a wrapper: accelerate":     {"py-spy", "communicate (subprocess.py:1209)|launch_command (accelerate/commands/launch.py:1200)", Place{}},
		"its GPU":                   {both, "cudaStreamSynchronize|step (fail.py:9)|Py_BytesMain", Place{}},
		"a collective, for its GPU": {both, "cuStreamSynchronize|barrier (torch/distributed/distributed_c10d.py:4870)|step (fail.py:9)|Py_BytesMain", Place{true, "barrier", "fail.py:9"}},
		"part of a stack":           {"eu-stack", "clock_nanosleep|??|??", Place{}},
	} {
		w := Whereabouts{Means: tt.means, Frames: strings.Split(tt.frames, "|")}
		if got := w.Place(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestMixed(t *testing.T) {
	stack := func(id int, frames string) Stack {
		return Stack{ID: id, Whereabouts: Whereabouts{Means: "eu-stack and py-spy", Frames: strings.Split(frames, "|")}}
	}
	const (
		broadcast = "c10d::Work::wait|broadcast (torch/distributed/distributed_c10d.py:4055)|step (fail.py:65)|Py_BytesMain"
		reduce    = "c10d::Work::wait|all_reduce (torch/distributed/distributed_c10d.py:4181)|step (fail.py:66)|Py_BytesMain"
		elsewhere = "c10d::Work::wait|all_reduce (torch/distributed/distributed_c10d.py:4181)|step (fail.py:99)|Py_BytesMain"
		receive   = "c10d::Work::wait|recv (torch/distributed/distributed_c10d.py:3000)|step (fail.py:67)|Py_BytesMain"
		native    = "c10d::Work::wait|Py_BytesMain"
		sleeps    = "clock_nanosleep|step (fail.py:68)|Py_BytesMain"
		bcast     = "PMPI_Bcast|main"
		barrier   = "MPI_Barrier|main"
	)
	for name, tt := range map[string]struct {
		list []string
		want string // "": they are not
	}{
		"two collectives":           {[]string{broadcast, reduce}, "0 in broadcast at fail.py:65, 1 in all_reduce at fail.py:66"},
		"one of four":               {[]string{reduce, reduce, reduce, broadcast}, "3 in broadcast at fail.py:65, 0-2 in all_reduce at fail.py:66"},
		"of MPI":                    {[]string{bcast, barrier, barrier}, "0 in MPI_Bcast, 1-2 in MPI_Barrier"},
		"one call at two lines":     {[]string{reduce, elsewhere}, ""},
		"one of them sleeps":        {[]string{reduce, broadcast, sleeps}, ""},
		"a message of a pipeline":   {[]string{reduce, receive}, ""},
		"a call of which not known": {[]string{reduce, native}, ""},
		"all alike":                 {[]string{barrier, barrier}, ""},
		"one rank":                  {[]string{barrier}, ""},
		"nobody":                    {nil, ""},
	} {
		var list []Stack
		for id, frames := range tt.list {
			list = append(list, stack(id, frames))
		}
		calls := Mixed(list)
		if got := calls.Text(idsetText); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if calls != nil && (!calls.Same(Mixed(list)) || calls.Same(nil)) {
			t.Errorf("%s: a second look is not the same", name)
		}
	}
}

func idsetText(ids idset.Set) string { return ids.String() }
