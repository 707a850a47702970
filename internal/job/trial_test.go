package job

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestParseTrial(t *testing.T) {
	s, err := ParseTrial[DirTrial]("a word of the image's\n{\"size\":4,\"missing\":[2]}\n")
	if err != nil || s.Size != 4 || len(s.Missing) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{"": "nothing", "\n \n": "nothing", "no JSON": "not a result", strings.Repeat("x", maxTrialText+1): "more than"} {
		if _, err := ParseTrial[CPUTrial](text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func FuzzParseTrial(f *testing.F) {
	f.Add(`{"cpus":2,"rounds":16,"fewest":8,"wrong":[{"cpu":1,"times":2,"of":8}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		_, _ = ParseTrial[CPUTrial](text)
		_, _ = ParseTrial[DirTrial](text)
	})
}
