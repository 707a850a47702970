package integration

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// horovodrun is Horovod 0.28.1's, of a Horovod that has both controllers: it would not begin without
// those compiled parts, and uses nothing of them.
const horovodrun = `import sys
from horovod.runner import launch

launch.gloo_built = launch.mpi_built = lambda verbose=False: True
if __name__ == "__main__":
    sys.exit(launch.run_commandline())
`

// script is a program of test/wheels.sh's Python.
func (l *lab) script(t *testing.T, what, text string) []string {
	t.Helper()
	need.File(t, "wheels", filepath.Join(l.venv, "sources"), "run test/wheels.sh: "+what)
	return []string{filepath.Join(l.venv, "bin", "python"), l.file(t, text)}
}

// horovod starts horovodrun on the launcher, in a folder that all hosts see.
func (l *lab) horovod(t *testing.T, args ...string) *running {
	t.Helper()
	j := l.outfit(t)
	j.dir = l.folder(t)
	return l.command(t, j, append(l.script(t, "horovod", horovodrun), args...)...)
}

// What a rank of either controller knows of its place.
const (
	glooRank = `echo rank $HOROVOD_RANK of $HOROVOD_SIZE on $(hostname), $HOROVOD_CONTROLLER over $HOROVOD_GLOO_IFACE`
	mpiRank  = `echo rank $OMPI_COMM_WORLD_RANK on $(hostname), $NCCL_SOCKET_IFNAME`
)

// The real horovodrun over ours: its checks by ssh, the task servers that look for common
// interfaces (none is given), ranks by ssh or by our mpirun.
func TestHorovodrun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct {
		name   string
		args   []string
		stdout string // lines, sorted
	}{
		{"gloo", []string{"--gloo", "-np", "4", "-H", "w0:2,w1:2", "sh", "-c", glooRank},
			"[0]<stdout>:rank 0 of 4 on w0, gloo over eth0\n[1]<stdout>:rank 1 of 4 on w0, gloo over eth0\n" +
				"[2]<stdout>:rank 2 of 4 on w1, gloo over eth0\n[3]<stdout>:rank 3 of 4 on w1, gloo over eth0\n"},
		{"port and key of ssh", []string{"-p", "2222", "-i", "/root/.ssh/id_rsa", "--gloo", "--network-interface", "eth0", "-np", "1", "-H", "w2:1", "sh", "-c", glooRank},
			"[0]<stdout>:rank 0 of 1 on w2, gloo over eth0\n"},
		{"mpi", []string{"--mpi", "-np", "4", "-H", "w0:2,w1:2", "sh", "-c", mpiRank},
			"[1,0]<stdout>:rank 0 on w0, eth0\n[1,1]<stdout>:rank 1 on w0, eth0\n[1,2]<stdout>:rank 2 on w1, eth0\n[1,3]<stdout>:rank 3 on w1, eth0\n"},
		{"mpi with arguments of mpirun", []string{"-p", "2222", "--mpi", "--network-interface", "eth0", "--binding-args=--bind-to none --map-by node", "-np", "4", "-H", "w0:2,w1:2", "sh", "-c", mpiRank},
			"[1,0]<stdout>:rank 0 on w0, eth0\n[1,1]<stdout>:rank 1 on w1, eth0\n[1,2]<stdout>:rank 2 on w0, eth0\n[1,3]<stdout>:rank 3 on w1, eth0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.horovod(t, append([]string{"--start-timeout", "150"}, c.args...)...).Wait(t)
			// Where two threads of horovodrun 0.28.1 wait for one process, Python's multiprocessing gives one of them no exit code (None), and
			// that thread says so of a task that went well. The run goes on.
			stdout := strings.Replace(r.Stdout, "Launching horovod task function was not successful:\n\n", "", 1)
			if r.Code != 0 || inOrder(stdout) != c.stdout {
				t.Errorf("ended with %d, printed %q and %.4000s", r.Code, r.Stdout, r.Stderr)
			}
		})
	}
}

// One worker's end ends the others on their hosts, and so does the user's.
func TestHorovodrunEnds(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	gone := func(text string) {
		t.Helper()
		for _, h := range []string{"w0", "w1"} {
			testlab.Eventually(t, "workers end on "+h, func() bool { return len(l.matching(t, h, text)) == 0 })
		}
	}
	args := []string{"--gloo", "--network-interface", "eth0", "-np", "3", "-H", "w0:2,w1:1", "sh", "-c"}
	l.horovod(t, append(args, "if [ $HOROVOD_RANK = 1 ]; then exit 7; fi; exec sleep 1007")...).Wait(t).
		Fails(t, 1, "Process name: 1\nExit code: 7")
	gone("sleep 1007")
	h := l.horovod(t, append(args, "echo up; exec sleep 1008")...)
	h.Says(t, "[0]<stdout>:up", "[1]<stdout>:up", "[2]<stdout>:up")
	h.Signal(t, syscall.SIGINT)
	h.Wait(t)
	gone("sleep 1008")
}
