package hang

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/drawing"
	"github.com/mpiup/mpiup/test/golden"
)

// graphOf is the picture of ranks by what each is in, the innermost frame first.
func graphOf(t *testing.T, frames ...[]string) (text string, shown drawing.Shown) {
	t.Helper()
	var list []Whereabouts
	for rank, f := range frames {
		list = append(list, Whereabouts{Launcher: "l0", Job: "j1", Rank: uint32(rank), Host: fmt.Sprint("w", rank/2),
			PID: int32(100 + rank), Program: "train", Means: "py-spy", Frames: f})
	}
	var b strings.Builder
	if err := FlameGraph(&b, GroupStacks(list)); err != nil {
		t.Fatal(err)
	}
	return b.String(), drawing.Is(t, b.String())
}

// Frames that ranks share are one, and the rank that left the others' path stands first.
func TestFlameGraph(t *testing.T) {
	main := "<module> (train.py:52)"
	waits := []string{"MPI_Barrier", "barrier (train.py:30)", "step (train.py:41)", main}
	text, shown := graphOf(t, waits, waits, []string{"sleep (train.py:35)", "step (train.py:41)", main}, waits)
	golden.Is(t, "testdata/flame.svg", text)
	for _, want := range []string{main + ": ranks 0-3 (4 of 4)", "step (train.py:41): ranks 0-3 (4 of 4)",
		"sleep (train.py:35): rank 2 (1 of 4)", "MPI_Barrier: ranks 0-1,3 (3 of 4)"} {
		if n := strings.Count("\n"+strings.Join(shown.Tips, "\n")+"\n", "\n"+want+"\n"); n != 1 {
			t.Errorf("%q is there %d times: %q", want, n, shown.Tips)
		}
	}
	all := strings.Join(shown.Texts, "\n")
	if odd, rest := strings.Index(all, "rank 2: sleep"), strings.Index(all, "ranks 0-1,3: barrier"); odd < 0 || rest < odd {
		t.Errorf("rank 2 is not first: %s", all)
	}
}

// One rank of 512 can be seen, and so can 512 ranks of which each is elsewhere.
func TestFlameGraphOfManyRanks(t *testing.T) {
	var same, other [][]string
	for rank := range 512 {
		same = append(same, []string{"MPI_Allreduce", "main"})
		other = append(other, []string{fmt.Sprint("f", rank), "main"})
	}
	same[300] = []string{"compute", "main"}
	text, shown := graphOf(t, same...)
	if want := "compute: rank 300 (1 of 512)"; !strings.Contains(text, `width="8" height="20"><title>`+want) {
		t.Errorf("the odd one is not 8 pixels wide: %q", shown.Tips)
	}
	if !strings.Contains(strings.Join(shown.Texts, "\n"), "rank 300 (w150, pid 400), 1 of 512, by py-spy: compute") {
		t.Errorf("the odd one is not written below: %q", shown.Texts)
	}
	text, shown = graphOf(t, other...)
	if len(text) > 200<<10 || !strings.Contains(strings.Join(shown.Texts, "\n"), "256 groups more are left out") {
		t.Errorf("%d bytes, %q", len(text), shown.Texts[:2])
	}
	graphOf(t) // no rank
}

// FuzzFlameGraph: frames are what a rank calls them.
func FuzzFlameGraph(f *testing.F) {
	f.Add("</title><script>alert(1)</script>\x00\x1b[2J\u202e\nmain", "std::vector<int, a<b> >&")
	f.Fuzz(func(t *testing.T, stack, other string) {
		defer cost.Watch(t, cost.Parser, len(stack)+len(other))()
		frames := strings.Split(stack, "\n")
		if len(frames) > maxFrames {
			return
		}
		graphOf(t, frames, []string{other}, nil)
	})
}
