package iof

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mpiup/mpiup/internal/job"
)

const raised = `Traceback (most recent call last):
  File "/app/train.py", line 6, in <module>
    if r==2 and i==200: raise ValueError("loss is nan")
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: loss is nan
`

const group = `  + Exception Group Traceback (most recent call last):
  |   File "/app/train.py", line 6, in <module>
  |     raise ExceptionGroup("many", [OSError("b"), error])
  | ExceptionGroup: many (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | OSError: b
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/app/train.py", line 6, in <module>
    |     if r==2 and i==200: raise ValueError("loss is nan")
    | ValueError: loss is nan
    +------------------------------------
`

const fatal = "F1123 03:48:54.704812      11 client.h:80] Terminating process because the JAX distributed service detected fatal errors."

func said(texts ...string) (list []Raised) {
	for _, text := range texts {
		list = append(list, Raised{Text: text, Where: "train.py:6", Own: true})
	}
	return list
}

// What is said on standard error counts until the process has gone on for long on standard output.
func TestWordsArePast(t *testing.T) {
	w := &words{of: map[int]*hearing{}, out: map[int]*hearing{}}
	w.add(5, job.Stderr, []byte("sh: 1: nvidia-smi: not found\n"))
	w.add(5, job.Stdout, make([]byte, maxOutlived))
	if got := w.words(5); got.Past || len(got.First) != 1 {
		t.Errorf("%+v", got)
	}
	w.add(5, job.Stdout, make([]byte, 1))
	if got := w.words(5); !got.Past || len(got.First) != 0 {
		t.Errorf("%+v", got)
	}
	w.add(5, job.Stderr, []byte("loss is nan\n"))
	if got := w.words(5); got.Past || len(got.First) != 1 {
		t.Errorf("%+v", got)
	}
}

// So it does by more lines of standard error, and by time.
func TestWordsAreOutlived(t *testing.T) {
	const harmless = "sh: 1: nvidia-smi: not found\n"
	for _, tt := range []struct {
		name              string
		lines             int
		after             time.Duration
		gone, past, early bool
	}{
		{"at once", 0, 0, false, false, false},
		{"a few lines later", maxLines, 0, false, false, false},
		{"many lines later", maxFirst + maxLines + 1, 0, true, false, false},
		{"a while later", 0, 2 * soon, false, false, true},
		{"long after", 0, 2 * maxAge, true, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &words{of: map[int]*hearing{}, out: map[int]*hearing{}}
			w.add(5, job.Stderr, []byte(harmless))
			for i := range tt.lines {
				w.add(5, job.Stderr, fmt.Appendf(nil, "step %d\n", i))
			}
			w.add(5, job.Stderr, []byte(raised))
			time.Sleep(tt.after)
			w.end(5)
			time.Sleep(time.Hour) // others end later
			got := w.words(5)
			if got.Gone != tt.gone || got.Past != tt.past || got.Early != tt.early || got.Began != tt.early || len(got.Raised) != 1 || got.Raised[0].Old != tt.past {
				t.Errorf("%s: %+v", tt.name, got)
			}
		})
	}
}

// A shell may join both streams (2>&1). What a program only prints, since it caught it, is forgotten as it goes on.
func TestTracebackOnStandardOutput(t *testing.T) {
	const cuda = "RuntimeError: CUDA error: x\nCUDA kernel errors might be late\nFor debugging consider\nCompile with\n"
	printed := func(texts ...string) (list []Raised) {
		for _, text := range texts {
			list = append(list, Raised{Text: text, Where: "train.py:6", Own: true, Printed: true})
		}
		return list
	}
	bulk := strings.Repeat("epoch 0 of a Trace\n", 10_000)
	for _, tt := range []struct {
		name, out, err string
		want           Words
	}{
		{"at the end", bulk + raised, "", Words{Raised: printed("ValueError: loss is nan"), Mute: true}},
		{"without a line end", bulk + strings.TrimSpace(raised), "", Words{Raised: printed("ValueError: loss is nan"), Mute: true}},
		{"of a group", bulk + group, "", Words{Mute: true, Raised: []Raised{
			{Text: "ExceptionGroup: many (2 sub-exceptions)", Where: "train.py:6", Own: true, Printed: true},
			{Text: "OSError: b", Printed: true, Link: job.Member},
			{Text: "ValueError: loss is nan", Where: "train.py:6", Own: true, Printed: true, Link: job.Member}}}},
		{"a library's words after it", raised + "\n\nMPI_ABORT was invoked on rank 2 in communicator\nwith errorcode 1.\nNOTE: x\nYou may y\nexiting. z\nframe #0: a\nframe #1: b\n", "",
			Words{Raised: printed("ValueError: loss is nan"), Mute: true}},
		{"more of its message", strings.Replace(raised, "ValueError: loss is nan\n", cuda, 1), "",
			Words{Raised: printed("RuntimeError: CUDA error: x\nCUDA kernel errors might be late\nFor debugging consider\nCompile with"), Mute: true, After: true}},
		{"it goes on", raised + strings.Repeat("epoch 1\n", 2+maxPlain+1), "", Words{}},
		{"it goes on in one piece", raised + bulk, "", Words{}},
		{"another one on standard error", raised, strings.ReplaceAll(raised, "loss", "x"), Words{Raised: said("ValueError: x is nan"), Mute: true}},
	} {
		for _, cut := range []int{1 << 16, 1, 7, 100} {
			t.Run(fmt.Sprint(tt.name, " by ", cut), func(t *testing.T) {
				w := &words{of: map[int]*hearing{}, out: map[int]*hearing{}}
				w.add(5, job.Stderr, []byte(tt.err))
				for at := 0; at < len(tt.out); at += cut {
					w.add(5, job.Stdout, []byte(tt.out[at:min(at+cut, len(tt.out))]))
				}
				if d := cmp.Diff(tt.want, w.words(5), cmpopts.IgnoreFields(Raised{}, "At"), cmpopts.IgnoreFields(Words{}, "Last", "First", "Gone", "Above", "Early", "Past", "Began")); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestWords(t *testing.T) {
	many := ""
	for i := range 20 {
		many += fmt.Sprintf("epoch %d\nepoch %d\n", i, i)
	}
	first := strings.Split(strings.TrimSpace(many), "\n")
	var ten []string
	for i := 0; i < 20; i += 2 {
		ten = append(ten, first[i])
	}
	long := strings.Repeat("x", 2000)
	for _, tt := range []struct {
		name, said string
		want       Words
	}{
		{"nothing", "", Words{}},
		{"the first ten distinct lines", many, Words{First: ten}},
		{"a traceback after many lines", many + raised, Words{First: ten, Raised: said("ValueError: loss is nan")}},
		{"without a line end", many + strings.TrimSpace(raised), Words{First: ten, Raised: said("ValueError: loss is nan")}},
		{"a progress bar before it", many + "10%" + strings.Repeat(" ", 290) + "\r20%" + raised, Words{First: ten, Raised: said("ValueError: loss is nan")}},
		{"torch's excepthook", many + "[rank3]: " + strings.ReplaceAll(strings.TrimSpace(raised), "\n", "\n[rank3]: ") + "\n",
			Words{First: ten, Raised: said("ValueError: loss is nan")}},
		{"two lines of a message, and the frames of C++ left out", many + strings.Replace(raised, "ValueError: loss is nan", "torch.X: a\nb\nc\nframe #0: d\nframe #1: e", 1),
			Words{First: ten, Raised: said("torch.X: a\nb\nc")}},
		{"a log's line after it", many + raised + fatal + "\nepoch\n", Words{First: ten, Raised: said("ValueError: loss is nan"), Fatal: fatal}},
		{"a log's line, and its stack", many + "Fine\nF12 3\n" + fatal + "\n" + strings.Repeat("    @     0x7f614fe40634  absl::\n", 20), Words{First: ten, Fatal: fatal}},
		{"a log's line at once", fatal, Words{First: []string{fatal}, Fatal: fatal}},
		{"one while another was handled", many + raised + "\nDuring handling of the above exception, another exception occurred:\n\n" + strings.ReplaceAll(raised, "ValueError: loss is nan", "KeyError: 3"),
			Words{First: ten, Raised: []Raised{{Text: "ValueError: loss is nan", Where: "train.py:6", Own: true}, {Text: "KeyError: 3", Where: "train.py:6", Own: true, Link: job.WhileHandling}}}},
		{"a group, of which one has a traceback", many + group + "epoch\n", Words{First: ten, Raised: []Raised{
			{Text: "ExceptionGroup: many (2 sub-exceptions)", Where: "train.py:6", Own: true}, {Text: "OSError: b", Link: job.Member},
			{Text: "ValueError: loss is nan", Where: "train.py:6", Own: true, Link: job.Member}}}},
		{"a group in a table", many + "  | x\n" + raised + "  | y\n", Words{First: ten, Raised: said("ValueError: loss is nan\n  | y")}},
		{"one after which it said more", many + raised + strings.Repeat("epoch 0\n", 100), Words{First: ten, Raised: said("ValueError: loss is nan\nepoch 0\nepoch 0")}},
		{"one that it went on after", many + raised + strings.Repeat("epoch\n", maxSince/3), Words{}},
		{"what it has not outlived", many + strings.Repeat("epoch 0\n", maxOutlived/8-100), Words{First: ten}},
		{"what it has outlived", many + strings.Repeat("epoch 0\n", maxOutlived/8+100), Words{}},
		{"the last six", many + strings.Repeat(raised+"\n", 9), Words{First: ten, Raised: said(slices.Repeat([]string{"ValueError: loss is nan"}, maxRaised)...)}},
		{"long lines", long + "\n", Words{First: []string{long[:maxWord]}}},
	} {
		tt.want.Mute = tt.want.Raised != nil && tt.name != "one after which it said more"
		for _, cut := range []int{1 << 15, 1, 7, 100} { // in one piece, and in many
			t.Run(fmt.Sprint(tt.name, " by ", cut), func(t *testing.T) {
				w := &words{of: map[int]*hearing{}, out: map[int]*hearing{}}
				for at := 0; at < len(tt.said); at += cut {
					w.add(5, job.Stderr, []byte(tt.said[at:min(at+cut, len(tt.said))]))
				}
				if d := cmp.Diff(tt.want, w.words(5), cmpopts.IgnoreFields(Raised{}, "At"), cmpopts.IgnoreFields(Words{}, "Last", "Gone", "Above")); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// However much a process writes, little of it is kept.
func TestWordsAreBounded(t *testing.T) {
	w := &words{of: map[int]*hearing{}, out: map[int]*hearing{}}
	for i := range 2000 {
		w.add(0, job.Stderr, []byte(fmt.Sprintf("Traceback (most recent call last):\n  File \"x\"\nE%d: %s\n%s\n%s\n%s\n", i, strings.Repeat("a", 3000), strings.Repeat("b", 3000), strings.Repeat("c", 3000), strings.Repeat("d", 3000))))
	}
	n := 0
	got := w.words(0)
	for _, l := range got.First {
		n += len(l)
	}
	for _, e := range got.Raised {
		n += len(e.Text)
	}
	if most := maxFirst*maxWord + maxRaised*(maxTold+len("\n...\n")); n > most || len(got.Raised) != maxRaised {
		t.Errorf("%d bytes kept, %d tracebacks", n, len(got.Raised))
	}
}

// A back-trace is found behind other lines, in whatever pieces it comes.
func TestFramesInPieces(t *testing.T) {
	const text = "[w0:4711] *** Process received signal ***\n[w0:4711] [ 0] /lib/libc.so.6(+0x42520)[0x7f]\n[w0:4711] [ 1] ./solver(apply_flux+0x1d)[0x55]\n[w0:4711] [ 2] ./solver(main+0x9a)[0x55]\n"
	for _, before := range []string{"", strings.Repeat("line\nanother line\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", 3)} {
		for _, piece := range []int{1, 7, 1 << 20} {
			w := &words{of: map[int]*hearing{}, out: map[int]*hearing{}}
			for rest := before + text; rest != ""; {
				n := min(piece, len(rest))
				w.add(3, job.Stderr, []byte(rest[:n]))
				rest = rest[n:]
			}
			if got := w.words(3).Frames; !slices.Equal(got, []string{"apply_flux (solver)", "main (solver)"}) {
				t.Errorf("in pieces of %d: %q", piece, got)
			}
		}
	}
}
