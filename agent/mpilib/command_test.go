package mpilib

import "testing"

func TestWrappers(t *testing.T) {
	lib := tree{"opt/mpi/libmpi.so.40": image{symbols: []string{"ompi_mpi_comm_world"}, texts: map[string]string{"ompi_version_string": "4.0.3"}}}
	for _, c := range []looked{
		{name: "on PATH", command: "mpich", env: []string{"PATH=/bin::/work"}, protocol: PMI1, library: mpich4Name, sure: true},
		{name: "env", command: "env A=1 -u B --chdir=/ /work/ompi x", protocol: PMIx, library: ompi4Name, sure: true, why: "/work/ompi, which it runs, loads"},
		{name: "env -C", command: "env -C / ./work/ompi", protocol: PMIx, library: ompi4Name, sure: true},
		{name: "env -S", argv: []string{"env", "-S", "A=1 ./ompi", "b"}, protocol: PMIx, library: ompi4Name, sure: true},
		{name: "env sets a path", command: "env LD_LIBRARY_PATH=/opt/mpi ./ompi", protocol: PMIx, library: "Open MPI 4.0.3 (/opt/mpi/libmpi.so.40)", sure: true},
		{name: "env takes a path away", command: "env -u LD_LIBRARY_PATH ./ompi", env: []string{"LD_LIBRARY_PATH=/opt/mpi"}, protocol: PMIx, library: ompi4Name, sure: true},
		{name: "env -i", command: "env -i ./ompi", env: []string{"LD_LIBRARY_PATH=/opt/mpi"}, protocol: PMIx, library: ompi4Name, sure: true},
		{name: "numactl", command: "numactl --cpunodebind 0 -m 0 ./mpich", protocol: PMI1, library: mpich4Name, sure: true},
		{name: "wrappers within", command: "numactl -m 0 env A=1 ./mpich", protocol: PMI1, library: mpich4Name, sure: true},
		{name: "one that is not known", command: "strange --go ./mpich", protocol: PMI1, library: mpich4Name},
		{name: "one that is not there", command: "lost ./ompi", protocol: PMIx, library: ompi4Name},
		{name: "a program among data", command: "./ompi ./mpich", protocol: PMIx, library: ompi4Name, sure: true},
		{name: "a #! line", command: "./tool x", protocol: PMI1, library: mpich4Name, sure: true},
		{name: "a #! line of env", command: "./envtool x", protocol: PMI1, library: mpich4Name, sure: true},
		{name: "a #! line of itself", command: "./loop", protocol: PMI1},
		{name: "conda run", command: "conda run -n sci --no-capture-output prog", env: []string{"PATH=/opt/conda/bin:/bin"}, protocol: PMI1,
			library: "MPICH 4.0.2 (/opt/conda/envs/sci/lib/libmpi.so.12)", sure: true},
	} {
		c.tree = both.with(lib).with(tree{"work/tool": "#!/work/mpich -f\n", "work/envtool": "#!/usr/bin/env -S ./mpich a b\n", "work/loop": "#!/work/loop\n",
			"opt/conda/bin/conda":         program(),
			"opt/conda/envs/sci/bin/prog": image{needed: []string{"libmpi.so.12"}, rpath: "$ORIGIN/../lib"}, "opt/conda/envs/sci/lib/libmpi.so.12": mpich4})
		c.run(t)
	}
}

func TestScripts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		args       []string
		env        []string
		library    string
		sure       bool
	}{
		{"the last line", "#!/bin/bash\nset -e\nmkdir -p x\necho starting | tee log\n./mpich --flag\n", nil, nil, mpich4Name, true},
		{"its arguments", "#!/bin/sh\n# runs $0\nexec \"$@\"\n", []string{"./ompi", "x"}, nil, ompi4Name, true},
		{"a wrapper and its arguments", "#!/bin/sh\nexec numactl -N $MPIUP_LOCAL_RANK \"$@\"", []string{"./ompi"}, nil, ompi4Name, true},
		{"an argument", "#!/bin/sh\nP=${1}; shift\n\"$P\" a", []string{"./ompi"}, nil, ompi4Name, true},
		{"not the last", "#!/bin/sh\n./mpich\n./plain", nil, nil, mpich4Name, false},
		{"the last of two", "#!/bin/sh\n./mpich; ./ompi", nil, nil, ompi4Name, true},
		{"by directory", "#!/bin/bash\nHERE=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\ncd /\n$HERE/mpich", nil, nil, mpich4Name, true},
		{"by dirname", "#!/bin/sh\ncd / && `dirname $0`/mpich", nil, nil, mpich4Name, true},
		{"in variables", "#!/bin/sh\nPROG=mpich\nCMD=\"env A=1 /work/${PROG:-x}\"\n$CMD\n", nil, nil, mpich4Name, true},
		{"a default", "#!/bin/sh\n${RUN:-/work/mpich} ", nil, nil, mpich4Name, true},
		{"an environment's program", "#!/bin/sh\n$RUN", nil, []string{"RUN=./ompi"}, ompi4Name, true},
		{"PATH is changed", "#!/bin/sh\nexport PATH=/work:$PATH A=\"b c\"\nmpich", nil, nil, mpich4Name, true},
		{"for one command", "#!/bin/sh\nLD_LIBRARY_PATH=/opt:$LD_LIBRARY_PATH ./ompi", nil, nil, "Open MPI 4.0.3 (/opt/libmpi.so.40)", true},
		{"conditions", "#!/bin/bash\nif [ \"$1\" = a ]; then\n  ./plain\nelse\n  ./mpich \\\n   -x 2>&1 >log </dev/null\nfi\n", nil, nil, mpich4Name, true},
		{"a document", "#!/bin/sh\n./mpich <<EOF\n./ompi\nEOF\n", nil, nil, mpich4Name, true},
		{"in quotes", "#!/bin/sh\necho './ompi' \"; ./ompi\"\n'./mpich'", nil, nil, mpich4Name, true},
		{"a comment", "#!/bin/sh\n./mpich # ./ompi", nil, nil, mpich4Name, true},
		{"a function", "#!/bin/bash\nmain() {\n  ./mpich \"$@\"\n}\nmain \"$@\"", nil, nil, mpich4Name, false},
		{"eval", "#!/bin/sh\neval \"./mpich a\"", nil, nil, mpich4Name, true},
		{"sourced", "#!/bin/sh\n. ./env.sh\nmpich", nil, nil, mpich4Name, true},
		{"which", "#!/bin/sh\nPATH=/work:$PATH\n$(which mpich) a", nil, nil, mpich4Name, true},
		{"what nobody knows", "#!/bin/sh\nX=$(date)\n./ompi$X\n$X/mpich $((1+2))\n./mpich$(date)", nil, nil, "", false},
		{"conda activate", "#!/bin/sh\nsource /opt/conda/etc/profile.d/conda.sh\nconda activate sci\nprog", nil, nil, "MPICH 4.0.2 (/opt/conda/envs/sci/lib/libmpi.so.12)", true},
		{"no end of quotes", "#!/bin/sh\n\"./mpich", nil, nil, mpich4Name, true},
	} {
		files := both.with(tree{"work/run.sh": c.text, "work/env.sh": "export PATH=\"/work:$PATH\"\n",
			"opt/libmpi.so.40":            image{symbols: []string{"ompi_mpi_comm_world"}, texts: map[string]string{"ompi_version_string": "4.0.3"}},
			"opt/conda/envs/sci/bin/prog": image{needed: []string{"libmpi.so.12"}, rpath: "$ORIGIN/../lib"}, "opt/conda/envs/sci/lib/libmpi.so.12": mpich4})
		protocol := PMI1
		if c.library != "" && c.library[0] == 'O' {
			protocol = PMIx
		}
		looked{name: c.name, tree: files, argv: append([]string{"./run.sh"}, c.args...), env: c.env, protocol: protocol, library: c.library, sure: c.sure}.run(t)
	}
	for _, c := range []looked{
		{name: "sh -c", argv: []string{"sh", "-c", "cd /work && exec ./mpich"}, protocol: PMI1, library: mpich4Name, sure: true},
		{name: "bash -lc with arguments", argv: []string{"bash", "-o", "pipefail", "-lc", "\"$@\"", "bash", "./ompi"}, protocol: PMIx, library: ompi4Name, sure: true},
		{name: "a shell's standard input", argv: []string{"sh"}, protocol: PMI1},
	} {
		c.tree = both
		c.run(t)
	}
}

// A program that bears a tool's name is looked at before it is taken for the tool: an MPI program may be called perf, time or env.
func TestProgramsCalledLikeTools(t *testing.T) {
	names := []string{"env", "sh", "bash", "python3", "conda", "mamba"}
	for name := range wrappers {
		names = append(names, name)
	}
	static := image{rodata: "x\x00MPIR_CVAR_ENABLE_HCOLL\x00"}
	for _, name := range names {
		file := tree{"work/tools/" + name: program("libc.so.6")}
		own := func(i image) tree { return both.with(tree{"work/own/" + name: i}) }
		cases := []looked{
			{name: name + " is linked with MPICH", tree: own(program("libmpich.so.12")), command: "own/" + name + " in.dat", protocol: PMI1, library: mpich4Name, sure: true},
			{name: name + " is linked with Open MPI", tree: own(program("libmpi.so.40")), command: "own/" + name, protocol: PMIx, library: ompi4Name, sure: true},
			{name: name + " is linked with Open MPI, its argument with MPICH", tree: own(program("libmpi.so.40")), command: "own/" + name + " ./mpich", protocol: PMIx, library: ompi4Name, sure: true},
			{name: name + " in a script", tree: own(program("libmpich.so.12")), argv: []string{"sh", "-c", "cd /work && exec own/" + name + " -x"}, protocol: PMI1, library: mpich4Name, sure: true},
		}
		if !pythonName().MatchString(name) {
			cases = append(cases, looked{name: name + " has MPICH in it", tree: own(static), command: "own/" + name, protocol: PMI1, sure: true,
				library: "MPICH (part of /work/own/" + name + ")"})
		}
		if wrappers[name] || name == "env" {
			cases = append(cases, looked{name: name + " is the tool", tree: both.with(file), command: "tools/" + name + " ./mpich", protocol: PMI1, library: mpich4Name, sure: true},
				looked{name: name + " is the tool of a program without MPI", tree: both.with(file), command: "tools/" + name + " ./plain", protocol: PMI1})
		}
		for _, c := range cases {
			c.run(t)
		}
	}
}
