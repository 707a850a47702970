package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What MPICH 5 does beyond a fixed set of ranks, with either of its networks; a port of UCX is too
// long for MPI_Open_port. Debian's MPICH 4.0.2 (ch4:ucx) can do none of it, under any launcher.
func TestMPICH5Dynamic(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mpicc := filepath.Join(l.wheels(t), "mpicc")
	const ofi = " -x MPIR_CVAR_CH4_NETMOD=ofi"
	for _, c := range []struct{ name, program, hosts, flags, want string }{
		{"spawn", "family", "w0:4,w1:4", "-n 2 --map-by node" + ofi, "family ok"},
		{"spawn with UCX", "family", "w0:4,w1:4", "-n 2 --map-by node", "family ok"},
		{"spawn from one rank", "family", "w0:2,w1:2,w2:2", "-n 1" + ofi, "family ok"},
		{"spawn over a port", "family", "w0:4,w1:4", "-n 2 --map-by node --mpi pmi-port" + ofi, "family ok"},
		{"accept and connect", "accept_ompi", "w0:2,w1:2", "-n 4" + ofi, "accept ok"},
		{"groups of a session", "groups", "w0:2,w1:2", "-n 4" + ofi, "groups ok"},
		{"groups of a session over a port", "groups", "w0:1,w1:1,w2:1", "-n 3 --mpi pmi-port", "groups ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exe, err := l.compiled(mpicc, c.program)
			if err != nil {
				t.Fatal(err)
			}
			args := append(strings.Fields(c.flags), exe)
			r := l.run(t, job{hosts: c.hosts, args: args})
			if r.Code != 0 || !strings.Contains(r.Stdout, c.want) { // it may warn of more ranks than CPUs
				t.Errorf("ended with %d and printed %q, not %q\n%s", r.Code, r.Stdout, c.want, r.Stderr)
			}
		})
	}
}

// The info keys that PMI-1 carries, over three hosts.
func TestMPICH5SpawnInfo(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python := filepath.Join(l.wheels(t), "python")
	dir := l.folder(t)
	script, err := os.ReadFile("../mpi/spawn_info.py")
	if err != nil {
		t.Fatal(err)
	}
	file, hostfile := filepath.Join(dir, "spawn_info.py"), filepath.Join(dir, "more hosts")
	for name, text := range map[string]string{file: string(script), hostfile: "w1 slots=2\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := l.run(t, job{hosts: "w0:5,w1:5,w2:5", args: []string{"-n", "1", "--spawn-hostfiles", dir, "-x", "MPIR_CVAR_CH4_NETMOD=ofi", python, file, hostfile}})
	want := `host w2 w2
hosts w1 w2
hostfile w1
ppn w0 w1 w2
map_by w0 w1 w2
soft 3
wdir /usr
env ('1', 'two words')
program refused
spawn_info ok
`
	if r.Code != 0 || r.Stdout != want {
		t.Errorf("ended with %d and printed\n%s\nwant\n%s\n%s", r.Code, r.Stdout, want, r.Stderr)
	}
}

// mpi4py.futures over workers that MPICH 5 spawns.
func TestMPI4PyPoolSpawns(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	bin := l.wheels(t)
	script, err := os.ReadFile("../mpi/pool.py")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.folder(t), "pool.py")
	if err := os.WriteFile(file, script, 0o644); err != nil {
		t.Fatal(err)
	}
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "1", "-x", "POOL_WORKERS=3", filepath.Join(bin, "python"), file}}).OK(t)
	if !strings.Contains(r.Stdout, "pool ok 3") {
		t.Errorf("printed %q", r.Stdout)
	}
}

// A spawn that there is no room for is refused: MPI and the user learn of it, and the run goes on.
func TestMPICH5SpawnWithoutRoom(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	exe, err := l.compiled(filepath.Join(l.wheels(t), "mpicc"), "spawn")
	if err != nil {
		t.Fatal(err)
	}
	r := l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", exe}}).Fails(t, 0, "rank 0 on w0 could not spawn /bin/true", "there is room for 0")
	if !strings.Contains(r.Stdout, "spawn refused") {
		t.Errorf("printed %q", r.Stdout)
	}
}
