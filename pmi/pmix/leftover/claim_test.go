package leftover

import (
	"os"
	"path/filepath"
	"testing"
)

// The first agent of a run has the usual names, the next ones directories of their own, and neither is taken from who holds it.
func TestClaim(t *testing.T) {
	dir := shm(t)
	claim := func(run, session string) (string, func()) {
		t.Helper()
		private, release, err := Claim(dir, run, session)
		if err != nil {
			t.Fatal(err)
		}
		return private, release
	}
	empty := func(why string) {
		t.Helper()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", why, left, err)
		}
	}
	first, one := claim("r1", "s1")
	second, two := claim("r1", "s2")
	third, three := claim("r1", "s3")
	other, four := claim("r2", "s4")
	if first != "" || other != "" || second == "" || third == "" || second == third {
		t.Errorf("%q, %q, %q, %q", first, second, third, other)
	}
	if err := os.WriteFile(filepath.Join(second, "vader_segment.w0.0.1.0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if gone, err := Segments(dir, os.Geteuid()); err != nil || len(gone) != 1 || gone[0] != filepath.Join(filepath.Base(second), "vader_segment.w0.0.1.0") {
		t.Errorf("removed %q, %v", gone, err)
	}
	for _, release := range []func(){one, two, three, four} {
		release()
	}
	empty("released")

	for _, name := range []string{"mpiup_run.r3", "mpiup_run.s5/mpiup_run.held", "mpiup_run.s5/vader_segment.w0.0.1.0"} { // of killed agents
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Segments(dir, os.Geteuid()); err != nil {
		t.Error(err)
	}
	empty("of killed agents")

	if private, release, err := Claim(filepath.Join(dir, "none"), "r", "s"); private != "" || err == nil || release == nil {
		t.Errorf("%q, %v", private, err)
	}
}
