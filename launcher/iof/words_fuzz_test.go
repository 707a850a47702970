package iof

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

// What a rank writes is no larger for how it is cut, tells the same, and is bounded.
func FuzzWords(f *testing.F) {
	f.Add(raised, 3, true)
	f.Add("epoch 1\n"+raised+"Abort(1) on node 0\n", 40, false)
	f.Add("[rank3]: "+strings.ReplaceAll(raised, "\n", "\n[rank3]: "), 7, false)
	f.Add(group+raised+group, 11, false)
	f.Add("During handling of the above exception, another exception occurred:\n"+raised+strings.Repeat("x", 100), 64, false)
	f.Add("x.Error: a\n\nThe above exception was the direct cause of the following exception:\n\ny.Error: b\n"+strings.Repeat("line\n", 12)+"  File \"a\", line 1\nSyntaxError: c\n", 5, true)
	f.Add("╭── Traceback (most recent call last) ──╮\n│ /a/b.py:6 in c │\n╰──╯\nError: d\ne\n", 9, true)
	f.Add(strings.Repeat("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n", 2)+"OSError: a\n"+"\nDuring handling of the above exception, another exception occurred:\n\n"+raised+"[rank1]: Original "+raised, 30, true)
	f.Fuzz(func(t *testing.T, text string, n int, errs bool) {
		defer cost.Watch(t, cost.Parser, 2*len(text))()
		text = text[:min(len(text), maxPrinted)] // of more only the end of a piece counts
		s := job.Stdout
		if errs {
			s = job.Stderr
		}
		w := &words{of: map[int]*hearing{}, out: map[int]*hearing{}}
		w.add(0, s, []byte(text))
		for rest := []byte(text); len(rest) > 0; {
			at := min(max(n&0xfff, 1), len(rest))
			w.add(1, s, rest[:at])
			rest = rest[at:]
		}
		whole, cut := w.words(0), w.words(1)
		for _, list := range [][]Raised{whole.Raised, cut.Raised} {
			if len(list) > 0 {
				list[0].Link = job.Unlinked // to none that is here
			}
		}
		if diff := cmp.Diff(whole.Raised, cut.Raised, cmpopts.IgnoreFields(Raised{}, "At", "Old")); diff != "" {
			t.Errorf("cut at each %d bytes it tells (-whole +cut)\n%s", n&0xfff, diff)
		}
		size := 0
		for _, r := range whole.Raised {
			size += len(r.Text) + len(r.Where)
			if r.Printed == errs {
				t.Errorf("%+v stood on %v", r, s)
			}
		}
		if size > 4*len(text)+16 || len(whole.Raised) > maxRaised {
			t.Errorf("%d bytes in %d exceptions of %d bytes", size, len(whole.Raised), len(text))
		}
	})
}
