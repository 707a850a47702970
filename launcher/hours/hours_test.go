package hours

import (
	"slices"
	"testing"
	"time"
)

// A sentence is said of a run of a minute or more, of whose time less than nine tenths was work. launcher/report tests what is in it.
func TestSentence(t *testing.T) {
	list := []Spent{{"waiting", 7200, 14400}, {"init", 100, 200}, {"running", 20000, 40000}, {"over", 1500, 3000}}
	if got, want := Sentence(list, 2*time.Hour), "of 8 rank-hours (16 GPU-hours): 69 % running, 25 % waiting for hosts, 5 % over before others"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	most := slices.Clone(list)
	most[2].Ranks = 200_000
	for _, got := range []string{Sentence(most, time.Hour), Sentence(list, 20*time.Second), Sentence(nil, time.Hour)} {
		if got != "" {
			t.Errorf("%q", got)
		}
	}
}
