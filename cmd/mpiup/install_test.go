package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // a restarted init container finds the first copy
		path, err := install("/proc/self/exe", dir)
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
	if _, err := install("/proc/self/exe", filepath.Join(dir, "absent")); err == nil {
		t.Error("no error for a directory that is not there")
	}
}
