package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Files that nobody named are small files: a pipe holds nobody up, and each is read once.
func TestFilesThatNobodyNamed(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".openmpi"), 0o755); err != nil {
		t.Fatal(err)
	}
	params := filepath.Join(home, ".openmpi/mca-params.conf")
	p := &process{env: []string{"HOME=" + home, "PATH=/nowhere", "OPAL_PREFIX=/nowhere", "MPIUP_FAMILY=openmpi4"}}
	library := func([]string) string { return "" }
	for _, c := range []struct {
		name string
		make func() error
		want error
	}{
		{"none", func() error { return nil }, fs.ErrNotExist},
		{"a pipe", func() error { return syscall.Mkfifo(params, 0o600) }, bounded.ErrNotRegular},
		{"a directory", func() error { return os.Mkdir(params, 0o755) }, bounded.ErrNotRegular},
		{"a large one", func() error { return os.WriteFile(params, make([]byte, maxFoundFile+1), 0o600) }, bounded.ErrTooLarge},
		{"one", func() error { return os.WriteFile(params, []byte("orte_tag_output = 1\n"), 0o600) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := errors.Join(os.RemoveAll(params), c.make()); err != nil {
				t.Fatal(err)
			}
			o := p.outsideOfLauncher("mpirun", home, library)
			if _, err := o.FoundFile(params); !errors.Is(err, c.want) {
				t.Errorf("%v, not %v", err, c.want)
			}
			l, err := mpirun.Parse(line.OpenMPI, []string{"-np", "1", "a"}, o)
			told := c.want != nil && !errors.Is(c.want, fs.ErrNotExist)
			if err != nil || l.TagOutput != (c.want == nil) || told != (len(l.Warnings) == 1) {
				t.Errorf("%v: tags %v, warnings %q", err, l.TagOutput, l.Warnings)
			}
			if err := os.RemoveAll(params); err != nil {
				t.Fatal(err)
			}
			if _, err := o.FoundFile(params); !errors.Is(err, c.want) {
				t.Errorf("the second time %v, not %v", err, c.want)
			}
		})
	}
}

// Where a family's own launcher is installed its daemon shows.
func TestPrefixes(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"four/bin/orted", "five/bin/prted", "mpich/bin/hydra_pmi_proxy"} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "four/bin"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, env string
		family          line.Family
		want            string
	}{
		{"Open MPI 4, by a link", dir + "/none:" + dir + "/link", "", line.OpenMPI, dir + "/four"},
		{"Open MPI 5", dir + "/five/bin", "", line.OpenMPI, dir + "/five"},
		{"OPAL_PREFIX", dir + "/four/bin", "OPAL_PREFIX=/opt/o/", line.OpenMPI, "/opt/o"},
		{"MPICH", dir + "/four/bin:" + dir + "/mpich/bin", "OPAL_PREFIX=/opt/o", line.Hydra, dir + "/mpich"},
		{"none", dir + "/four/bin", "", line.Hydra, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &process{env: []string{"PATH=" + c.path, c.env}}
			if got := p.prefixOf(c.family, "/"); got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}
