package logs

import (
	"strings"
	"testing"
)

// What a log takes back is no failure, and what ended a process is, whatever others write behind it.
func TestWhatIsOver(t *testing.T) {
	const (
		memory   = "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"
		killed   = "mpirun noticed that process rank 3 with PID 5 on node w1 exited on signal 9 (Killed)."
		exited   = "srun: error: w1: task 3: Exited with exit code 1"
		progress = "step 1 loss 3\nstep 2 loss 2\nstep 3 loss 1"
		segfault = "Segmentation fault (core dumped)"
	)
	for _, tc := range []struct{ log, want string }{
		{memory + "\n" + progress, "none"},
		{exited + "\n" + progress, "kind exit-code rank 3 certain"},
		{exited + "\nRestarting worker group\n" + progress, "none"},
		{memory + "\n" + exited + "\n" + progress, "kind gpu-out-of-memory rank 3 certain"},
		{killed + "\n" + progress, "kind killed rank 3 probably"},
		{segfault + "\nwill be retried", "none"},
		{segfault + "\na\nb\nc\nwill be retried", "kind segfault rank unknown"},
		{exited + "\nwill be retried", "kind exit-code rank 3 certain"},
		{segfault + "\ntest 2: PASSED", "kind segfault rank unknown"},
		{"libcuda.so.1: cannot open shared object file: No such file or directory\n" +
			"If you are not interested in CUDA-aware support, then run with", "none"},
	} {
		if got := read(tc.log); got != tc.want {
			t.Errorf("%s, want %s of %q", got, tc.want, tc.log)
		}
	}
}

// An exception after which a program wrote much has not ended it.
func TestExceptionThatWasSurvived(t *testing.T) {
	var r Reader
	for _, l := range []string{"KeyError: 'x'", strings.Repeat("all is well\n", 250), "ValueError: y"} {
		for line := range strings.Lines(l) {
			r.Line(line)
		}
	}
	if v, _ := r.Verdict(); len(v.Evidence) == 0 || v.Evidence[0] != "ValueError: y" {
		t.Errorf("%+v", v)
	}
}

// A program that wants more processes was started with too few; where several say so, each is alone. Groups within a job number themselves, too.
func TestProcessesThatAreAlone(t *testing.T) {
	const wants, one = "This program needs at least 2 processes", "rank 0 of 1 on w0"
	for _, tc := range []struct{ log, want string }{
		{wants, "kind probably usage rank none"},
		{wants + "\n" + wants, "kind probably mpi-mismatch rank unknown"},
		{"mpirun -np 4 ./a.out\n" + wants, "kind probably mpi-mismatch rank unknown"},
		{one + "\n" + one, "none"},
		{one + "\n" + one + "\n" + one, "kind probably mpi-mismatch rank unknown"},
		{"mpirun -np 2 ./a.out\n" + one + "\n" + one, "kind probably mpi-mismatch rank unknown"},
		{"mpirun -np 1 ./a.out\n" + one + "\n" + one + "\n" + one, "none"},
		{strings.Repeat(one+", tensor parallel\n", 3), "none"},
	} {
		if got := read(tc.log); got != tc.want {
			t.Errorf("%s, want %s of %q", got, tc.want, tc.log)
		}
	}
}
