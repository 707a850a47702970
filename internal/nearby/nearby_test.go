package nearby

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/test/cost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served begins to answer in a directory, and ends with the test.
func served(t *testing.T, dir, name string, answer func(byte, []byte) ([]byte, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := Serve(ctx, dir, name, func(_ context.Context, kind byte, q []byte) ([]byte, error) { return answer(kind, q) }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); parts.Wait() })
	for {
		if c, err := net.Dial("unix", filepath.Join(dir, name+suffix)); err == nil {
			c.Close()
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("it does not listen")
		}
	}
}

func ours(t *testing.T) string { return filepath.Join(t.TempDir(), "look") }

func TestAskAndServe(t *testing.T) {
	dir := ours(t)
	if all, err := Ask(t.Context(), dir, 1, nil, 10); all != nil || err != nil {
		t.Errorf("where nobody listens: %v, %v", all, err)
	}
	served(t, dir, "7", func(kind byte, q []byte) ([]byte, error) { return append([]byte{kind}, q...), nil })
	served(t, dir, "8", func(byte, []byte) ([]byte, error) { return nil, errors.New("not now") })
	served(t, dir, "9", func(byte, []byte) ([]byte, error) { return bytes.Repeat([]byte("x"), 11), nil })
	if err := os.WriteFile(filepath.Join(dir, "5"+suffix), nil, 0o600); err != nil { // what no socket is
		t.Fatal(err)
	}
	all, err := Ask(t.Context(), dir, 2, []byte("who"), 10)
	if err != nil || len(all) != 3 || string(all[0].Text) != "\x02who" || all[0].Name != "7" || all[1].Err == nil || all[1].Err.Error() != "not now" ||
		all[2].Err == nil || !strings.Contains(all[2].Err.Error(), "11 bytes, and 10 are the most") {
		t.Errorf("%v, %v", all, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "5"+suffix)); err == nil {
		t.Error("a name at which nobody listens is left")
	}
}

// A directory that is not this user's alone is used by neither side: open to others, a link, no directory, another's.
func TestOnlyOurOwnDirectory(t *testing.T) {
	at := t.TempDir()
	wide, link, file, others := filepath.Join(at, "wide"), filepath.Join(at, "link"), filepath.Join(at, "file"), filepath.Join(at, "others")
	for _, err := range []error{os.Mkdir(wide, 0o700), os.Chmod(wide, 0o750), os.Symlink(t.TempDir(), link), os.WriteFile(file, nil, 0o600), os.Mkdir(others, 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{wide, link, file}
	if os.Geteuid() == 0 {
		if err := os.Chown(others, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, others)
	}
	for _, path := range paths {
		if err := Serve(t.Context(), path, "1", nil); err == nil {
			t.Errorf("it listens in %s", path)
		}
		if all, err := Ask(t.Context(), path, 1, nil, 10); err == nil || all != nil {
			t.Errorf("it asks in %s: %v", path, all)
		}
	}
}

// Who says nothing, says too much, or comes in numbers keeps nobody else from being answered, for longer than a question may take.
func TestAFloodOfQuestions(t *testing.T) {
	dir := ours(t)
	served(t, dir, "1", func(byte, []byte) ([]byte, error) { return []byte("here"), nil })
	for i := range 2 * maxAsking {
		c, err := net.Dial("unix", filepath.Join(dir, "1"+suffix))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 { // a question that is larger than any
			if _, err := c.Write(binary.BigEndian.AppendUint32([]byte{1}, 1<<31)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*hearing)
	defer cancel()
	begun := time.Now()
	all, err := Ask(ctx, dir, 1, nil, 10)
	if err != nil || len(all) != 1 || all[0].Err != nil || string(all[0].Text) != "here" {
		t.Errorf("%v, %v after %v", all, err, time.Since(begun))
	}
}

func TestDir(t *testing.T) {
	for _, tt := range [][3]string{{"/run/user/7", "/tmp", "/run/user/7/mpiup"}, {"", "/tmp", "/tmp/mpiup-look-7"}, {"relative", "/tmp", "/tmp/mpiup-look-7"}} {
		if got := Dir(tt[0], tt[1], 7); got != tt[2] {
			t.Errorf("%q: %s", tt, got)
		}
	}
}

// A length that is promised costs no memory before its bytes come.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 3, 'a', 'b', 'c'})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		defer cost.Watch(t, cost.Parser, len(in))()
		_, text, err := receive(bytes.NewReader(in), maxQuestion)
		if err == nil && (len(text) > maxQuestion || len(text) > len(in) || cap(text) > 4*len(in)+1024) {
			t.Errorf("%d bytes of %d, room for %d", len(text), len(in), cap(text))
		}
	})
}
