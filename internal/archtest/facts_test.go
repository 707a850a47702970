package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// search looks for words in a text that mpiup itself has made: a frame's, an event's, a fault's.
var search = regexp.MustCompile(`\b(?:strings\.(?:Contains|ContainsAny|HasPrefix|HasSuffix|Index|Cut|CutPrefix|TrimPrefix|EqualFold)|regexp\.\w+|Recognise)\(.*\b\w+\.(?:Text|Why|Lacking|Refused)\b`)

// What mpiup decides it decides by facts: a frame, an event and a fault have a number beside their text, and the text is for people. A change
// of words would change a verdict. The table of signs (Recognise) is for what others wrote.
func TestNobodyReadsOurOwnSentences(t *testing.T) {
	for _, bad := range []string{`strings.Contains(f.Text, "x")`, `_, how, ok = strings.Cut(f.Text, closed)`, `Recognise(f.Text)`, `strings.HasPrefix(strings.ToLower(m.Lacking), "x")`} {
		if !search.MatchString(bad) {
			t.Errorf("not seen: %s", bad)
		}
	}
	eachFile(t, func(path string, text []byte) {
		name := strings.TrimPrefix(path, "../../")
		if strings.HasSuffix(name, "_test.go") || !regexp.MustCompile(`^launcher/(?:verdict/|run/|hang/|exchange/|restart/|)\w+\.go$`).MatchString(name) {
			return
		}
		for i, line := range strings.Split(string(text), "\n") {
			if search.MatchString(line) {
				t.Errorf("%s:%d decides by the words of a sentence of ours: put a number beside the text (internal/job, mpiup.proto): %s", name, i+1, strings.TrimSpace(line))
			}
		}
	})
}
