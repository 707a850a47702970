package mpilib

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/internal/job"
)

const (
	PMI1 = job.PMI1
	PMIx = job.PMIx
)

// tree is files by path without the first slash: an image, a script's text ("#!"), other text, a
// link ("-> target") or bytes.
type tree map[string]any

func (t tree) fs() fstest.MapFS {
	m := fstest.MapFS{}
	for name, v := range t {
		f := &fstest.MapFile{Mode: 0o755}
		switch v := v.(type) {
		case image:
			f.Data = v.bytes()
			if v.notExecutable {
				f.Mode = 0o644
			}
		case []byte:
			f.Data, f.Mode = v, 0o644
		case string:
			f.Data = []byte(v)
			if target, ok := strings.CutPrefix(v, "-> "); ok {
				f.Data, f.Mode = []byte(target), fs.ModeSymlink|0o777
			}
		}
		m[name] = f
	}
	return m
}

// with is the tree and more.
func (t tree) with(more tree) tree {
	all := tree{}
	for _, part := range []tree{t, more} {
		for name, v := range part {
			all[name] = v
		}
	}
	return all
}

// What libraries look like.
var (
	ompi4 = image{soname: "libmpi.so.40", symbols: []string{"MPI_Init", "ompi_mpi_comm_world"}, texts: map[string]string{"ompi_version_string": "4.1.4"}}
	ompi5 = image{soname: "libmpi.so.40", symbols: []string{"MPI_Init", "ompi_mpi_comm_world"}, needed: []string{"libopen-pal.so.80", "libpmix.so.2"},
		rodata: "1.2.3\x00Open MPI sm collective MCA component version 5.0.7\x00"}
	mpich4   = image{soname: "libmpich.so.12", symbols: []string{"MPI_Init"}, texts: map[string]string{"MPII_Version_string": "4.0.2"}}
	mpich5   = image{soname: "libmpi.so.12", symbols: []string{"MPI_Init"}, rodata: "0.13.99\x00-\x005.0.2\x00"}
	pmixOnly = image{soname: "libmpich.so.12", needed: []string{"libpmix.so.2"}, texts: map[string]string{"MPII_Version_string": "4.2.0"}}
	impi     = image{soname: "libmpi.so.12", symbols: []string{"I_MPI_Check_image_status"}, texts: map[string]string{"MPII_Version_string": "3.4a2"},
		rodata: "Intel(R) MPI Library\x002021.18.1\x00"}
	mvapich2 = image{soname: "libmpi.so.12", texts: map[string]string{"MPII_Version_string": "2.3.7"}, rodata: "MVAPICH2 Version      :\t%s\n\x00"}
	cray     = image{soname: "libmpi_gnu_91.so.12", rodata: "CRAY MPICH version 8.1.29.4\x00"}
)

// program is one that needs libraries.
func program(needed ...string) image {
	return image{interp: "/lib64/ld-linux-x86-64.so.2", needed: append(needed, "libc.so.6")}
}

// looked is one case: a command in a tree.
type looked struct {
	name     string
	tree     tree
	command  string // words
	argv     []string
	env      []string
	guess    job.Guess
	protocol job.Protocol
	library  string
	sure     bool
	why      string // part of it
}

func (c looked) run(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		argv := c.argv
		if argv == nil {
			argv = strings.Fields(c.command)
		}
		got := NewMemory(c.tree.fs()).Look(Query{Argv: argv, Env: append([]string{"PATH=/bin:/usr/bin", "HOME=/home/u"}, c.env...), Dir: "/work", Guess: c.guess})
		if got.Protocol != c.protocol || got.Library != c.library || got.Sure != c.sure || !strings.Contains(got.Why, c.why) {
			t.Errorf("got %+v\nwant %v %q sure %v, %q", got, c.protocol, c.library, c.sure, c.why)
		}
	})
}

const (
	ompi4Name  = "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"
	mpich4Name = "MPICH 4.0.2 (/usr/lib/libmpich.so.12)"
)

// both has Open MPI 4 and MPICH 4 where the loader looks, and a program for each.
var both = tree{"usr/lib/libmpi.so.40": ompi4, "usr/lib/libmpich.so.12": mpich4,
	"work/ompi": program("libmpi.so.40"), "work/mpich": program("libmpich.so.12"), "work/plain": program("libm.so.6"),
	"bin/sh": program(), "bin/bash": program(), "usr/bin/env": program(), "usr/bin/numactl": program(), "usr/bin/python3": program(),
	"usr/bin/strange": program()}

// Which programs are linked with ASan's runtime, which must be loaded before any other library: themselves, or by what runs them.
func TestASanIsFound(t *testing.T) {
	trees := tree{"work/by-petsc": program("libpetsc.so.3"), "usr/lib/libpetsc.so.3": image{soname: "libpetsc.so.3", needed: []string{"libmpich.so.12"}},
		"work/asan": program("libasan.so.8", "libmpich.so.12"), "work/clang": program("libmpich.so.12", "libclang_rt.asan-x86_64.so"),
		"work/plain-asan": program("libasan.so.6"), "work/ubsan": program("libubsan.so.1", "libmpich.so.12"), "work/artisan": program("libartisan.so", "libmpich.so.12"),
		"work/script": "#!/bin/sh\n./mpich\n"}
	for path, content := range both {
		trees[path] = content
	}
	for command, want := range map[string]string{
		"./mpich": "", "./ompi": "", "numactl -l ./mpich": "", "./script": "", "./by-petsc": "", "./plain": "", "python3": "",
		"./asan": "libasan.so.8", "numactl -l ./asan": "libasan.so.8", "./clang": "libclang_rt.asan-x86_64.so",
		"./plain-asan": "libasan.so.6", "./ubsan": "", "./artisan": "",
	} {
		got := NewMemory(trees.fs()).Look(Query{Argv: strings.Fields(command), Env: []string{"PATH=/bin:/usr/bin"}, Dir: "/work"})
		if got.First != want {
			t.Errorf("%s: %q must be first, want %q", command, got.First, want)
		}
	}
}
