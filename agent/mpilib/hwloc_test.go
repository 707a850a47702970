package mpilib

import (
	"strings"
	"testing"
)

// A program that has hwloc 1 is found, wherever among its libraries that is.
func TestOldHwloc(t *testing.T) {
	needs := func(m image, names ...string) image { m.needed = append(m.needed, names...); return m }
	old31 := ompi4
	old31.texts = map[string]string{"ompi_version_string": "3.1.6"}
	ubuntu1804 := tree{"work/a.out": program("libmpi.so.40"), "usr/lib/libmpi.so.40": needs(ompi4, "libopen-pal.so.20"),
		"usr/lib/libopen-pal.so.20": needs(image{}, "libhwloc.so.5")}
	for _, c := range []struct {
		name string
		tree tree
		env  []string
		argv []string
		want bool
	}{
		{name: "none at all", tree: tree{"work/a.out": program()}},
		{name: "the program itself", tree: tree{"work/a.out": program("libhwloc.so.5")}, want: true},
		{name: "behind the MPI library", tree: ubuntu1804, want: true},
		{name: "before the MPI library", tree: both.with(tree{"work/a.out": program("libhwloc.so.5", "libmpich.so.12")}), want: true},
		{name: "version 2", tree: both.with(tree{"work/a.out": program("libhwloc.so.15", "libmpich.so.12"),
			"etc/ld.so.cache": ldCacheOf("/usr/lib/libhwloc.so.5")})},
		{name: "preloaded", tree: both.with(tree{"work/a.out": program("libmpich.so.12")}), env: []string{"LD_PRELOAD=libhwloc.so.5"}, want: true},
		{name: "in a shell script", tree: ubuntu1804.with(tree{"bin/sh": program(), "work/run": "#!/bin/sh\nexec ./a.out\n"}), argv: []string{"./run"}, want: true},
		{name: "inside Open MPI 3.1", tree: tree{"work/a.out": program("libmpi.so.40"), "usr/lib/libmpi.so.40": old31}, want: true},
		{name: "inside Open MPI 4.1", tree: both.with(tree{"work/a.out": program("libmpi.so.40"), "etc/ld.so.cache": ldCacheOf("/usr/lib/libhwloc.so.5")})},
		{name: "the only one of the system", tree: tree{"work/a.out": program(), "etc/ld.so.cache": ldCacheOf("/usr/lib/libhwloc.so.5")}, want: true},
		{name: "one of two of the system", tree: tree{"work/a.out": program(), "etc/ld.so.cache": ldCacheOf("/usr/lib/libhwloc.so.5", "/usr/lib/libhwloc.so.15")}},
		{name: "mpi4py", tree: tree{"usr/bin/python3": program(), "usr/lib/python3/dist-packages/mpi4py/MPI.cpython-36m.so": program("libmpi.so.40"),
			"usr/lib/libmpi.so.40": needs(ompi4, "libhwloc.so.5")}, argv: []string{"python3", "-c", "import mpi4py"}, want: true},
		{name: "mpi4py's wheel", tree: tree{"usr/bin/python3": program(), "usr/lib/python3/dist-packages/mpi4py/MPI.mpich.cpython-36m.so": program(),
			"usr/lib/libmpi.so.12": needs(mpich5, "libhwloc.so.5")}, argv: []string{"python3", "-c", "import mpi4py"}, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.argv == nil {
				c.argv = []string{"./a.out"}
			}
			got := NewMemory(c.tree.fs()).Look(Query{Argv: c.argv, Env: append([]string{"PATH=/bin:/usr/bin", "HOME=/home/u"}, c.env...), Dir: "/work"})
			if got.OldHwloc != c.want {
				t.Errorf("%+v, want OldHwloc %v", got, c.want)
			}
		})
	}
}

// The version of torch, by the name of its package.
func TestTorch(t *testing.T) {
	for _, c := range []struct{ name, dir, command, want string }{
		{"a wheel", "torch-2.6.0a0+ecf3bae40a.nv25.1.dist-info", "python3 train.py", "2.6.0a0+ecf3bae40a.nv25.1"},
		{"another package", "torch_geometric-2.6.1.dist-info", "python3 train.py", ""},
		{"no Python", "torch-2.6.0.dist-info", "./a.out", ""},
	} {
		tree := tree{"usr/bin/python3": program(), "work/a.out": program(), "usr/lib/python3.11/site-packages/" + c.dir + "/METADATA": "x"}
		got := NewMemory(tree.fs()).Look(Query{Argv: strings.Fields(c.command), Env: []string{"PATH=/bin:/usr/bin", "HOME=/home/u"}, Dir: "/work"})
		if got.Torch != c.want {
			t.Errorf("%s: %q, want %q", c.name, got.Torch, c.want)
		}
	}
}

// The version of NCCL, by the names of files.
func TestNCCL(t *testing.T) {
	nccl := tree{"usr/lib/libnccl.so.2": "-> libnccl.so.2.20.5", "usr/lib/libnccl.so.2.20.5": image{soname: "libnccl.so.2"}}
	wheel := tree{"usr/bin/python3": program(), "usr/lib/python3.11/site-packages/nvidia_nccl_cu12-2.27.3.dist-info/METADATA": "Name: nvidia-nccl-cu12"}
	for _, c := range []struct {
		name, command string
		tree          tree
		env           []string
		want          string
	}{
		{"none", "./a.out", tree{"work/a.out": program()}, nil, ""},
		{"the program's", "./a.out", nccl.with(tree{"work/a.out": program("libnccl.so.2")}), nil, "2.20.5"},
		{"behind a library", "./a.out", nccl.with(tree{"work/a.out": program("liba.so"), "usr/lib/liba.so": image{needed: []string{"libnccl.so.2"}}}), nil, "2.20.5"},
		{"of the system", "./a.out", nccl.with(tree{"work/a.out": program(), "etc/ld.so.cache": ldCacheOf("/usr/lib/libnccl.so.2")}), nil, "2.20.5"},
		{"on LD_LIBRARY_PATH", "./a.out", tree{"work/a.out": program(), "opt/n/libnccl.so.2": "-> libnccl.so.2.18.1", "opt/n/libnccl.so.2.18.1": image{}},
			[]string{"LD_LIBRARY_PATH=/opt/x:/opt/n"}, "2.18.1"},
		{"of no version", "./a.out", tree{"work/a.out": program("libnccl.so.2"), "usr/lib/libnccl.so.2": image{}}, nil, ""},
		{"PyTorch's", "python3 train.py", wheel, nil, "2.27.3"},
		{"PyTorch's before the system's", "python3 train.py", nccl.with(wheel).with(tree{"etc/ld.so.cache": ldCacheOf("/usr/lib/libnccl.so.2")}), nil, "2.27.3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := NewMemory(c.tree.fs()).Look(Query{Argv: strings.Fields(c.command), Env: append([]string{"PATH=/bin:/usr/bin", "HOME=/home/u"}, c.env...), Dir: "/work"})
			if got.NCCL != c.want {
				t.Errorf("%+v, want NCCL %q", got, c.want)
			}
		})
	}
}
