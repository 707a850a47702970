package mpilib

import (
	"debug/elf"
	"testing"
)

func TestLibraries(t *testing.T) {
	in := func(name string, m image) tree {
		return tree{"work/a.out": program("libstdc++.so.6", name), "usr/lib/" + name: m}
	}
	stale := in("libmpi.so.40", ompi4)
	for _, c := range []looked{
		{name: "Open MPI 4", tree: in("libmpi.so.40", ompi4), protocol: PMIx, library: ompi4Name, sure: true, why: "it loads " + ompi4Name},
		{name: "Open MPI 5", tree: in("libmpi.so.40", ompi5), protocol: PMIx, library: "Open MPI 5.0.7 (/usr/lib/libmpi.so.40)", sure: true},
		{name: "Open MPI 1.10 has MPICH's number", tree: in("libmpi.so.12", ompi4), protocol: PMIx, library: "Open MPI 4.1.4 (/usr/lib/libmpi.so.12)", sure: true},
		{name: "MPICH 4", tree: in("libmpich.so.12", mpich4), protocol: PMI1, library: mpich4Name, sure: true},
		{name: "MPICH 5", tree: in("libmpi.so.12", mpich5), protocol: PMI1, library: "MPICH 5.0.2 (/usr/lib/libmpi.so.12)", sure: true},
		{name: "MPICH with libpmix", tree: in("libmpich.so.12", pmixOnly), protocol: PMIx, library: "MPICH 4.2.0 (/usr/lib/libmpich.so.12)", sure: true},
		{name: "Intel MPI", tree: in("libmpi.so.12", impi), protocol: PMI1, library: "Intel MPI 2021.18.1 (/usr/lib/libmpi.so.12)", sure: true},
		{name: "MVAPICH2", tree: in("libmpi.so.12", mvapich2), protocol: PMI1, library: "MVAPICH 2.3.7 (/usr/lib/libmpi.so.12)", sure: true},
		{name: "Cray", tree: in("libmpi_gnu_91.so.12", cray), protocol: PMI1, library: "Cray MPICH 8.1.29 (/usr/lib/libmpi_gnu_91.so.12)", sure: true},
		{name: "the standard ABI of Open MPI", tree: in("libmpi_abi.so.1", image{needed: []string{"libopen-pal.so.80"}}), protocol: PMIx,
			library: "Open MPI (/usr/lib/libmpi_abi.so.1)", sure: true},
		{name: "without section headers", tree: in("libmpi.so.12", image{rodata: impi.rodata, symbols: impi.symbols, without: true}), protocol: PMI1,
			library: "Intel MPI 2021.18.1 (/usr/lib/libmpi.so.12)", sure: true},
		{name: "not there", tree: tree{"work/a.out": program("libmpi.so.40")}, protocol: PMIx, library: "Open MPI (libmpi.so.40, which is not there)", sure: true},
		{name: "no ELF file", tree: in("libmpi.so.40", image{}).with(tree{"usr/lib/libmpi.so.40": "INPUT(x)"}), protocol: PMIx,
			library: "Open MPI (libmpi.so.40, which is not there)", sure: true},
		{name: "libpmix itself", tree: tree{"work/a.out": program("libpmix.so.2")}, protocol: PMIx, sure: true, why: "it loads a PMIx client (libpmix.so.2)"},
		{name: "libpmi itself", tree: tree{"work/a.out": program("libpmi2.so.0")}, protocol: PMI1, sure: true, why: "it loads a PMI client"},
		{name: "MPICH inside", tree: tree{"work/a.out": image{rodata: "x\x00MPIR_CVAR_NEMESIS\x00PMI_FD\x00"}}, protocol: PMI1,
			library: "MPICH (part of /work/a.out)", sure: true, why: "it has MPICH in it"},
		{name: "Open MPI inside", tree: tree{"work/a.out": image{rodata: ompi5.rodata}}, protocol: PMIx, library: "Open MPI 5.0.7 (part of /work/a.out)", sure: true},
		{name: "PMI's words inside", tree: tree{"work/a.out": image{rodata: "PMI_FD\x00"}}, protocol: PMI1, sure: true, why: "it has a PMI client in it"},
		{name: "Go's program with such words", tree: tree{"work/a.out": image{rodata: "PMIX_NAMESPACE", golang: true}}, protocol: PMI1, why: "no MPI library was found"},
		{name: "nothing", tree: tree{"work/a.out": program("libm.so.6")}, protocol: PMI1, why: "no MPI library was found in ./a.out"},
		{name: "another machine's library", tree: stale.with(tree{"usr/lib64/libmpi.so.40": image{machine: elf.EM_AARCH64, symbols: []string{"x"}}}),
			protocol: PMIx, library: ompi4Name, sure: true},
		{name: "no program", tree: tree{}, protocol: PMI1, why: "no MPI library was found in ./a.out"},
		{name: "the user wants PMIx", tree: in("libmpi.so.12", mpich5), env: []string{"MPIR_CVAR_PMI_VERSION=x"}, protocol: PMIx,
			library: "MPICH 5.0.2 (/usr/lib/libmpi.so.12)", sure: true, why: ", and MPIR_CVAR_PMI_VERSION asks for PMIx"},
		{name: "the user wants PMI-2", tree: in("libmpi.so.12", impi), env: []string{"I_MPI_PMI=pmi2"}, protocol: PMI1,
			library: "Intel MPI 2021.18.1 (/usr/lib/libmpi.so.12)", sure: true},
	} {
		c.command = "./a.out"
		c.run(t)
	}
}

// Where the loader looks, and in what order.
func TestSearch(t *testing.T) {
	here := image{symbols: []string{"MPI_Init"}, texts: map[string]string{"MPII_Version_string": "3.3"}}
	const want, wrong = "MPICH 3.3 (", "usr/lib/libmpi.so.12"
	for _, c := range []struct {
		name    string
		program image
		more    tree
		env     []string
		at      string // where the right one is
	}{
		{"rpath", image{needed: []string{"libmpi.so.12"}, rpath: "/opt/lib"}, nil, nil, "opt/lib/libmpi.so.12"},
		{"runpath with origin", image{needed: []string{"libmpi.so.12"}, runpath: "/none:$ORIGIN/../lib"}, nil, nil, "lib/libmpi.so.12"},
		{"origin in braces", image{needed: []string{"libmpi.so.12"}, runpath: "${ORIGIN}/lib"}, nil, nil, "work/lib/libmpi.so.12"},
		{"LD_LIBRARY_PATH", program("libmpi.so.12"), nil, []string{"LD_LIBRARY_PATH=/x:/opt/mpi"}, "opt/mpi/libmpi.so.12"},
		{"LD_LIBRARY_PATH is relative", program("libmpi.so.12"), nil, []string{"LD_LIBRARY_PATH=lib"}, "work/lib/libmpi.so.12"},
		{"LD_LIBRARY_PATH before runpath", image{needed: []string{"libmpi.so.12"}, runpath: "/run"}, tree{"run/libmpi.so.12": ompi4},
			[]string{"LD_LIBRARY_PATH=/opt/mpi"}, "opt/mpi/libmpi.so.12"},
		{"rpath before LD_LIBRARY_PATH", image{needed: []string{"libmpi.so.12"}, rpath: "/run"}, tree{"opt/mpi/libmpi.so.12": ompi4},
			[]string{"LD_LIBRARY_PATH=/opt/mpi"}, "run/libmpi.so.12"},
		{"the cache", program("libmpi.so.12"), tree{"etc/ld.so.cache": ldCacheOf("/usr/lib/libc.so.6", "/opt/c/libmpi.so.12")}, nil, "opt/c/libmpi.so.12"},
		{"a path", program("/opt/d/libmpi.so.12"), nil, nil, "opt/d/libmpi.so.12"},
		{"through another", program("libpetsc.so.3"), tree{"usr/lib/libpetsc.so.3": image{needed: []string{"libmpi.so.12"}, runpath: "$ORIGIN/petsc"}},
			nil, "usr/lib/petsc/libmpi.so.12"},
		{"the program's rpath for another", image{needed: []string{"libpetsc.so.3"}, rpath: "/opt/lib"}, tree{"usr/lib/libpetsc.so.3": image{needed: []string{"libmpi.so.12"}}},
			nil, "opt/lib/libmpi.so.12"},
		{"preloaded", program(), nil, []string{"LD_PRELOAD=/x.so /opt/libmpi.so.12"}, "opt/libmpi.so.12"},
		{"musl", image{interp: "/lib/ld-musl-x86_64.so.1", needed: []string{"libmpi.so.12"}}, nil, nil, "usr/local/lib/libmpi.so.12"},
		{"Debian's", program("libmpi.so.12"), nil, nil, "usr/lib/x86_64-linux-gnu/libmpi.so.12"},
		{"Fortran first", program("libmpi_usempif08.so.40"), tree{"usr/lib/libmpi_usempif08.so.40": image{needed: []string{"libmpi.so.12"}, runpath: "/opt/f"}},
			nil, "opt/f/libmpi.so.12"},
	} {
		files := tree{"work/a.out": c.program, wrong: ompi4, c.at: here}.with(c.more)
		looked{name: c.name, tree: files, command: "./a.out", env: c.env, protocol: PMI1, library: want + "/" + c.at + ")", sure: true}.run(t)
	}
	runpath := tree{"work/a.out": image{needed: []string{"libpetsc.so.3"}, runpath: "/opt/lib"}, "usr/lib/libpetsc.so.3": image{needed: []string{"libmpi.so.12"}},
		"opt/lib/libpetsc.so.3": image{needed: []string{"libmpi.so.12"}}, "opt/lib/libmpi.so.12": here, wrong: ompi4}
	looked{name: "runpath is not for others", tree: runpath, command: "./a.out", protocol: PMIx, library: "Open MPI 4.1.4 (/" + wrong + ")", sure: true}.run(t)
}
