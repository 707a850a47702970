package leftover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

func TestRegistry(t *testing.T) {
	outside, session := t.TempDir(), t.TempDir()
	r := NewRegistry(session, Shm)
	in := func(names ...string) string { return filepath.Join(append([]string{session}, names...)...) }
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
	shm, err := os.CreateTemp(Shm, "mpiup-test-*")
	need.Done(t, "shm", err, "mount a tmpfs at "+Shm)
	defer os.Remove(shm.Name())
	shm.Close()
	for path, l := range map[string]Extent{
		in("file"):                       {},
		shm.Name():                       {},
		in("absent"):                     {},
		in("tree"):                       {Dir: true, Recurse: true},
		in("flat"):                       {Dir: true},
		in("top"):                        {Dir: true, Recurse: true, KeepTop: true},
		in("link", "f"):                  {},
		in("..", filepath.Base(outside)): {Dir: true, Recurse: true},
		outside:                          {Dir: true, Recurse: true},
		session:                          {Dir: true, Recurse: true},
		Shm:                              {Dir: true, Recurse: true},
		"tree":                           {Dir: true},
		"":                               {Dir: true},
	} {
		if err := r.Add(0, os.Geteuid(), path, l); err != nil && err != ErrElsewhere {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := r.RemoveAll(); err == nil {
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
	if err := r.RemoveAll(); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// What a spawned job registered is removed when it is over, unless another job did so too.
func TestRegistryOfAJob(t *testing.T) {
	session := t.TempDir()
	r := NewRegistry(session)
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(session, name))
		return err == nil
	}
	for name, jobs := range map[string][]int{"one": {1}, "both": {1, 2}, "other": {2}} {
		path := filepath.Join(session, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if err := r.Add(j, os.Geteuid(), path, Extent{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct {
		job              int
		one, both, other bool
	}{{3, true, true, true}, {1, false, true, true}, {2, false, false, false}} {
		if err := r.RemoveOf(step.job); err != nil {
			t.Error(err)
		}
		if got := [3]bool{there("one"), there("both"), there("other")}; got != [3]bool{step.one, step.both, step.other} {
			t.Errorf("after job %d: %v", step.job, got)
		}
	}
}

// A rank names another user's file in /dev/shm, and a file of another user in a directory of its own, to an agent that
// is root and could remove both.
func TestRegistryOfAnotherUsersFiles(t *testing.T) {
	need.Root(t)
	const other = 65533
	shm, err := os.MkdirTemp(Shm, "mpiup-test-*")
	need.Done(t, "shm", err, "mount a tmpfs at "+Shm)
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
	r := NewRegistry(Shm)
	for name, what := range map[string]Extent{"victim": {}, "link": {}, "mine": {}, "theirs": {Dir: true, Recurse: true}, "": {Dir: true, Recurse: true}} {
		if err := r.Add(0, os.Geteuid(), filepath.Join(shm, name), what); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.RemoveAll(); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("what stays is not told: %v", err)
	}
	for name, want := range map[string]bool{"victim": true, "theirs/x": true, "theirs/deep/mine": true, "mine": false, "link": false} {
		if _, err := os.Lstat(in(name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rank of another user than the agent, which is root, names what is its own, what is root's, and a tree of its own in which there is both.
func TestRegistryForAnotherUser(t *testing.T) {
	need.Root(t)
	const rank = 65533
	shm, err := os.MkdirTemp(Shm, "mpiup-test-*")
	need.Done(t, "shm", err, "mount a tmpfs at "+Shm)
	defer os.RemoveAll(shm)
	in := func(name string) string { return filepath.Join(shm, name) }
	for _, dir := range []string{"theirs/deep", "ours/deep"} {
		if err := os.MkdirAll(in(dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"victim", "segment", "ours/x", "ours/deep/x", "ours/segment", "theirs/x", "theirs/victim", "theirs/deep/x"} {
		if err := os.WriteFile(in(file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(in("ours"), in("theirs/link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"segment", "ours/segment", "theirs", "theirs/x", "theirs/link", "theirs/deep", "theirs/deep/x"} {
		if err := os.Lchown(in(name), rank, rank); err != nil {
			t.Fatal(err)
		}
	}
	r := NewRegistry(Shm)
	all := Extent{Dir: true, Recurse: true}
	for name, what := range map[string]Extent{"victim": {}, "segment": {}, "ours": all, "ours/segment": {}, "ours/deep/x": {}, "theirs": all, "theirs/link/x": {}, "": all} {
		if err := r.Add(0, rank, filepath.Join(shm, name), what); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.RemoveAll(); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("what stays is not told: %v", err)
	}
	for name, want := range map[string]bool{"victim": true, "segment": false, "ours/x": true, "ours/deep/x": true, "ours/segment": false,
		"theirs/x": false, "theirs/link": false, "theirs/deep": false, "theirs/victim": true} {
		if _, err := os.Lstat(in(name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
