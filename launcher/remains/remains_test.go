package remains

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Of the reports in one folder the newest stay, and none is put where others may write.
func TestFewReportsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reports")
	var newest string
	for i := range maxKept + 3 {
		var err error
		r := &report.Report{Job: "j", Begun: time.Unix(int64(i), 0)}
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
	if name, err := keep(dir, &report.Report{}); err == nil {
		t.Errorf("%s stands where others may write", name)
	}
}

// Whoever reads where a failed run's report is reads too that it does not last.
func TestWhatIsKeptMayGo(t *testing.T) {
	var said string
	k := New(Config{Kept: filepath.Join(t.TempDir(), "reports"), Lost: " (soon gone)"}, report.Report{}, func(format string, args ...any) { said += fmt.Sprintf(format, args...) }, slog.New(slog.DiscardHandler))
	k.Launched("j", nil, []report.Rank{{Host: "w0"}}, "1 rank")
	k.Started(0, 7)
	k.Leave(&verdict.Verdict{}, 1)
	if !strings.HasPrefix(said, "what happened when: mpiup report ") || !strings.HasSuffix(said, ".json (soon gone)") {
		t.Errorf("it says %q", said)
	}
}
