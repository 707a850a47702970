package remains

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mpiup/mpiup/launcher/remains/report"
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
