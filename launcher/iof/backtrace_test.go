package iof

import (
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

// What a host has found of frames stands in their place, in their order; a core file counts where no line is known so.
func TestWhere(t *testing.T) {
	words := strings.Fields
	placed := []job.Placed{{Frame: "a.out+0x11a9", Place: "step (solver.c:41)"}, {Frame: "a.out", Place: "sum (solver.c:50)"}, {Frame: "a.out", Place: "main (solver.c:60)"}}
	for _, tt := range []struct {
		name        string
		wrote, core []string
		placed      []job.Placed
		want        string
	}{
		{"as it wrote", words("f g"), nil, nil, "f|g"},
		{"one has a line", words("memcpy a.out+0x11a9 main"), words("other"), placed, "memcpy|step (solver.c:41)|main"},
		{"a fixed program, again and again", words("a.out a.out a.out"), nil, placed, "sum (solver.c:50)|main (solver.c:60)"},
		{"of another program", words("b.out+0x11a9"), nil, placed, "b.out+0x11a9"},
		{"a core without tables", words("f"), words("step main"), nil, "step|main"},
		{"lines before a core", []string{"step (x.py:3)"}, words("f"), nil, "step (x.py:3)"},
		{"a handler that is not known", nil, nil, placed, "step (solver.c:41)|sum (solver.c:50)|main (solver.c:60)"},
		{"what begins a program", words("a.out+0x11a9 a.out a.out a.out+0x10a1"), nil, placed, "step (solver.c:41)|sum (solver.c:50)|main (solver.c:60)"},
		{"a program whose name is no UTF-8", []string{"caf\xe9+0x11a9"}, nil, []job.Placed{{Frame: `caf\xe9+0x11a9`, Place: `step (caf\xe9.c:4)`}}, `step (caf\xe9.c:4)`},
		{"nothing", nil, nil, nil, ""},
	} {
		if got := strings.Join(Where(tt.wrote, job.Crash{Frames: tt.core, Placed: tt.placed}), "|"); got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

// Back-traces as libraries write them.
func TestFrames(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"Open MPI", `[w0:4711] *** Process received signal ***
[w0:4711] Signal: Segmentation fault (11)
[w0:4711] Signal code: Address not mapped (1)
[w0:4711] Failing at address: (nil)
[w0:4711] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x42520)[0x7fbdf896f520]
[w0:4711] [ 1] ./solver(apply_flux+0x1d)[0x55d0a4a0121d]
[w0:4711] [ 2] ./solver(main+0x9a)[0x55d0a4a0131a]
[w0:4711] [ 3] /usr/lib/libfoo.so.2(+0x1234)[0x7fbdf8956d90]
[w0:4711] [ 4] ./fixed[0x401178]
[w0:4711] *** End of error message ***
`, []string{"apply_flux (solver)", "main (solver)", "libfoo.so.2+0x1234", "fixed"}},
		{"UCX", `[w0:31233:0:31233] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))
==== backtrace (tid:  31233) ====
 0 0x0000000000012cf0 __funlockfile()  :0
 1 0x0000000000042520 __sigaction()  ???:0
 2 0x000000000000121d apply_flux()  /src/flux.c:41
 3  /lib64/libucs.so.0(ucs_handle_error+0x2e4) [0x7f1]
 4  ./solver(main+0x9a) [0x55d]
=================================
`, []string{"__funlockfile (:0)", "apply_flux (flux.c:41)", "main (solver)"}},
		{"faulthandler, with other threads", `Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f02 (most recent call first):
  File "/work/train.py", line 12 in step
  File "/work/train.py", line 40 in <module>

Extension modules: numpy.core._multiarray_umath (total: 1)
`, []string{"step (train.py:12)", "<module> (train.py:40)"}},
		{"gfortran", `Program received signal SIGSEGV: Segmentation fault - invalid memory reference.

Backtrace for this error:
#0  0x7f5b2c in ???
	at ./signal/../sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c:0
#1  0x55e1a9 in flux_
	at /src/flux.f90:41
#2  0x55e1f0 in main
`, []string{"flux_ (flux.f90:41)", "main"}},
		{"no crash", "[ 1] ./solver(main+0x9a)[0x55d0a4a0131a]\nFile \"x\", line 3 in f\n", nil},
		{"it ends", "*** Process received signal ***\n" + strings.Repeat("progress\n", maxStranger) + "[w0:1] [ 1] ./a(main+0x9a)[0x55]\n", nil},
		{"the last one counts", "==== backtrace (tid: 1) ====\n 0  ./a(f+0x1) [0x55]\n==== backtrace (tid: 2) ====\n 0  ./a(g+0x1) [0x55]\n", []string{"g (a)"}},
		{"many", "==== backtrace (tid: 1) ====\n" + strings.Repeat(" 0  ./a(f+0x1) [0x55]\n", 20), slices.Repeat([]string{"f (a)"}, maxFrames)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r crashReader
			for line := range strings.Lines(tt.text) {
				r.Hear(line)
			}
			if got := r.frames; !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzFrames(f *testing.F) {
	f.Add("*** Process received signal ***\n[w0:1] [ 1] ./a(main+0x9a)[0x55]\nFile \"x\", line 3 in f\n 2 0x1 f() x:1\n#1  0x1 in g\n")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		var c crashReader
		for line := range strings.Lines(text) {
			c.Hear(line)
		}
		for _, frame := range c.frames {
			if frame == "" || len(frame) > len(text)+1 {
				t.Errorf("frame %q", frame)
			}
		}
		if len(c.frames) > maxFrames {
			t.Errorf("%d frames", len(c.frames))
		}
	})
}
