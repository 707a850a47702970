package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// torch is Debian's Python with its torch, and an example's script.
func (l *lab) torch(t *testing.T, example string) (python, script string) {
	t.Helper()
	need.File(t, "torch", "/usr/lib/python3/dist-packages/torch/version.py", "install python3-torch")
	return "/usr/bin/python3", l.example(t, example)
}

// frameworkPython is that of an environment that test/frameworks.sh makes.
func frameworkPython(name string) (python string) {
	return filepath.Join(frameworksCache(), name, "bin", "python")
}

// example is a copy of an example's train.py that hosts see.
func (l *lab) example(t *testing.T, example string) string {
	t.Helper()
	script := filepath.Join(l.folder(t), "train.py")
	text, err := os.ReadFile(filepath.Join("../../examples", example, "train.py"))
	if err == nil {
		err = os.WriteFile(script, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return script
}

var learned = regexp.MustCompile(`(?m)^(?:\[1,\d+\]<stdout>:)?rank (\d+) of (\d+): loss ([\d.]+) to ([\d.]+), weights equal rank 0's: True$`)

// learns checks the lines of an example's ranks: all are there, the loss fell, the weights agree.
func (r result) learns(t *testing.T, size int) {
	t.Helper()
	r.ok(t)
	seen := map[string]bool{}
	for _, m := range learned.FindAllStringSubmatch(r.stdout, -1) {
		first, _ := strconv.ParseFloat(m[3], 64)
		last, _ := strconv.ParseFloat(m[4], 64)
		if m[2] != strconv.Itoa(size) || last >= first/4 {
			t.Errorf("a rank says %q of %d ranks", m[0], size)
		}
		seen[m[1]] = true
	}
	if len(seen) != size {
		t.Errorf("%d of %d ranks trained:\n%s%s", len(seen), size, r.stdout, r.stderr)
	}
}

// A script of torch's needs no launcher of its own and no flag.
func TestTorchDDPBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, script := l.torch(t, "torch-ddp")
	l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", python, script}}).learns(t, 4)
}

// One bare torchrun on each host: together they start one job, two processes a host here.
func TestTorchrunBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	_, script := l.torch(t, "torch-ddp")
	r := l.run(t, job{hosts: "w0,w1", args: []string{"--ppn", "1", "-x", "PET_NPROC_PER_NODE=2", "/usr/bin/torchrun", script}})
	r.learns(t, 4)
}

// JAX's initialize() finds the others without an argument.
func TestJAXBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, script := frameworkPython("jax"), l.example(t, "jax")
	need.File(t, "jax", python, "run test/frameworks.sh jax")
	l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", python, script}}).learns(t, 2)
}

// Horovod with MPI and Gloo in it takes MPI, and Gloo where it is told to, then also twice in one process.
func TestHorovodBare(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, script := frameworkPython("horovod"), l.example(t, "horovod-pytorch")
	need.File(t, "horovod", python, "run test/frameworks.sh horovod")
	again := fmt.Sprintf("import sys; sys.path.insert(0, %q); import train; sys.exit(train.main() or train.main())", filepath.Dir(script))
	for _, c := range []struct {
		name    string
		args    []string
		program []string
		times   int
	}{
		{"MPI", nil, []string{script}, 1},
		{"Gloo", []string{"--env", "horovod"}, []string{script}, 1},
		{"Gloo twice, as the user asks", []string{"-x", "HOROVOD_CONTROLLER=gloo", "-x", "HOROVOD_CPU_OPERATIONS=gloo"}, []string{"-c", again}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := slices.Concat([]string{"-n", "4"}, c.args, []string{python}, c.program)
			r := l.run(t, job{hosts: "w0:2,w1:2", args: args})
			r.learns(t, 4)
			if n := strings.Count(r.stdout, "weights equal"); n != 4*c.times {
				t.Errorf("%d lines of %d ranks:\n%s", n, 4, r.stdout)
			}
		})
	}
}

// mpiup under horovodrun's name, with its command line: no ssh, no mpirun and no horovodrun is asked.
func TestAsHorovodrun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, script := frameworkPython("horovod"), l.example(t, "horovod-pytorch")
	need.File(t, "horovod", python, "run test/frameworks.sh horovod")
	for _, how := range []string{"--gloo", "--mpi"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l.called(t, "horovodrun", job{}, "-np", "4", "-H", "w0:2,w1:2", how, "--cycle-time-ms", "2", python, script).learns(t, 4)
		})
	}
}

// Two jobs meet on the same hosts at the same time, and neither at the other's port.
func TestTorchJobsBesideEachOther(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	python, script := l.torch(t, "torch-ddp")
	var both []*running
	for range 2 {
		both = append(both, l.start(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", python, script}}))
	}
	for _, r := range both {
		r.wait(t).learns(t, 2)
	}
}

// Ports come out of --mpi-ports, from its end, and without a free one the user is told.
func TestMeetingPortsOfTheUsersRange(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const ask = `echo $MASTER_ADDR $MASTER_PORT $JAX_COORDINATOR_PORT`
	r := l.run(t, job{hosts: "w1:2", args: []string{"-n", "2", "--mpi-ports", "18100-18109", "sh", "-c", ask}}).ok(t)
	want := fmt.Sprintf("%s 18109 18108\n", l.cluster.Addr("w1"))
	if r.stdout != want+want {
		t.Errorf("ranks meet at\n%swant each\n%s", r.stdout, want)
	}
	r = l.run(t, job{hosts: "w1:1", args: []string{"-n", "1", "--mpi-ports", "18110-18110", "sh", "-c", "echo ${JAX_COORDINATOR_PORT:-none}"}})
	r.fails(t, 0, "ranks of JAX get no port to meet at on host w1: no port of --mpi-ports 18110-18110 is free there; widen it by two")
	if r.stdout != "none\n" {
		t.Errorf("the rank says %q", r.stdout)
	}
}

// What the user gives stays, and --env none leaves everything alone.
func TestFrameworkVariablesOfTheUser(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const ask = `echo ${RANK-none} ${MASTER_PORT-none} ${TF_CONFIG-none}`
	l.run(t, job{hosts: "w0", args: []string{"-n", "1", "-x", "MASTER_PORT=29511", "-x", "RANK=7", "sh", "-c", ask}}).ends(t, 0, "7 29511 none\n", "")
	l.run(t, job{hosts: "w0", args: []string{"-n", "1", "--env", "none", "sh", "-c", ask}}).ends(t, 0, "none none none\n", "")
	l.called(t, "mpirun", job{}, "-n", "1", "-host", "w0", "sh", "-c", ask).ends(t, 0, "none none none\n", "")
}
