package job

import (
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, tt := range []struct{ name, parent, state, want, wantState string }{
		{"as it is", parent, "a=1,b=2", parent, "a=1,b=2"},
		{"not sampled", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", ""},
		{"of a later version", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what", "", parent, ""},
		{"too much state", parent, string(make([]byte, 600)), parent, ""},
		{"state of two lines", parent, "a\nb", parent, ""},
		{"none", "", "", "", ""},
		{"one more part", parent + "-00", "", "", ""},
		{"version 255", "ff" + parent[2:], "", "", ""},
		{"capitals", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "", "", ""},
		{"no id", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "", "", ""},
		{"no span", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "", "", ""},
		{"short", "00-0af7-b7ad6b7169203331-01", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseTrace(tt.parent, tt.state)
			if got.String() != tt.want || got.State != tt.wantState || (err == nil) != (tt.want != "") {
				t.Errorf("%q %q, %v", got, got.State, err)
			}
		})
	}
}

// What is below has the same trace and a span of its own, the same for everybody.
func TestTraceBelow(t *testing.T) {
	run, err := ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Trace]bool{run: true}
	for attempt := range 3 {
		for _, is := range []Trace{run.Attempt(attempt), run.Attempt(attempt).Rank(0, 1), run.Attempt(attempt).Rank(1, 0), run.Attempt(attempt).Rank(0, 11)} {
			if seen[is] || is.ID != run.ID || is.Flags != 1 {
				t.Errorf("%v", is)
			}
			seen[is] = true
		}
	}
	// Written down, since a launcher and an agent of two builds may derive it.
	if got, want := run.Attempt(0).Rank(0, 0).String(), "00-0af7651916cd43dd8448eb211c80319c-7b6ca9c64f9778b7-01"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !(Trace{}).Attempt(1).Rank(0, 0).IsZero() {
		t.Error("something below nothing")
	}
}

func FuzzParseTrace(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1")
	f.Fuzz(func(t *testing.T, parent, state string) {
		defer cost.Watch(t, cost.Parser, len(parent)+len(state))()
		is, err := ParseTrace(parent, state)
		if err != nil {
			return
		}
		if again, err := ParseTrace(is.String(), is.State); err != nil || again != is {
			t.Errorf("%v is %v, %v", is, again, err)
		}
	})
}
