package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without --mpi every host looks at the program, through what wraps it.
func TestProtocolIsChosen(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ompi, mpich := l.openMPI(t, "hello"), l.program(t, "hello")
	wrapper := file("wrapper.sh", "#!/bin/sh\n# A comment on ./a.out\ncd \"$(dirname \"$0\")\"\nexport LOCAL=$MPIUP_LOCAL_RANK\nexec nice -n 1 \"$@\"\n")
	const both = "hosts w0, w1: "
	runner := file("run.sh", "#!/usr/bin/env bash\nset -e\nPROGRAM="+mpich+"\nif [ -n \"$MPIUP_RANK\" ]; then\n\t$PROGRAM --quick | cat\nfi\n")
	for _, c := range []struct {
		name string
		args []string
		says []string // with -v
	}{
		{"Open MPI", []string{ompi}, []string{both + ompi + ": PMIx, since it loads Open MPI 4.1.4 ("}},
		{"MPICH", []string{mpich}, []string{both + mpich + ": PMI-1, since it loads MPICH 4.0.2 ("}},
		{"Open MPI by env", []string{"env", "-u", "B", "A=1", ompi}, []string{"env: PMIx, since " + ompi + ", which it runs, loads Open MPI"}},
		{"MPICH by timeout", []string{"timeout", "60", mpich}, []string{"timeout: PMI-1, since " + mpich + ", which it runs, loads MPICH"}},
		{"Open MPI by a script", []string{wrapper, ompi}, []string{wrapper + ": PMIx, since " + ompi + ", which it runs, loads Open MPI"}},
		{"MPICH by a script", []string{wrapper, mpich}, []string{wrapper + ": PMI-1, since " + mpich + ", which it runs, loads MPICH"}},
		{"MPICH in a script", []string{runner}, []string{runner + ": PMI-1, since " + mpich + ", which it runs, loads MPICH"}},
		{"Open MPI by sh -c", []string{"sh", "-c", "true && exec " + ompi}, []string{"sh: PMIx, since " + ompi + ", which it runs, loads Open MPI"}},
		{"two programs", []string{ompi, ":", "-n", "2", "env", ompi}, []string{": " + ompi + ": PMIx, since it loads", ": env: PMIx, since " + ompi + ", which it runs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := "4"
			if len(c.says) == 2 {
				n = "2"
			}
			r := l.run(t, job{hosts: "w0:2,w1:2", args: append([]string{"-v", "--map-by", "node", "-n", n, "-x", "OMPI_MCA_pml=ob1", "-x", "OMPI_MCA_btl=self,vader,tcp"}, c.args...)})
			if r.Code != 0 || strings.Count(r.Stdout, " of 4 on w") != 4 {
				t.Errorf("ended with %d and printed %q\n%s", r.Code, r.Stdout, r.Stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(r.Stderr, want) {
					t.Errorf("it does not say %q:\n%s", want, r.Stderr)
				}
			}
		})
	}
}

// A library that does not understand what it is offered runs every rank alone; the user is told where that may be so, and nothing shows that
// MPI_Init was called.
func TestRanksThatMayHaveBeenAlone(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	ompi := l.openMPI(t, "hello")
	slow := "sleep 4; exec true"
	for _, host := range []string{"w0", "w1"} {
		keepSessionDir(t, host)
	}
	for _, c := range []struct {
		name string
		args []string
		want string // "": no warning
	}{
		{"seen while it ran", []string{"--mpi", "pmi1", "env", "LD_PRELOAD=" + l.libmpi(t), "sh", "-c", slow}, "4 ranks of env use Open MPI 4.1.4 ("},
		{"seen while it was young", []string{"--mpi", "pmi1", "env", "LD_PRELOAD=" + l.libmpi(t), "sh", "-c", "sleep 1; exec true"}, "ranks of env use Open MPI 4.1.4 ("},
		{"a child of a moment, later", []string{"--mpi", "pmi1", "python3", "-c", "import subprocess, time; time.sleep(2.5); subprocess.run(['/bin/sh', '-c', 'LD_PRELOAD=" + l.libmpi(t) + " exec sleep 0.25'])"},
			"4 ranks of python3 use Open MPI 4.1.4 ("},
		{"wanted so", []string{"--mpi", "none", ompi}, ""},
		{"no MPI", []string{"--mpi", "pmi1", "true"}, ""},
		{"as it should be", []string{ompi}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: "w0:2,w1:2", args: append([]string{"-n", "4", "-x", "OMPI_MCA_pml=ob1", "-x", "OMPI_MCA_btl=self,vader,tcp"}, c.args...)})
			warned := strings.Contains(r.Stderr, "never spoke to mpiup")
			if r.Code != 0 || warned != (c.want != "") || !strings.Contains(r.Stderr, c.want) {
				t.Errorf("ended with %d and says, not %q:\n%s", r.Code, c.want, r.Stderr)
			}
		})
	}
}

// keepSessionDir has the directory of a host's sessions of Open MPI 4.1 not come and go. Ranks without a launcher make and
// remove it each by itself, and one fails where another removes it in between ("A call to mkdir was unable").
func keepSessionDir(t *testing.T, host string) {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("ompi.%s.%d", host, os.Getuid()))
	if err := os.MkdirAll(filepath.Join(dir, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
}

// libmpi is Open MPI's library.
func (l *lab) libmpi(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob("/usr/lib/*/libmpi.so.40")
	if err != nil || len(paths) == 0 {
		t.Fatalf("Open MPI's library: %q, %v", paths, err)
	}
	return paths[0]
}
