package iof

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

// A second attempt leaves the first one's files alone, a third both.
func TestAttempts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	for i, want := range []string{"", "attempt-2", "attempt-3"} {
		c := Config{Dir: dir, Ranks: 1}
		if err := c.NextAttempt(); err != nil || c.Dir != filepath.Join(dir, want) {
			t.Fatalf("attempt %d: %q, %v", i+1, c.Dir, err)
		}
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		s.Write(0, job.Stdout, []byte{byte('1' + i)}, true, s.cfg.Begun)
		s.End(0)
		s.Close()
		if err := s.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for i, at := range []string{"", "attempt-2", "attempt-3"} {
		if text, err := os.ReadFile(filepath.Join(dir, at, "rank.0", "stdout")); err != nil || string(text) != string(rune('1'+i)) {
			t.Errorf("attempt %d has %q, %v", i+1, text, err)
		}
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Dir: other}
	if err := c.NextAttempt(); err != nil || c.Dir != other {
		t.Errorf("beside the user's own files: %q, %v", c.Dir, err)
	}
	c = Config{Dir: filepath.Join(other, "notes")}
	if err := c.NextAttempt(); err == nil || !strings.Contains(err.Error(), "notes") {
		t.Errorf("a file: %v", err)
	}
}
