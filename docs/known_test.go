package docs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

// Each row says what it must, and has a source that somebody can look up.
func TestKnownRows(t *testing.T) {
	rows := knownRows()
	if len(rows) < 10 {
		t.Fatalf("%d rows: a line of another number of columns is left out", len(rows))
	}
	for _, r := range rows {
		if r.Library == "" || r.From == "" || r.To == "" || compare(r.To, r.From) < 0 || r.Symptom == "" || r.Remedy == "" || !slices.Contains([]string{Hang, Crash, Other}, r.Kind) {
			t.Errorf("%+v", r)
		}
		for _, s := range strings.Fields(r.Source) {
			if !strings.HasPrefix(s, "https://github.com/") && !strings.HasPrefix(r.Source, "docs/") {
				t.Errorf("%s %s: source %q", r.Library, r.From, s)
			}
		}
		if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
			t.Errorf("%s %s: %v", r.Library, r.From, err)
		}
		if s := r.Sentence(); strings.Contains(s, "because") || len(s) > 400 {
			t.Errorf("%d bytes: %s", len(s), s)
		}
	}
}

func TestKnownOf(t *testing.T) {
	for _, c := range []struct {
		text, arch string
		kinds      string
	}{
		{"MPICH 4.0.2 (/usr/lib/libmpich.so.12)", "amd64", "other hang"},
		{"MPICH 4.1.2", "amd64", "other"},
		{"MPICH 4.2.2", "amd64", ""},
		{"MPICH 4.3.0b1", "amd64", "crash"},
		{"MPICH 4.3.0", "amd64", ""},
		{"Open MPI 4.1.4 (/usr/lib/libmpi.so.40)", "amd64", ""},
		{"Open MPI 5.0.7", "amd64", "other"},
		{"NCCL 2.28.9", "arm64", "hang crash"},
		{"NCCL 2.28.9", "amd64", "crash"},
		{"NCCL 2.29.3", "arm64", ""},
		{"NCCL 2.16.5", "amd64", "hang"},
		{"NCCL", "amd64", ""},
		{"MPICH", "", ""},
		{"", "", ""},
		{"MPICH x.y", "", ""},
	} {
		var kinds []string
		for _, r := range knownOn(c.text, c.arch) {
			kinds = append(kinds, r.Kind)
		}
		if got := strings.Join(kinds, " "); got != c.kinds {
			t.Errorf("%s on %s: %q in place of %q", c.text, c.arch, got, c.kinds)
		}
	}
}

func FuzzKnownOn(f *testing.F) {
	f.Add("MPICH 4.0.2 (x)", "amd64")
	f.Add("NCCL 2.99999999999999999999", "arm64")
	f.Fuzz(func(t *testing.T, text, arch string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		for _, r := range knownOn(text, arch) {
			if r.Library == "" {
				t.Error(text)
			}
		}
	})
}
