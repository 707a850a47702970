package pmix

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi/pmix/leftover"
	"github.com/mpiup/mpiup/test/need"
)

func TestCleanup(t *testing.T) {
	outside, j := t.TempDir(), config()
	j.SessionDir = t.TempDir()
	s, err := New(j)
	if err != nil {
		t.Fatal(err)
	}
	in := func(names ...string) string { return filepath.Join(append([]string{j.SessionDir}, names...)...) }
	for _, dir := range []string{in("tree", "deep"), in("flat", "deep"), in("top", "deep"), filepath.Join(outside, "dir")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{in("file"), in("kept"), in("tree", "f"), in("flat", "f"), in("top", "f"), filepath.Join(outside, "f")} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, in("link")); err != nil {
		t.Fatal(err)
	}
	shm, err := os.CreateTemp(sharedMemory, "mpiup-test-*")
	need.Done(t, "shm", err, "mount a tmpfs at "+sharedMemory)
	defer os.Remove(shm.Name())
	shm.Close()
	for path, l := range map[string]leftover.Extent{
		in("file"):                       {},
		shm.Name():                       {},
		in("absent"):                     {},
		in("tree"):                       {Dir: true, Recurse: true},
		in("flat"):                       {Dir: true},
		in("top"):                        {Dir: true, Recurse: true, KeepTop: true},
		in("link", "f"):                  {},
		in("..", filepath.Base(outside)): {Dir: true, Recurse: true},
		outside:                          {Dir: true, Recurse: true},
		j.SessionDir:                     {Dir: true, Recurse: true},
		sharedMemory:                     {Dir: true, Recurse: true},
		"tree":                           {Dir: true},
		"":                               {Dir: true},
	} {
		if st := s.register(0, path, l); st != success {
			t.Errorf("%s: %v", path, st)
		}
	}
	if err := s.Cleanup(); err == nil {
		t.Error("the way through the link was taken")
	}
	for path, want := range map[string]bool{
		in("file"): false, shm.Name(): false, in("tree"): false, in("flat", "f"): false, in("flat", "deep"): true,
		in("top"): true, in("top", "f"): false, in("top", "deep"): false, in("kept"): true, filepath.Join(outside, "f"): true,
	} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := s.Cleanup(); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// What a spawned job registered is removed when it is over, unless another job did so too.
func TestCleanupOfAJob(t *testing.T) {
	c := config()
	c.SessionDir = t.TempDir()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(c.SessionDir, name))
		return err == nil
	}
	for name, jobs := range map[string][]int{"one": {1}, "both": {1, 2}, "other": {2}} {
		path := filepath.Join(c.SessionDir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if st := s.register(j, path, leftover.Extent{}); st != success {
				t.Fatal(st)
			}
		}
	}
	for _, step := range []struct {
		job              int
		one, both, other bool
	}{{3, true, true, true}, {1, false, true, true}, {2, false, false, false}} {
		if err := s.cleanupOf(step.job); err != nil {
			t.Error(err)
		}
		if got := [3]bool{there("one"), there("both"), there("other")}; got != [3]bool{step.one, step.both, step.other} {
			t.Errorf("after job %d: %v", step.job, got)
		}
	}
}

// A rank names another user's file in /dev/shm, and a file of another user in a directory of its own, to an agent that
// is root and could remove both.
func TestCleanupOfAnotherUsersFiles(t *testing.T) {
	need.Root(t)
	const other = 65533
	shm, err := os.MkdirTemp(sharedMemory, "mpiup-test-*")
	need.Done(t, "shm", err, "mount a tmpfs at "+sharedMemory)
	defer os.RemoveAll(shm)
	in := func(name string) string { return filepath.Join(shm, name) }
	if err := os.MkdirAll(in("theirs/deep"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"victim", "mine", "theirs/x", "theirs/deep/mine"} {
		if err := os.WriteFile(in(file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("victim", in("link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"victim", "theirs", "theirs/x"} {
		if err := os.Lchown(in(name), other, other); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(config())
	if err != nil {
		t.Fatal(err)
	}
	for name, what := range map[string]leftover.Extent{"victim": {}, "link": {}, "mine": {}, "theirs": {Dir: true, Recurse: true}, "": {Dir: true, Recurse: true}} {
		if st := s.register(0, filepath.Join(shm, name), what); st != success {
			t.Fatal(st)
		}
	}
	if err := s.Cleanup(); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("what stays is not told: %v", err)
	}
	for name, want := range map[string]bool{"victim": true, "theirs/x": true, "theirs/deep/mine": true, "mine": false, "link": false} {
		if _, err := os.Lstat(in(name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
