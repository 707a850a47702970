package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/golden"
)

// Each file of testdata/corpus is what a job wrote, cut to the lines that are the fact. Its first line names its public source, the second what
// is said of it (said) or "none" of a job that went well or on; a further "# file" begins the log of another pod. Those of testdata/jobs are put
// together by hand from such lines: many ranks, of which one failed first. go test -update writes the second lines anew.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d logs, %v", len(files), err)
	}
	jobs, err := filepath.Glob("testdata/jobs/*.txt")
	if err != nil || len(jobs) == 0 {
		t.Fatal(jobs, err)
	}
	for _, file := range append(files, jobs...) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			source, want, r := judged(t, file)
			got := said(r)
			if golden.Updating() && got != want {
				text, _ := os.ReadFile(file)
				text = []byte(source + "\n# " + got + "\n" + strings.SplitN(string(text), "\n", 3)[2])
				if err := os.WriteFile(file, text, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != want {
				t.Errorf("is %q, want %q", got, want)
			}
		})
	}
}

// judged is a log of the corpus: its source, what is said of it, and its lines as they are read.
func judged(t *testing.T, file string) (source, want string, r *Reader) {
	t.Helper()
	source, want, lines := collected(t, file)
	r = &Reader{}
	for _, l := range lines {
		if l == "# file" {
			r.File()
		} else {
			r.Line(l)
		}
	}
	return source, want, r
}

func collected(t *testing.T, file string) (source, want string, lines []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines = strings.Split(string(text), "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "# ") || !strings.HasPrefix(lines[1], "# kind ") && lines[1] != "# none" {
		t.Fatalf("%s: no source or no kind in the first lines", file)
	}
	return lines[0], strings.TrimPrefix(lines[1], "# "), lines[2:]
}

// said is a verdict as the second line of a corpus file has it: kind [probably] KIND rank N certain|N probably|one of LIST|unknown|none
// [, reported by LIST].
func said(r *Reader) string {
	v, ok := r.Verdict()
	if !ok {
		return "none"
	}
	text := "kind "
	if v.Likely {
		text += "probably "
	}
	text += string(v.Kind) + " rank "
	switch {
	case v.Rank != nil:
		text += fmt.Sprint(*v.Rank, " ", v.Confidence)
	case v.Confidence == verdict.OneOfSeveral:
		text += "one of " + v.Ranks
	case v.Confidence == verdict.Unknown:
		text += "unknown"
	default:
		text += "none"
	}
	if v.Reporters != "" {
		text += ", reported by " + v.Reporters
	}
	return text
}

// Each row of facts.txt is a fact, and its pattern is one.
func TestFacts(t *testing.T) {
	n := 0
	for row := range strings.Lines(factsText) {
		if row[0] == '#' || row == "\n" {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		if len(cells) != 3 || !slices.Contains([]string{"says", "first", "waits", "ours", "self"}, cells[0]) || strings.Trim(cells[1], "|") != cells[1] {
			t.Fatalf("%q is no fact", row)
		}
		if _, err := regexp.Compile(cells[2]); err != nil {
			t.Error(err)
		}
		n++
	}
	if n != len(facts()) {
		t.Errorf("%d rows, %d facts", n, len(facts()))
	}
}

// perLog is what reading a log may cost. What the patterns match with is made when it is first needed and again after each garbage
// collection, which is not the input's doing.
var perLog = cost.Bound{Fixed: 32 << 20, PerByte: 512}

// Whatever is read, little is kept, and nothing takes long.
func FuzzReader(f *testing.F) {
	files, _ := filepath.Glob("testdata/corpus/*.txt")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte(strings.Repeat("[7]: ", 2000) + "\n{\"time\":\"x\",\"rank\":1}\nTraceback (most recent call last):\n\x1b[31m  x\n\xff\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer cost.Watch(t, perLog, len(text))()
		var r Reader
		for line := range strings.Lines(string(text)) {
			r.Line(strings.TrimSuffix(line, "\n"))
		}
		v, ok := r.Verdict()
		if ok && (v.Kind == "" || len(v.Evidence) == 0 && r.own.verdict() == nil || v.Rank != nil && *v.Rank < 0) {
			t.Errorf("%+v", v)
		}
		if len(r.lanes) > maxLanes+1 || len(r.pids) > maxPIDs+1 {
			t.Errorf("%d processes and %d numbers kept", len(r.lanes), len(r.pids))
		}
	})
}

// Lines of very many ranks are kept as a bounded part.
func TestReaderIsBounded(t *testing.T) {
	var r Reader
	for i := range 20_000 {
		r.Line(fmt.Sprintf("[1,%d]<stderr>:RuntimeError: CUDA out of memory. Tried to allocate %s", i, strings.Repeat("x", 100)))
	}
	n := 0
	for _, list := range r.found {
		n += len(list)
	}
	if len(r.lanes) > maxLanes+1 || n > maxFound*len(r.found) || len(r.open) > 4 {
		t.Errorf("%d lanes, %d findings", len(r.lanes), n)
	}
	if got := said(&r); got != "kind gpu-out-of-memory rank one of 0-2047" {
		t.Error(got)
	}
}

// A number that is too high for a rank is none, wherever it stands.
func TestNumbersThatAreNoRanks(t *testing.T) {
	for _, lines := range []string{
		"Abort(1) on node 2000000000 (rank 2000000000 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 2000000000",
		"[1,2000000000]<stderr>:Segmentation fault\n[1,1900000000]<stderr>:Segmentation fault",
		"Rank 2000000000 failed to pass monitoredBarrier in 1000 ms",
		"[Rank 2000000000] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE) ran for 9 milliseconds before timing out.",
	} {
		var r Reader
		var of Teller
		for line := range strings.SplitSeq(lines, "\n") {
			r.Line(line)
			if told := of.Tell([]byte(line)); told.Rank == 1 {
				t.Errorf("%q is of rank 1", line)
			}
		}
		if got := said(&r); !strings.HasSuffix(got, " rank unknown") {
			t.Errorf("%q of %q", got, lines)
		}
	}
}

// Of files that end in one traceback, the first is the one that is told of, each time.
func TestFilesThatEndInOneTraceback(t *testing.T) {
	for range 30 {
		var r Reader
		for range 4 {
			r.File()
			r.Line("Traceback (most recent call last):")
			r.Line(`  File "t.py", line 2, in step`)
		}
		if f := r.guilty(); f == nil || f.file != 1 || said(&r) != "kind probably python-exception rank unknown" {
			t.Fatalf("%+v, %s", f, said(&r))
		}
	}
}

// Each row of texts.txt is of a name that is used, and its patterns are some.
func TestTexts(t *testing.T) {
	var code string
	files, _ := filepath.Glob("*.go")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code += string(text)
	}
	for row := range strings.Lines(textsText) {
		c := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		if row[0] == '#' || row == "\n" {
			continue
		}
		if len(c) < 2 || len(c) > 3 || !strings.Contains(code, `"`+c[0]+`"`) || c[len(c)-1] == "" {
			t.Errorf("%q is no text that is used", row)
		}
		if len(c) == 3 {
			if _, err := regexp.Compile(c[2]); err != nil || strings.Trim(c[1], "|") != c[1] {
				t.Error(row, err)
			}
		}
	}
	for row := range strings.Lines(adviceText) {
		if c := strings.Split(row, "\t"); row[0] != '#' && row != "\n" && (len(c) != 3 || verdict.Of(verdict.Kind(c[1])).Title == "") {
			t.Errorf("%q is no advice", row)
		}
	}
}

// A hint of two letters is one letter to look for, since a word's first may be either: nearly each line of a log would be matched.
func TestHintsAreWords(t *testing.T) {
	for _, c := range pattern.Rows(textsText, 3) {
		for word := range strings.SplitSeq(c[1], "|") {
			if letter := word != "" && word[0] >= 'a' && word[0] <= 'z'; letter && len(word) < 3 {
				t.Errorf("the pattern %s is looked for by %q, which stands everywhere: write a longer word, or ^ and the letters that it begins with", c[0], word)
			}
		}
	}
}
