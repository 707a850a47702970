package install

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // a restarted init container finds the first copy
		path, err := replace("/proc/self/exe", dir, "mpiup")
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile("/proc/self/exe")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the copy differs: %d and %d bytes, %v", len(got), len(want), err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o755 {
			t.Errorf("%v, %v", fi.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*mpiup*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := replace("/proc/self/exe", filepath.Join(dir, "absent"), "mpiup"); err == nil {
		t.Error("no error for a directory that is not there")
	}
}

// mpiup-nvml goes where mpiup goes, and what is there of an older one is replaced.
func TestInstallBringsTheHelper(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	helper := filepath.Join(from, "mpiup-nvml")
	if err := os.WriteFile(helper, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mpiup-nvml"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	paths, err := copies(dir, []string{helper})
	if want := []string{filepath.Join(dir, "mpiup"), filepath.Join(dir, "mpiup-nvml")}; err != nil || !slices.Equal(paths, want) {
		t.Fatalf("%v, %v", paths, err)
	}
	got, err := os.ReadFile(paths[1])
	fi, statErr := os.Stat(paths[1])
	if err != nil || statErr != nil || string(got) != "new" || fi.Mode().Perm() != 0o755 {
		t.Errorf("%q, %v, %v, %v", got, fi.Mode(), err, statErr)
	}
	if paths, err := copies(dir, nil); err != nil || len(paths) != 1 {
		t.Errorf("without one: %v, %v", paths, err)
	}
}

func TestInstallNames(t *testing.T) {
	names := []string{"mpirun", "ssh"}
	dir := t.TempDir()
	for range 2 { // again in a restarted container
		if _, _, err := To(dir, nil, names); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range names {
		if to, err := os.Readlink(filepath.Join(dir, n)); err != nil || to != "mpiup" {
			t.Errorf("%s is %s, %v", n, to, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*mpiup*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "ssh"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := To(other, nil, names); err == nil || !strings.Contains(err.Error(), "/ssh is there and is not mpiup") {
		t.Errorf("somebody's ssh: %v", err)
	}
	if all, _ := os.ReadDir(other); len(all) != 1 {
		t.Errorf("something was written beside it: %v", all)
	}
	if err := os.Rename(filepath.Join(other, "ssh"), filepath.Join(other, "mpiup")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := To(other, nil, nil); err == nil || !strings.Contains(err.Error(), "/mpiup is there and is not mpiup") {
		t.Errorf("somebody's mpiup: %v", err)
	}
	helper := filepath.Join(t.TempDir(), "mpiup-nvml")
	if err := os.Symlink("/proc/self/exe", helper); err != nil {
		t.Fatal(err)
	}
	for range 2 { // over its own
		if paths, _, err := To(dir, []string{helper}, nil); err != nil || len(paths) != 2 {
			t.Errorf("with the helper: %q, %v", paths, err)
		}
	}
	if err := os.Rename(filepath.Join(other, "mpiup"), filepath.Join(other, "mpiup-nvml")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := To(other, []string{helper}, nil); err == nil || !strings.Contains(err.Error(), "/mpiup-nvml is there and is not mpiup") {
		t.Errorf("somebody's mpiup-nvml: %v", err)
	}
	if all, _ := os.ReadDir(other); len(all) != 1 {
		t.Errorf("something was written beside it: %v", all)
	}
	if paths, _, err := To(dir, nil, names); err != nil || len(paths) != 1 {
		t.Errorf("over itself: %q, %v", paths, err)
	}
}

// A directory that is not there is made, for all to read; one that cannot be is told of with what to do, and nothing is left.
func TestInstallMakesItsDirectory(t *testing.T) {
	dir := t.TempDir()
	defer unix.Umask(unix.Umask(0o077))
	fresh := filepath.Join(dir, "opt")
	for _, want := range []bool{true, false} {
		if _, made, err := To(fresh+"/", nil, []string{"ssh"}); made != want || err != nil {
			t.Errorf("%v, %v", made, err)
		}
	}
	if info, err := os.Stat(fresh); err != nil || info.Mode() != 0o755|os.ModeDir {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	file, dangling := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink("nowhere", dangling)); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		filepath.Join(dir, "a", "b"): "cannot be made: " + dir + "/a is not there; make that first (mkdir -p " + dir + "/a), or mount",
		file:                         "is a file; name a directory",
		filepath.Join(file, "b"):     "a part of its path is a file; name another",
		dangling:                     "is a link to what is not there",
		"/proc/self/opt":             "/opt cannot be made: no such file",
		"/proc/self":                 "/proc/self cannot be ",
	} {
		if _, made, err := To(path, nil, nil); made || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", path, made, err)
		}
	}
	if left, err := os.ReadDir(dir); len(left) != 3 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := reason("/opt", "cannot be made", fs.ErrPermission).Error(); !strings.Contains(err, "name a directory of your own, or install as root") {
		t.Error(err)
	}
}
