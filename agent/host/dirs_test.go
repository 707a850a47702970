package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
