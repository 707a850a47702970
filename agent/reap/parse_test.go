package reap

import (
	"os"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestProcOfAnotherNamespaceIsNotUsed(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink("1", root+"/self"); err != nil {
		t.Fatal(err)
	}
	s := New(Config{Log: quiet()})
	s.proc.Root = root
	if found, sure := s.search(everything()).look(); len(found) != 0 || !sure {
		t.Errorf("found %v", found)
	}
}

func FuzzIgnoredSignals(f *testing.F) {
	f.Add("SigIgn:\t0000000000001003\n")
	f.Fuzz(func(t *testing.T, s string) {
		defer cost.Watch(t, cost.Parser, len(s))()
		for _, n := range ignoredSignals(s) {
			if n < 1 || n > 64 {
				t.Errorf("%d", n)
			}
		}
	})
}
