package report

import "testing"

// Each end that a report tells of a rank is kept when the report is read, and no other text is.
func TestEndsThatAreRead(t *testing.T) {
	for end, want := range map[string]string{
		"": "", "exit code 3": "exit code 3", "signal 9 (SIGKILL)": "signal 9 (SIGKILL)", LostWithHost: LostWithHost,
		"was not started: no such file": "was not started", "kubectl delete node --all": "", LostWithHost + "; rm -rf /": "",
	} {
		r := Report{Mark: Mark, Version: Version, Ranks: []Rank{{End: end}}}
		if err := r.Check(); err != nil || r.Ranks[0].End != want {
			t.Errorf("%q is read as %q (%v), want %q", end, r.Ranks[0].End, err, want)
		}
	}
}
