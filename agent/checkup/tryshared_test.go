package checkup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/deadmount"
)

const tokenOfTests = "0123456789abcdef0123456789abcdef"

// phase does a phase on all hosts at once, each with its own directory.
func phase(t *testing.T, name string, dirs []string) []job.DirTrial {
	t.Helper()
	all := make([]job.DirTrial, len(dirs))
	var running sync.WaitGroup
	for i, dir := range dirs {
		running.Go(func() {
			s := Shared{Dir: dir, Token: tokenOfTests, Host: i, Hosts: len(dirs), Size: 5 << 20, Patience: 20 * time.Second}
			if i%2 == 1 && name == "read" {
				s.Patience = 200 * time.Millisecond
			}
			all[i] = s.Phase(t.Context(), name)
		})
	}
	running.Wait()
	return all
}

// A directory on a dead mount, and a pipe in its place, hold no phase up; nor does one that is ended in the middle of a call.
func TestSharedThatDoesNotAnswer(t *testing.T) {
	dead, pipe := deadmount.New(t), filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for _, name := range []string{"write", "read", "lock", "clean"} {
		for _, dir := range []string{dead, pipe} {
			running.Go(func() {
				s := Shared{Dir: dir, Token: tokenOfTests, Hosts: 1, Size: 5 << 20, Patience: time.Second}
				r := s.Phase(t.Context(), name)
				if want := map[string]string{dead: "does not answer", pipe: "not a directory"}[dir]; !strings.Contains(r.Error, want) || !strings.Contains(r.Error, dir) {
					t.Errorf("%s in %s: %q", name, dir, r.Error)
				}
				if dir == dead && r.Fix == "" {
					t.Errorf("%s in %s does not say what to do", name, dir)
				}
			})
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	s := Shared{Dir: dead, Token: tokenOfTests, Hosts: 1, Size: 5 << 20, Patience: time.Second}
	if r := s.Phase(ctx, "read"); r.Error != "it was ended before it was done" || time.Since(begun) > openTime/2 {
		t.Errorf("ended after %v: %q", time.Since(begun), r.Error)
	}
	running.Wait()
}

func TestShared(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	dirs := []string{dir, dir, dir}
	for i, r := range phase(t, "write", dirs) {
		if r.Error != "" || r.Size != 5<<20 || r.WriteNS <= 0 || r.SmallNS <= 0 {
			t.Errorf("host %d writes: %+v", i, r)
		}
	}
	all := 0
	for i, r := range phase(t, "read", dirs) {
		if r.Error != "" || len(r.Missing) > 0 || r.Wrong != 0 || r.ReadNS <= 0 {
			t.Errorf("host %d reads: %+v", i, r)
		}
	}
	for i, r := range phase(t, "lock", dirs) {
		if r.Error != "" || r.NoLocks != "" || r.Loose || r.Stale || r.Locked != raises {
			t.Errorf("host %d locks: %+v", i, r)
		}
		all += r.Locked
	}
	if r := phase(t, "clean", dirs[:1]); r[0].Error != "" || r[0].Count != all {
		t.Errorf("%+v, and the counter was raised %d times", r, all)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "precious" {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// Who has a directory of its own sees nobody's files; who reads other bytes than were written says how many.
func TestSharedThatIsNot(t *testing.T) {
	same, other := t.TempDir(), t.TempDir()
	dirs := []string{same, other, same}
	phase(t, "write", dirs)
	data := filepath.Join(same, ".mpiup-doctor-"+tokenOfTests, "data-0")
	f, err := os.OpenFile(data, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0, 0, 0}, 4<<20+100); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s := Shared{Dir: same, Token: tokenOfTests, Host: 2, Hosts: 3, Size: 5 << 20, Patience: time.Millisecond}
	if r := s.Phase(t.Context(), "read"); r.Error != "" || len(r.Missing) != 1 || r.Missing[0] != 1 || r.Wrong != 3 {
		t.Errorf("%+v", r)
	}
	if err := os.Truncate(data, 1<<20); err != nil {
		t.Fatal(err)
	}
	if r := s.Phase(t.Context(), "read"); r.Wrong != 4<<20 {
		t.Errorf("a file that was cut: %+v", r)
	}
	phase(t, "clean", dirs)
	for _, dir := range []string{same, other} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
	}
}

// A lock that somebody holds is told of after the patience, and does not hold the trial up.
func TestSharedWithoutALock(t *testing.T) {
	dir := t.TempDir()
	s := Shared{Dir: dir, Token: tokenOfTests, Hosts: 1, Size: 1 << 20, Patience: 50 * time.Millisecond}
	if r := s.Phase(t.Context(), "write"); r.Error != "" {
		t.Fatal(r.Error)
	}
	f, err := os.OpenFile(filepath.Join(dir, s.own(), "counter"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := lock(context.Background(), f, 1 /* F_WRLCK */); err != nil {
		t.Fatal(err)
	}
	if r := s.Phase(t.Context(), "lock"); r.Error != "" || r.Locked != 0 || !strings.Contains(r.NoLocks, "no turn came") {
		t.Errorf("%+v", r)
	}
}

// Hosts whose locks are their own get what another has locked. Here each is shown others' words in its own directory, and has
// files to lock of its own, as NFS clients have with nolock.
func TestSharedWithLocksOfEachHost(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	phase(t, "write", dirs)
	at := func(host int, name string) string {
		return filepath.Join(dirs[host], ".mpiup-doctor-"+tokenOfTests, name)
	}
	var shown sync.WaitGroup
	over := make(chan struct{})
	for host, other := range []int{1, 0} {
		name := fmt.Sprint("turn-", other)
		if err := os.WriteFile(at(host, fmt.Sprint("lock-", other)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		shown.Go(func() {
			for tick := time.NewTicker(5 * time.Millisecond); ; {
				select {
				case <-over:
					tick.Stop()
					return
				case <-tick.C:
				}
				word, err := os.ReadFile(at(other, name))
				if err = errors.Join(err, os.WriteFile(at(host, "new"), word, 0o600), os.Rename(at(host, "new"), at(host, name))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i, r := range phase(t, "lock", dirs) {
		if r.Error != "" || !r.Loose || r.Stale || r.Locked != 0 {
			t.Errorf("host %d: %+v", i, r)
		}
	}
	close(over)
	shown.Wait()
}

// A host whose words are not seen is waited for no longer than the patience.
func TestSharedWithAHostThatIsNotSeen(t *testing.T) {
	s := Shared{Dir: t.TempDir(), Token: tokenOfTests, Hosts: 2, Size: 1 << 20, Patience: 20 * time.Millisecond}
	s.Phase(t.Context(), "write")
	if r := s.Phase(t.Context(), "lock"); r.Error != "" || !r.Stale || r.Loose || r.Locked != 0 {
		t.Errorf("%+v", r)
	}
}

// Nothing outside the trial's directory is touched, whatever lies in its place; words out of range are refused.
func TestSharedIsCareful(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	good := Shared{Dir: dir, Token: tokenOfTests, Hosts: 1, Size: 1 << 20}
	if err := os.WriteFile(filepath.Join(away, "precious"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(away, filepath.Join(dir, good.own())); err != nil {
		t.Fatal(err)
	}
	if r := good.Phase(t.Context(), "write"); r.Error == "" {
		t.Error("it writes through a link")
	}
	good.Phase(t.Context(), "clean")
	if entries, err := os.ReadDir(away); err != nil || len(entries) != 1 {
		t.Errorf("behind the link: %v, %v", entries, err)
	}
	for name, change := range map[string]func(*Shared){
		"token": func(s *Shared) { s.Token = "../../../../../../../../../../etc" }, "directory": func(s *Shared) { s.Dir = "relative" },
		"host": func(s *Shared) { s.Host = 1 }, "size": func(s *Shared) { s.Size = 1 << 60 }, "none": func(s *Shared) { s.Hosts = 0 },
	} {
		s := good
		change(&s)
		if r := s.Phase(t.Context(), "clean"); !strings.Contains(r.Error, "out of range") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := good.Phase(t.Context(), "destroy"); !strings.Contains(r.Error, "no phase") {
		t.Errorf("%+v", r)
	}
	good.Size = job.MaxTrialSize
	good.Hosts = job.MaxTrialHosts
	if r := good.Phase(t.Context(), "write"); !strings.Contains(r.Error, "of what is free") {
		t.Errorf("256 TiB: %+v", r)
	}
}

// Others may write to the directory: a pipe is not waited for, a file without end not read to its end, and nobody else's file written to.
func TestSharedAmongOthers(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	own := filepath.Join(dir, ".mpiup-doctor-"+tokenOfTests)
	at := func(name string) string { return filepath.Join(own, name) }
	phase(t, "write", []string{dir, dir})
	for _, name := range []string{"mark-1", "data-1", "lock-1", "turn-0"} {
		if err := os.Remove(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(other, []byte("precious"), 0o600), os.Link(other, at("turn-0")), os.WriteFile(at("mark-1"), nil, 0o600), os.Truncate(at("mark-1"), 1<<40),
		unix.Mkfifo(at("data-1"), 0o600), unix.Mkfifo(at("lock-1"), 0o600), unix.Mkfifo(at("counter"), 0o600), os.WriteFile(at("turn-1"), []byte("held"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := Shared{Dir: dir, Token: tokenOfTests, Host: 0, Hosts: 2, Size: 5 << 20, Patience: 200 * time.Millisecond}
	if r := s.Phase(t.Context(), "read"); !slices.Equal(r.Missing, []int{1}) {
		t.Errorf("a mark of a terabyte: %+v", r)
	}
	if err := os.WriteFile(at("mark-1"), fmt.Appendf(nil, "%s 1\n", tokenOfTests), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.Phase(t.Context(), "read"); !strings.Contains(r.Error, "data-1: it is not the regular file") {
		t.Errorf("a pipe in place of data: %+v", r)
	}
	if r := s.Phase(t.Context(), "lock"); !strings.Contains(r.Error, "turn-0: it is not the regular file") {
		t.Errorf("another's file in place of this host's turn: %+v", r)
	}
	if err := errors.Join(os.Remove(at("turn-0")), os.WriteFile(at("turn-0"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if r := s.Phase(t.Context(), "lock"); !strings.Contains(r.Error, "lock-1: it is not the regular file") {
		t.Errorf("a pipe in place of a lock: %+v", r)
	}
	if r := s.Phase(t.Context(), "clean"); r.Error != "" || r.Count != 0 {
		t.Errorf("%+v", r)
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "precious" {
		t.Errorf("another's file has %q, %v", text, err)
	}
}
