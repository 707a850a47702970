package mpilib

import (
	"slices"
	"testing"
)

var walkEnv = []string{"PATH=/bin:/work", "LD_LIBRARY_PATH=/opt/mine/lib"}

// What is not there is named with who needs it, through libraries too; a script's interpreter counts for it.
func TestMissing(t *testing.T) {
	libc := image{soname: "libc.so.6"}
	tr := tree{"usr/lib/libc.so.6": libc, "usr/lib/libmpi.so.40": image{soname: "libmpi.so.40", needed: []string{"libopen-pal.so.80", "libc.so.6"}},
		"opt/mine/lib/libown.so.1": image{soname: "libown.so.1", needed: []string{"libcudart.so.12"}},
		"work/whole":               program(), "work/lacks": program("libmpi.so.40", "libown.so.1", "libnone.so.3"),
		"work/script": "#!/bin/interpreter -x\n", "bin/interpreter": program("libruby.so.3"), "work/wild": "#!/usr/bin/env -S A=1 python9 -u\n", "work/text": []byte("no program")}
	for command, want := range map[string][]Lack{
		"whole":  nil,
		"lacks":  {{"libnone.so.3", "/work/lacks"}, {"libopen-pal.so.80", "/usr/lib/libmpi.so.40"}, {"libcudart.so.12", "/opt/mine/lib/libown.so.1"}},
		"script": {{"libruby.so.3", "/bin/interpreter"}},
		"wild":   {{"python9", "the #! line of /work/wild"}},
	} {
		exe, missing, whole := NewMemory(tr.fs()).Missing(Query{Argv: []string{command}, Env: walkEnv, Dir: "/"})
		if exe != "/work/"+command || !whole || !slices.Equal(missing, want) {
			t.Errorf("%s: %q, %v, whole %v; want %v", command, exe, missing, whole, want)
		}
	}
	if exe, _, _ := NewMemory(tr.fs()).Missing(Query{Argv: []string{"text"}, Env: walkEnv, Dir: "/"}); exe != "" {
		t.Errorf("a file that nobody may execute: %s", exe)
	}
	if exe, missing, whole := NewMemory(tr.fs()).Missing(Query{}); exe != "" || missing != nil || !whole {
		t.Errorf("nothing: %q, %v, %v", exe, missing, whole)
	}
}

// A program with more libraries than are looked at is not said to lack those that were not.
func TestMissingBeyondTheLimits(t *testing.T) {
	tr := tree{}
	var names []string
	for i := range maxObjects + 10 {
		name := "lib" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ".so"
		names = append(names, name)
		tr["usr/lib/"+name] = image{soname: name}
	}
	tr["work/large"] = image{interp: "/lib64/ld-linux-x86-64.so.2", needed: names}
	if exe, missing, whole := NewMemory(tr.fs()).Missing(Query{Argv: []string{"large"}, Env: walkEnv, Dir: "/"}); exe == "" || len(missing) > 0 || whole {
		t.Errorf("%q, %v, whole %v", exe, missing, whole)
	}
}

func TestInstalled(t *testing.T) {
	tr := tree{"usr/lib/libmpi.so.40": ompi4, "usr/lib/libmca_common_cuda.so.40": image{}, "lib64/libmpi.so.40": "-> ../usr/lib/libmpi.so.40",
		"usr/lib64/mpich/lib/libmpich.so.12": mpich4, "opt/intel/oneapi/mpi/latest/lib/libmpi.so.12": impi,
		"opt/gdr/lib/libmpi.so.12":   image{soname: "libmpi.so.12", needed: []string{"libcudart.so.12"}, texts: map[string]string{"MPII_Version_string": "2.3.7"}, rodata: "MVAPICH2 Version      :\t%s\n\x00"},
		"home/mine/lib/libmpi.so.40": ompi5, "opt/broken/lib/libmpi.so.40": "text"}
	want := []Installed{
		{"Open MPI 5.0.7 (/home/mine/lib/libmpi.so.40)", "PMIx", ""},
		{"Open MPI 4.1.4 (/usr/lib/libmpi.so.40)", "PMIx", "/usr/lib/libmca_common_cuda.so.40"},
		{"MPICH 4.0.2 (/usr/lib64/mpich/lib/libmpich.so.12)", "PMI-1", ""},
		{"MVAPICH 2.3.7 (/opt/gdr/lib/libmpi.so.12)", "PMI-1", "libcudart.so.12"},
		{"Intel MPI 2021.18.1 (/opt/intel/oneapi/mpi/latest/lib/libmpi.so.12)", "PMI-1", ""},
	}
	got := NewMemory(tr.fs()).Installed([]string{"MPI_HOME=/home/mine"})
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if got := NewMemory(tree{}.fs()).Installed(nil); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
