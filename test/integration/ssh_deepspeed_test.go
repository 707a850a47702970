package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// deepspeed is the deepspeed command of 0.19.8.
const deepspeed = `from deepspeed.launcher.runner import main

if __name__ == "__main__":
    main()
`

// train says what a rank finds, with DeepSpeed's names or Open MPI's, and ends as it is told.
const train = `import os, socket, sys, time
e = os.environ.get
line = ["rank", e("RANK", e("OMPI_COMM_WORLD_RANK")), "of", e("WORLD_SIZE", e("OMPI_COMM_WORLD_SIZE")), "local", e("LOCAL_RANK", e("OMPI_COMM_WORLD_LOCAL_RANK")),
        "on", socket.gethostname(), "master", e("MASTER_ADDR"), repr(e("QUOTED")), sys.argv[-1] + "\n"]
os.write(1, " ".join(map(str, line)).encode())  # at once: python -u, which the launcher asks for, writes word by word
if sys.argv[-1] == "hang":
    time.sleep(1009)
if sys.argv[-1] == "fail" and e("RANK") == "1":
    sys.exit(9)
`

// deepspeed starts the launcher on two hosts of two slots, in a folder with train.py and a .deepspeed_env.
func (l *lab) deepspeed(t *testing.T, args ...string) *running {
	t.Helper()
	need.Program(t, "pdsh", "pdsh")
	j := l.outfit(t, "DS_ACCELERATOR=cpu")
	j.dir = l.folder(t)
	for name, text := range map[string]string{
		"train.py": train, "hostfile": "w0 slots=2\nw1 slots=2\n",
		".deepspeed_env": "DS_ACCELERATOR=cpu\nQUOTED=a;b  c\n",
	} {
		if err := os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return l.command(t, j, append(append(l.script(t, "deepspeed", deepspeed), "--hostfile", "hostfile"), args...)...)
}

// placed are the lines of train.py, sorted, without what stands before them.
func placed(stdout string) string {
	var lines []string
	for line := range strings.Lines(stdout) {
		if i := strings.Index(line, "rank "); i >= 0 && strings.Contains(line, " local ") {
			lines = append(lines, line[i:])
		}
	}
	return inOrder(strings.Join(lines, ""))
}

// The real deepspeed command over ours, with each of its runners that people have in pods: its
// check by ssh, the master's address by "hostname -I", and ranks by pdsh or by our mpirun. A value in
// quotes that no shell removes arrives with them, as it does with the real mpirun.
func TestDeepSpeed(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const four = "rank 0 of 4 local 0 on w0 master M Q the end\nrank 1 of 4 local 1 on w0 master M Q the end\n" +
		"rank 2 of 4 local 0 on w1 master M Q the end\nrank 3 of 4 local 1 on w1 master M Q the end\n"
	for _, c := range []struct {
		name           string
		args           []string
		master, quoted string
	}{
		{"pdsh", []string{"--master_addr", "w0"}, "w0", `'a;b  c'`},
		{"openmpi", []string{"--launcher", "openmpi"}, "None", `'"a;b  c"'`},
		{"mpich", []string{"--launcher", "mpich", "--master_addr", "w0"}, "w0", `'"a;b  c"'`},
		{"impi", []string{"--launcher", "impi", "--master_addr", "w0"}, "w0", `'"a;b  c"'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.deepspeed(t, append(c.args, "train.py", "the end")...).Wait(t)
			want := strings.NewReplacer("master M", "master "+c.master, " Q ", " "+c.quoted+" ").Replace(four)
			if got := placed(r.Stdout); r.Code != 0 || got != want {
				t.Errorf("ended with %d, printed\n%s not\n%s%s\n%s", r.Code, got, want, r.Stdout, r.Stderr)
			}
		})
	}
}

// A rank's failure ends deepspeed with its code, and an interrupt leaves nothing behind.
func TestDeepSpeedEnds(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.deepspeed(t, "train.py", "fail").Wait(t)
	r.Fails(t, 9, "w0: ssh exited with exit code 9")
	if got := placed(r.Stdout); !strings.Contains(got, "rank 2 of 4 local 0 on w1 master 10.77.") {
		t.Errorf("printed %s", r.Stdout)
	}
	d := l.deepspeed(t, "train.py", "hang")
	d.Says(t, "rank 0 of 4", "rank 1 of 4", "rank 2 of 4", "rank 3 of 4")
	dir := d.Cmd.Dir
	d.Signal(t, syscall.SIGINT)
	if r := d.Wait(t); r.Code != 1 {
		t.Errorf("ended with %d: %s", r.Code, r.Stderr)
	}
	for _, h := range []string{"w0", "w1"} {
		testlab.Eventually(t, "ranks end on "+h, func() bool {
			for _, pid := range l.matching(t, h, "train.py") {
				if at, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd"); err == nil && at == dir {
					return false
				}
			}
			return true
		})
	}
}
