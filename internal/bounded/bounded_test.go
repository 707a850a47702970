package bounded

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestBounds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "text")
	if err := os.WriteFile(path, []byte("12345678"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(int) ([]byte, error){
		"Read":    func(most int) ([]byte, error) { return Read(strings.NewReader("12345678"), most) },
		"File":    func(most int) ([]byte, error) { return File(path, most) },
		"Regular": func(most int) ([]byte, error) { return Regular(path, most) },
	} {
		if text, err := read(8); string(text) != "12345678" || err != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		text, err := read(7)
		if text != nil || !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "longer than 7 bytes") || name != "Read" && !strings.Contains(err.Error(), path) {
			t.Errorf("%s beyond its bound: %q, %v", name, text, err)
		}
	}
	for _, read := range []func(string, int) ([]byte, error){File, Regular} {
		if _, err := read(filepath.Join(dir, "none"), 8); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := read("/dev/zero", 1<<10); !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrNotRegular) {
			t.Error(err)
		}
	}
}

// A pipe that a user names is read, and one that is found holds nobody up.
func TestPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Regular(path, 8); !errors.Is(err, ErrNotRegular) {
		t.Error(err)
	}
	written := make(chan error)
	go func() { written <- os.WriteFile(path, []byte("text"), 0) }()
	if text, err := File(path, 8); !bytes.Equal(text, []byte("text")) || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
