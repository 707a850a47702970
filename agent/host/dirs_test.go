package host

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestWritable(t *testing.T) {
	made := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if _, err := Writable(made); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(made); err != nil || len(left) > 0 {
		t.Errorf("left there: %v, %v", left, err)
	}
	if passing, err := Writable("/dev/shm"); err != nil || passing != "memory (tmpfs)" {
		t.Errorf("/dev/shm: %q, %v", passing, err)
	}
	file := filepath.Join(made, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Writable(file); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
	if _, err := Writable("/proc/mpiup"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file system that takes nothing: %v", err)
	}
}

// A file system that does not answer is waited for once: what comes while that question stands is told at once. When it has been answered others are.
func TestDirectoriesOnADeadMount(t *testing.T) {
	dir := t.TempDir()
	h := New(Config{RunDir: dir, Log: slog.New(slog.DiscardHandler)})
	held, begun := make(chan struct{}), time.Now()
	if err := h.atBase(func() error { <-held; return nil }); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v", err)
	}
	first := time.Since(begun)
	if at, remove := h.SessionDir("x"); at != "" {
		t.Errorf("a session's directory is %s", at)
	} else {
		remove()
	}
	h.RemoveEmpty("x")
	h.RemoveDirs(filepath.Join(dir, "session-x"))
	if more := time.Since(begun) - first; first < StatBound/2 || more > StatBound/2 {
		t.Errorf("the first took %v, the others %v", first, more)
	}

	close(held)
	for h.unanswered.Load() > 0 {
		runtime.Gosched()
	}
	at, remove := h.SessionDir("x")
	if at == "" {
		t.Error("there is no directory once it has answered")
	}
	remove()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is not removed: %v", err)
	}
}
