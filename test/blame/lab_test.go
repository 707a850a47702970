package blame

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
	"golang.org/x/sys/unix"
)

//go:embed ranks.py
var ranksPy []byte

// Hosts, and ranks of each job: two on the first host, and two on the second or on the one with a limit of memory.
const (
	first, second, box = "w0", "w1", "box"
	ranks              = 4
	limit              = 640 << 20 // bytes; two ranks have loaded torch
	bound              = 2 * time.Minute
)

// world is what all tries share.
var world struct {
	dir, mpiup, key string
	cluster         *netns.Cluster
	agents          map[string]*lab.Process
	programs        map[string]string // by MPI library
	python          map[string]string // interpreters, by what ranks exchange by
	ranks           string            // the script
	unloadable      string            // a program whose library is gone
	boxed           sync.Mutex        // one try at a time may use up the memory
}

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, func(dir string) error { world.dir = dir; return nil }, func() error {
		if world.cluster == nil {
			return nil
		}
		return errors.Join(lab.Idle(world.agents), world.cluster.Close())
	}))
}

// hosted makes the hosts, agents and programs.
func hosted(t *testing.T) {
	t.Helper()
	need.Netns(t)
	need.MPICH(t)
	need.Program(t, "mpicc.openmpi", "libopenmpi-dev")
	if err := up(); err != nil {
		t.Fatal(err)
	}
}

var up = sync.OnceValue(func() (err error) {
	w := &world
	w.key = filepath.Join(w.dir, "key")
	if w.mpiup, err = lab.Binary(w.dir); err != nil {
		return err
	}
	if err = lab.Keygen(w.mpiup, w.key, 0o644); err != nil {
		return err
	}
	if err = write(); err != nil {
		return err
	}
	venv := filepath.Dir(filepath.Dir(w.python["mpi4py"]))
	w.cluster, err = netns.Up(context.Background(), netns.Config{Hosts: []string{first, second, box}, Share: lab.There(w.dir, filepath.Dir(w.mpiup), venv, newestTorch())})
	if err != nil {
		return err
	}
	if w.agents, err = lab.Agents(context.Background(), w.cluster, w.mpiup, "agent", "--key", w.key); err != nil {
		return err
	}
	_, err = w.cluster.LimitMemory(box, limit)
	return err
})

// write makes the programs.
func write() error {
	w := &world
	w.ranks, w.programs = filepath.Join(w.dir, "ranks.py"), map[string]string{}
	errs := []error{os.WriteFile(w.ranks, ranksPy, 0o644)}
	for stack, cc := range map[string]string{"MPICH": "mpicc.mpich", "Open MPI": "mpicc.openmpi"} {
		w.programs[stack] = filepath.Join(w.dir, "blame."+strings.ReplaceAll(stack, " ", ""))
		errs = append(errs, lab.Compile(cc, "blame", w.programs[stack]))
	}
	root, err := lab.Root()
	w.python = map[string]string{"sockets": "/usr/bin/python3", "torch": "/usr/bin/python3", "mpi4py": filepath.Join(root, ".cache", "venv", "bin", "python")}
	w.unloadable = filepath.Join(w.dir, "unloadable")
	lib := filepath.Join(w.dir, "libstate.so")
	for _, line := range [][]string{{"-shared", "-o", lib, "-x", "c", "/dev/null"}, {"-o", w.unloadable, "-x", "c", "-", "-x", "none", "-Wl,--no-as-needed", lib}} {
		cmd := exec.Command("cc", line...)
		cmd.Stdin = strings.NewReader("int main(void) { return 0; }\n")
		out, err := cmd.CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w\n%s", cmd, err, bytes.TrimSpace(out)))
		}
	}
	return errors.Join(append(errs, err, os.Remove(lib))...)
}

// missing says what a stack lacks here; "": nothing.
func missing(stack string) string {
	python, ok := world.python[stack]
	if !ok || stack == "sockets" {
		return ""
	}
	if _, err := os.Stat(python); err != nil {
		return "no " + python + ": run test/wheels.sh"
	}
	if err := exec.Command(python, "-c", "import "+stack).Run(); err != nil {
		return stack + " is not installed: " + err.Error()
	}
	return ""
}

// job is a mpiup run of four ranks.
type job struct {
	flags, program []string
	boxed          bool
	dir            string
}

// folder is a directory that all hosts see.
func folder() (string, error) {
	dir, err := os.MkdirTemp(world.dir, "try-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	return dir, err
}

// start starts the job.
func (j job) start(ctx context.Context) (*lab.Process, error) {
	hosts := first + ":2," + second + ":2"
	if j.boxed {
		hosts = first + ":2," + box + ":2"
	}
	argv := slices.Concat([]string{world.mpiup, "run", "--key", world.key, "--host", hosts, "-n", fmt.Sprint(ranks), "--stdin", "none", "--output", "json",
		"-x", "BLAME_UNLOADABLE=" + world.unloadable}, j.flags, []string{"--"}, j.program)
	cmd := world.cluster.Command(ctx, netns.Launcher, argv...)
	cmd.WaitDelay = 5 * time.Second // for what holds its output
	return lab.Start(cmd)
}

// killRank kills a rank of the job, once all are there.
func (j job) killRank(p *lab.Process, rank int) error {
	for late := time.After(bound); strings.Count(p.Stdout.String(), "is there") < ranks; {
		select {
		case <-p.Stdout.More():
		case <-p.Done:
			return errors.New("it ended before the rank was killed")
		case <-late:
			return errors.New("the ranks do not come")
		}
	}
	host := first
	if rank >= 2 {
		host = second
	}
	all, err := world.cluster.Processes(host)
	if err != nil {
		return err
	}
	for _, q := range all {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", q.Pid))
		env := strings.Split(string(b), "\x00")
		own := strings.Contains(q.Argv, j.dir) || slices.Contains(env, "DIR="+j.dir)
		if err == nil && own && slices.Contains(env, fmt.Sprint("MPIUP_RANK=", rank)) && !strings.HasPrefix(q.Argv, "sleep") {
			return unix.Kill(q.Pid, unix.SIGKILL)
		}
	}
	return fmt.Errorf("rank %d is not on %s", rank, host)
}
