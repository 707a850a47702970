package trial

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestParse(t *testing.T) {
	s, err := Parse[Shared]("a word of the image's\n{\"size\":4,\"missing\":[2]}\n")
	if err != nil || s.Size != 4 || len(s.Missing) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{"": "nothing", "\n \n": "nothing", "no JSON": "not a result", strings.Repeat("x", MaxText+1): "more than"} {
		if _, err := Parse[Computed](text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"cpus":2,"rounds":16,"fewest":8,"wrong":[{"cpu":1,"times":2,"of":8}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		_, _ = Parse[Computed](text)
		_, _ = Parse[Shared](text)
	})
}
