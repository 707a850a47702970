package job

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestParseTrial(t *testing.T) {
	s, err := ParseTrial("a word of the image's\n{\"size\":4,\"missing\":[2]}\n")
	if err != nil || s.Size != 4 || len(s.Missing) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{"": "nothing", "\n \n": "nothing", "no JSON": "not a result", strings.Repeat("x", maxTrialText+1): "more than"} {
		if _, err := ParseTrial(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func FuzzParseTrial(f *testing.F) {
	f.Add(`{"size":2,"write_ns":16,"missing":[1,2],"locked":20}`)
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		_, _ = ParseTrial(text)
	})
}
