package report

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// Of the reports in one folder the newest stay, and none is put where others may write.
func TestFewReportsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reports")
	var newest string
	for i := range maxKept + 3 {
		var err error
		r := &Report{Job: "j", Begun: time.Unix(int64(i), 0)}
		if newest, err = keep(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != maxKept || files[maxKept-1] != newest {
		t.Errorf("%q, the newest is %s", files, newest)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if name, err := keep(dir, &Report{}); err == nil {
		t.Errorf("%s stands where others may write", name)
	}
}

// Whoever reads that a failed run has left a report reads too that it does not last. A run that its user interrupted leaves none.
func TestWhatIsKeptMayGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reports")
	k := New(Config{Kept: dir, Lost: " (soon gone)"}, Report{}, slog.New(slog.DiscardHandler))
	k.Launched("j", nil, []Rank{{Host: "w0"}}, "1 rank")
	k.Started(0, 7)
	if shows, err := k.Leave(&verdict.Verdict{Kind: verdict.Interrupted, Signal: "SIGINT"}, 130); shows != "" || err != nil {
		t.Errorf("%q, %v", shows, err)
	}
	if shows, err := k.Leave(&verdict.Verdict{}, 1); shows != "mpiup report (soon gone)" || err != nil {
		t.Errorf("%q, %v", shows, err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(files) != 1 {
		t.Errorf("%q", files)
	}
}
