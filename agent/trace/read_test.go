package trace

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/golden"
	"golang.org/x/tools/txtar"
)

const (
	pySpyText = `Process 123: python3 odd.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 125 (idle): "Thread-1 (run)"
    wait (threading.py:320)
Thread 123 (idle): "MainThread"
    load_batch (odd.py:5)
        Arguments:
            self: <Loader at 0x7f>
    <module> (odd.py:8)
`
	faults = `step 7
Thread 0x00007fb1505d96c0 (most recent call first):
  File "/t/odd.py", line 3 in <lambda>

Current thread 0x00007fb15141db80 [python3] (most recent call first):
  File "/t/odd.py", line 7 in allreduce
  File "/t/odd.py", line 8 in <module>
loss 0.1
  File "/t/x.py", line 1 in user's own
`
	euStack = `PID 2733 - process
TID 2733:
#0  0x00007fbdce1812ad clock_nanosleep@GLIBC_2.2.5
#1  0x00007fbdce186000 sleep
#2  0x0000000000401136
#3  0x000000000040117a main
#4  0x00007fbdce0cd24a __libc_start_call_main
`
	gdb = `[Thread debugging using libthread_db enabled]
0x00007f0a in clock_nanosleep () from /lib/x86_64-linux-gnu/libc.so.6
#0  0x00007f0a in clock_nanosleep () from /lib/x86_64-linux-gnu/libc.so.6
#1  odd_one_out (how=0x7ffe "sleep") at stuck.c:14
#2  0x0000 in std::vector<int, a b>::at (this=0x0)
#3  0x0000 in ?? ()
#4  main (argc=3, argv=0x7ffe) at stuck.c:24
[Inferior 1 (process 2733) detached]
`
	kernel = "[<0>] hrtimer_nanosleep+0x7c/0x110\n[<0>] __x64_sys_clock_nanosleep+0xb1/0x150\n"
)

func TestTraces(t *testing.T) {
	for _, tt := range []struct {
		name string
		read func(string) []string
		text string
		want string
	}{
		{"py-spy", PySpy, pySpyText, "load_batch (odd.py:5)|<module> (odd.py:8)"},
		{"py-spy, no main thread", PySpy, "Thread 1 (active)\n    f (x.py:1)\nThread 2 (idle)\n    g (x.py:2)\n", "f (x.py:1)"},
		{"py-spy that fails", PySpy, "Error: Operation not permitted\n    at x\n", ""},
		{"faulthandler", Faulthandler, faults, "allreduce (odd.py:7)|<module> (odd.py:8)"},
		{"faulthandler of one thread", Faulthandler, "Stack (most recent call first):\n  File \"x.py\", line 2 in f\n", "f (x.py:2)"},
		{"two dumps", Faulthandler, "Current thread 0x1 (most recent call first):\n  File \"x.py\", line 2 in f\n" +
			"Current thread 0x1 (most recent call first):\n  File \"x.py\", line 3 in g\n", "g (x.py:3)"},
		{"another handler", Faulthandler, "saving a checkpoint\n", ""},
		{"eu-stack", Native, euStack, "clock_nanosleep|sleep|??|main"},
		{"gdb", Native, gdb, "clock_nanosleep|odd_one_out|std::vector::at|??|main"},
		{"two threads", Native, "#0  0x1 in f ()\n#1  0x1 in g ()\n#0  0x1 in h ()\n", "f|g"},
		{"gdb that may not", Native, "Could not attach to process.  ptrace: Operation not permitted.\n", ""},
		{"kernel", KernelStack, kernel, "hrtimer_nanosleep|__x64_sys_clock_nanosleep"},
		{"empty", KernelStack, "", ""},
		{"deep", KernelStack, strings.Repeat("[<0>] f+0x1/0x2\n", 1000), strings.TrimSuffix(strings.Repeat("f|", MaxFrames), "|")},
		{"long", KernelStack, "[<0>] " + strings.Repeat("x", 1000) + "\n", strings.Repeat("x", maxFrame)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, strings.Join(tt.read(tt.text), "|")); d != "" {
				t.Error(d)
			}
		})
	}
}

func FuzzTraces(f *testing.F) {
	for _, text := range []string{pySpyText, faults, euStack, gdb, kernel} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, 5*len(text))()
		for _, read := range []func(string) []string{PySpy, Faulthandler, Native, KernelStack} {
			frames := read(text)
			for _, frame := range frames {
				if len(frames) > MaxFrames || len(frame) > maxFrame || frame == "" || strings.Contains(frame, "\n") {
					t.Errorf("%q", frames)
				}
			}
		}
	})
}

func TestBrief(t *testing.T) {
	for name, want := range map[string]string{
		"MPI_Recv": "MPI_Recv", "": "", "main": "main",
		"std::vector<int, std::allocator<int> >::push_back(int const&)":                                        "std::vector::push_back",
		"c10d::ProcessGroupGloo::AsyncWork::execute(c10::intrusive_ptr<c10d::Work, c10::detail::Null<c10d> >)": "c10d::ProcessGroupGloo::AsyncWork::execute",
		"std::operator<< <char>":            "std::operator<< ",
		"ns::S::operator->":                 "ns::S::operator->",
		"S::operator()(int) const":          "S::operator()",
		"(anonymous namespace)::step(int)":  "(anonymous namespace)::step",
		"std::function<void (int)>::call(1": "std::function::call",
		"std::map<int, std::vector<":        "std::map<int, std::vector<",
	} {
		if got := brief(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// A symbol is a rank's text: one of a megabyte costs no more than its beginning.
func TestABriefNameOfALongSymbol(t *testing.T) {
	for _, c := range []string{"<", "operator<", "a(", "(anonymous", "x"} {
		if got := brief(strings.Repeat(c, 1<<20)); len(got) > maxSymbol {
			t.Errorf("%q again and again: %d bytes", c, len(got))
		}
	}
}

// Of an interpreter's stack what it runs a program by is left out, and its outermost frame is not.
func TestOfPython(t *testing.T) {
	for stack, want := range map[string]string{
		"": "", "??": "??", "Py_BytesMain": "Py_BytesMain",
		"clock_nanosleep time_sleep _PyEval_EvalFrameDefault ?? PyEval_EvalCode Py_RunMain Py_BytesMain": "clock_nanosleep time_sleep Py_BytesMain",
		"_PyEval_EvalFrameDefault PyEval_EvalCode Py_BytesMain":                                          "_PyEval_EvalFrameDefault PyEval_EvalCode Py_BytesMain",
		"PMPI_Recv _PyEval_EvalFrameDefault main":                                                        "PMPI_Recv main",
	} {
		if got := strings.Join(OfPython(strings.Fields(stack), nil), " "); got != want {
			t.Errorf("%q: %q, want %q", stack, got, want)
		}
	}
}

// What both kinds of tools really wrote of ranks that wait, and of the one they wait for: the native functions to judge by, and the program's lines.
// launcher/hang judges what is written here.
func TestBothStacks(t *testing.T) {
	files, err := filepath.Glob("testdata/stacks/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var b strings.Builder
	for _, file := range files {
		recorded, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := map[string]string{}
		for _, f := range recorded.Files {
			text[f.Name] = string(f.Data)
		}
		for _, tool := range []string{"eu-stack", "gdb"} {
			for rank := 0; text[fmt.Sprint(rank, " ", tool)] != ""; rank++ {
				frames := OfPython(Native(text[fmt.Sprint(rank, " ", tool)]), PySpy(text[fmt.Sprint(rank, " py-spy")]))
				fmt.Fprintf(&b, "%s\t%s and py-spy\t%d\t%s\n", strings.TrimSuffix(filepath.Base(file), ".txt"), tool, rank, strings.Join(frames, "|"))
			}
		}
	}
	golden.Is(t, "testdata/stacks/both.tsv", b.String())
}

// Lines of a deep program leave room: a stack of as many frames as there may be counts as one that goes on.
func TestDeepPython(t *testing.T) {
	stack := append(slices.Repeat([]string{"_PyEval_EvalFrameDefault"}, MaxFrames-2), "Py_BytesMain")
	got := OfPython(append([]string{"PMPI_Recv"}, stack...), slices.Repeat([]string{"f (x.py:1)"}, MaxFrames))
	if len(got) != MaxFrames-1 || got[0] != "PMPI_Recv" || got[len(got)-1] != "Py_BytesMain" {
		t.Errorf("%d: %q", len(got), got)
	}
}
