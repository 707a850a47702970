package logs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// score is what became of the logs of the second half.
type score struct {
	failures, kinds, ranks  int // right
	names, named            int // failures whose rank is known, and those of them whose rank is told
	accused                 int // a rank was named that is not the one, or where none is known
	certain, certainWrong   int // verdicts that name a rank and are certain
	probable, probableWrong int // and those that are probable
	healthy, calledFailed   int
	wrong                   []string
	confusion               map[[2]string]int // kinds, as they are and as they are told
}

// judge compares a verdict with what was written down of a log before it was read.
func (s *score) judge(name, want, got string) {
	wk, wr := kindAndRank(want)
	gk, gr := kindAndRank(got)
	if s.confusion == nil {
		s.confusion = map[[2]string]int{}
	}
	s.confusion[[2]string{wk, gk}]++
	if want == "none" {
		s.healthy++
		if got != "none" {
			s.calledFailed++
			s.wrong = append(s.wrong, fmt.Sprintf("%s: is %q, and went well", name, got))
		}
		return
	}
	s.failures++
	if wk == gk {
		s.kinds++
	}
	if wr == gr {
		s.ranks++
	}
	if number(wr) >= 0 {
		s.names++
		if wr == gr {
			s.named++
		}
	}
	named := got != "none" && gr != "unknown" && !strings.HasPrefix(gr, "one of")
	falsely := named && wr != gr
	if falsely {
		s.accused++
	}
	switch wrong := falsely || wk != gk; {
	case strings.Contains(got, "certain") && named:
		s.certain++
		if wrong {
			s.certainWrong++
		}
	case strings.Contains(got, "probably"):
		s.probable++
		if wrong {
			s.probableWrong++
		}
	}
	if wk != gk || wr != gr {
		s.wrong = append(s.wrong, fmt.Sprintf("%s: is %q, want %q", name, got, want))
	}
}

func kindAndRank(text string) (kind, rank string) {
	text = strings.TrimPrefix(strings.Replace(text, "kind probably ", "kind ", 1), "kind ")
	text, _, _ = strings.Cut(text, ", reported by")
	kind, rank, _ = strings.Cut(text, " rank ")
	rank = strings.TrimSuffix(strings.TrimSuffix(rank, " certain"), " probably")
	if rank == "none" {
		rank = "unknown"
	}
	return kind, rank
}

// The logs of testdata/unseen were collected when the rules were done, and what they tell was written down before they were read: each has it in
// its second line, as those of testdata/corpus. They are no examples to write rules from: docs/tested.md has how they are used.
func TestUnseen(t *testing.T) {
	files, err := filepath.Glob("testdata/unseen/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var s score
	for _, file := range files {
		_, want, r := judged(t, file)
		s.judge(strings.TrimSuffix(filepath.Base(file), ".txt"), want, said(r))
	}
	for _, w := range s.wrong {
		t.Log(w)
	}
	t.Logf("failures %d, kinds %d, ranks %d, known ranks %d (named %d), accused %d, certain %d (wrong %d), probable %d (wrong %d), healthy %d, called failed %d",
		s.failures, s.kinds, s.ranks, s.names, s.named, s.accused, s.certain, s.certainWrong, s.probable, s.probableWrong, s.healthy, s.calledFailed)
	for _, pair := range slices.SortedFunc(maps.Keys(s.confusion), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		t.Logf("%s told as %s: %d", pair[0], pair[1], s.confusion[pair])
	}
	// The table in docs/tested.md.
	if s.failures < 100 || s.healthy < 40 {
		t.Errorf("the second half has %d failures and %d healthy logs: at least 100 and 40 make one", s.failures, s.healthy)
	}
	if s.kinds*100 < s.failures*95 || s.accused > 0 || s.calledFailed > 0 {
		t.Error("the second half got worse than 95 % of kinds, nobody accused falsely, no healthy log called failed")
	}
	if s.named*100 < s.names*80 { // nobody is right by silence
		t.Errorf("of %d ranks that the logs show %d are named: fewer than 80 %%", s.names, s.named)
	}
}

// A sign that no line of a real log shows is a guess, and says so: its kind is probable. Lines of mpiup's own, as its tests have them, are real.
func TestSignsAreShownOrProbable(t *testing.T) {
	files, _ := filepath.Glob("testdata/*/*.txt")
	own, _ := filepath.Glob("../testdata/*.txt")
	shown := map[*verdict.Sign]bool{}
	for _, file := range slices.Concat(files, own, []string{"../testdata/lines/real.tsv"}) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if s, _ := verdict.Recognise(line); s != nil {
				shown[s] = true
			}
		}
	}
	all := verdict.Signs()
	guesses := 0
	for i := range all {
		switch s := &all[i]; {
		case s.Likely && s.Kind != "":
			guesses++
		case !shown[s]:
			t.Errorf("no line of a real log shows %q (%s): show one, or write \"?%s\", which is probable", s.Text, s.Kind, s.Text)
		}
	}
	t.Logf("%d of %d signs are shown, %d are probable", len(shown), len(all), guesses)
}
