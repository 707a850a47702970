package nearby

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/test/cost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served begins to answer in a directory, and ends with the test; its socket is not one of those before.
func served(t *testing.T, dir string, answer func(byte, []byte) ([]byte, error)) (socket string) {
	t.Helper()
	before := sockets(dir)
	ctx, cancel := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := Serve(ctx, dir, func(_ context.Context, kind byte, q []byte) ([]byte, error) { return answer(kind, q) }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); parts.Wait() })
	for {
		for _, socket := range sockets(dir) {
			if !slices.Contains(before, socket) {
				if c, err := net.Dial("unix", socket); err == nil {
					c.Close()
					return socket
				}
			}
		}
		if t.Context().Err() != nil {
			t.Fatal("it does not listen")
		}
	}
}

// sockets are the files of a directory at which somebody listens, or has done so.
func sockets(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "*-*"+suffix))
	return found
}

func ours(t *testing.T) string { return filepath.Join(t.TempDir(), "look") }

func TestAskAndServe(t *testing.T) {
	dir := ours(t)
	if all, err := Ask(t.Context(), dir, 1, nil, 10); all != nil || err != nil {
		t.Errorf("where nobody listens: %v, %v", all, err)
	}
	served(t, dir, func(kind byte, q []byte) ([]byte, error) { return append([]byte{kind}, q...), nil })
	served(t, dir, func(byte, []byte) ([]byte, error) { return nil, errors.New("not now") })
	served(t, dir, func(byte, []byte) ([]byte, error) { return bytes.Repeat([]byte("x"), 11), nil })
	if err := os.WriteFile(filepath.Join(dir, "5"+suffix), nil, 0o600); err != nil { // what no socket is, and Serve has not made
		t.Fatal(err)
	}
	all, err := Ask(t.Context(), dir, 2, []byte("who"), 10)
	var told []string
	for _, a := range all {
		told = append(told, fmt.Sprintf("%s %q %v", a.Name, a.Text, a.Err))
	}
	me := strconv.Itoa(os.Getpid())
	want := []string{me + ` "" 11 bytes, and 10 are the most`, me + ` "" not now`, me + ` "\x02who" <nil>`}
	if slices.Sort(told); err != nil || !slices.Equal(told, want) {
		t.Errorf("%q, %v", told, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "5"+suffix)); err != nil {
		t.Error("what is not ours was removed")
	}
}

// Two containers may share a directory and a pid: each is found, and goes with its own socket alone. What a process has left that is gone is
// cleared away by who would see it; what others have left is not touched, and of another kernel not asked.
func TestNamesAreNobodyElses(t *testing.T) {
	dir := ours(t)
	first := served(t, dir, func(byte, []byte) ([]byte, error) { return []byte("first"), nil })
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		second <- Serve(ctx, dir, func(context.Context, byte, []byte) ([]byte, error) { return []byte("second"), nil })
	}()
	leave := func(name string) string {
		path := filepath.Join(dir, name)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		return path
	}
	const none = 1 << 30 // no process has it
	boot, pids := kernel()
	killed, alive := leave(named(none)), leave(named(os.Getpid()))
	container, machine, older := leave(fmt.Sprintf("%d-%s.7-01%s", none, boot, suffix)), leave(fmt.Sprintf("%d-cafe.%s-01%s", none, pids, suffix)), leave("8"+suffix)
	told := map[string]bool{}
	for len(told) < 2 && t.Context().Err() == nil {
		all, err := Ask(t.Context(), dir, 1, nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			told[string(a.Text)] = a.Err == nil
		}
	}
	cancel()
	if err := <-second; err != nil || !told["first"] || !told["second"] || len(told) != 2 {
		t.Errorf("%v, %v", told, err)
	}
	for path, stays := range map[string]bool{first: true, killed: false, alive: true, container: true, machine: true, older: true} {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s is there: %v", path, err == nil)
		}
	}
	if left := sockets(dir); len(left) != 4 {
		t.Errorf("%q are left", left)
	}
	if o := ownerOf(filepath.Base(machine)); !o.elsewhere || o.gone {
		t.Errorf("%+v", o)
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
		if err := Serve(t.Context(), path, nil); err == nil {
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
	socket := served(t, dir, func(byte, []byte) ([]byte, error) { return []byte("here"), nil })
	for i := range 2 * maxAsking {
		c, err := net.Dial("unix", socket)
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

// Whoever may write to the directory gets no name into a line, and no line out of an error.
func TestForgedNames(t *testing.T) {
	dir := ours(t)
	mine := served(t, dir, func(byte, []byte) ([]byte, error) { return nil, errors.New("no\nhost w1: it is lost\x1b[2J") })
	for _, name := range []string{"7\npid 8: forged-.1-01" + suffix, "7\x1b[2J-.1-01" + suffix, "x" + suffix, "7-cafe.1-" + suffix, " 7-.1-01" + suffix} {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	all, err := Ask(t.Context(), dir, 1, nil, 100)
	if err != nil || len(all) != 1 || all[0].Name != strconv.Itoa(os.Getpid()) {
		t.Fatalf("%+v, %v; want that of %s alone", all, err, mine)
	}
	if text := all[0].Err.Error(); text != "no"+`\n`+"host w1: it is lost"+`\u001b`+"[2J" {
		t.Errorf("%q", text)
	}
}
