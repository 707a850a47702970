package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// slowSaver takes a second, in which it writes, to save what it has when SIGNAL comes. All other signals end it.
const slowSaver = `trap 'for i in 1 2 3 4 5; do echo saving; sleep 0.2; done; : >"$0/saved.$MPIUP_RANK"; exit 0' SIGNAL
	echo up; while :; do sleep 0.05; done`

// pipeline is a launcher with a reader of its output and errors behind it, as a shell runs "mpiup ... 2>&1 | tee log": one process group.
type pipeline struct {
	launcher *testlab.Process
	reader   *testlab.Process
}

// pipe starts a pipeline.
func pipe(t *testing.T, argv []string, env []string) *pipeline {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()

	reader := exec.Command("cat")
	reader.Stdin = from
	reader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &pipeline{}
	if p.reader, err = testlab.StartHere(reader); err != nil {
		t.Fatal(err)
	}

	launcher := exec.Command(argv[0], argv[1:]...)
	launcher.Stdout = to
	launcher.Stderr = to
	launcher.Env = append([]string{"PATH=/usr/bin:/bin", "MPIUP_REPORTS=" + t.TempDir()}, env...)
	launcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: reader.Process.Pid}
	if p.launcher, err = testlab.StartHere(launcher); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = launcher.Process.Kill() // it has ended, where the test has not failed
		<-p.launcher.Done
		_ = reader.Process.Kill() // likewise
		<-p.reader.Done
	})
	return p
}

// What ends the reader of our output, too, takes from the ranks nothing of the time that they have to save; whichever of both the launcher sees first.
// Exit 0 it is not: what they wrote then is lost.
func TestReaderThatEndsOfTheSameSignal(t *testing.T) {
	t.Parallel()
	bin, err := testlab.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := testlab.Keygen(bin, key, 0o600); err != nil {
		t.Fatal(err)
	}
	agents := []*testlab.Loopback{
		testlab.NewLoopback(t, bin, []string{"MPIUP_KEY=" + key}),
		testlab.NewLoopback(t, bin, []string{"MPIUP_KEY=" + key}),
	}
	ways := map[string][]string{
		"here":  {"run", "-n", "2"},
		"hosts": {"run", "--key", key, "--host", agents[0].Addr + ":1," + agents[1].Addr + ":1", "-n", "2"},
	}

	for _, c := range []struct {
		name  string
		trap  string
		sig   syscall.Signal
		first bool // the reader ends before the launcher gets the signal
		code  int
	}{
		{name: "Ctrl-C", trap: "INT", sig: syscall.SIGINT, code: 130},
		{name: "Ctrl-C, the reader first", trap: "INT", sig: syscall.SIGINT, first: true, code: 130},
		{name: "TERM", trap: "TERM", sig: syscall.SIGTERM, code: 249},
		{name: "TERM, the reader first", trap: "TERM", sig: syscall.SIGTERM, first: true, code: 249},
		{name: "HUP", trap: "HUP", sig: syscall.SIGHUP, code: 129},
		{name: "HUP, the reader first", trap: "HUP", sig: syscall.SIGHUP, first: true, code: 129},
		{name: "USR1", trap: "USR1", sig: syscall.SIGUSR1, code: 138},
	} {
		for way, args := range ways {
			t.Run(c.name+" "+way, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				argv := append(append([]string{bin}, args...), "sh", "-c", strings.Replace(slowSaver, "SIGNAL", c.trap, 1), dir)
				p := pipe(t, argv, nil)
				p.reader.Says(t, "up\nup\n")

				if c.first {
					p.reader.Signal(t, c.sig)
					<-p.reader.Done
					p.launcher.Signal(t, c.sig)
				} else if err := syscall.Kill(-p.reader.Cmd.Process.Pid, c.sig); err != nil {
					t.Fatal(err)
				}

				if r := p.launcher.Wait(t); r.Code != c.code {
					t.Errorf("ended with %d, want %d", r.Code, c.code)
				}
				for _, rank := range []string{"0", "1"} {
					if _, err := os.Stat(filepath.Join(dir, "saved."+rank)); err != nil {
						t.Errorf("rank %s could not save: %v", rank, err)
					}
				}
			})
		}
	}

	t.Run("no signal", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		p := pipe(t, []string{bin, "run", "-n", "1", "sh", "-c", `echo up; while :; do echo more; sleep 0.1; done`, dir}, nil)
		p.reader.Says(t, "up\n")
		p.reader.Signal(t, syscall.SIGKILL)
		if r := p.launcher.Wait(t); r.Code != 141 {
			t.Errorf("ended with %d", r.Code)
		}
	})

	t.Run("a full disk", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		mark := filepath.Join(dir, "up")
		script := strings.NewReplacer("SIGNAL", "INT", "echo up", ": >"+mark).Replace(slowSaver)
		cmd := exec.Command(bin, "run", "-n", "1", "sh", "-c", script, dir)
		cmd.Stdout = full
		cmd.Env = []string{"PATH=/usr/bin:/bin", "MPIUP_REPORTS=" + t.TempDir()}
		p, err := testlab.StartHere(cmd)
		if err != nil {
			t.Fatal(err)
		}
		testlab.Eventually(t, "the rank runs", func() bool { _, err := os.Stat(mark); return err == nil })
		p.Signal(t, syscall.SIGINT)
		p.Wait(t).Fails(t, 251, "no space left on device")
		if _, err := os.Stat(filepath.Join(dir, "saved.0")); err != nil {
			t.Errorf("the rank could not save: %v", err)
		}
	})

	t.Run("the log of an agent", func(t *testing.T) {
		t.Parallel()
		dir, addr := t.TempDir(), testlab.Address()
		agent := pipe(t, []string{bin, "agent", "--key", key, "--listen", addr, "--http", "off"}, []string{"TMPDIR=" + dir})
		agent.reader.Says(t, "ready")

		script := strings.Replace(slowSaver, "SIGNAL", "TERM", 1)
		cmd := exec.Command(bin, "run", "--key", key, "--host", addr+":1", "sh", "-c", script, dir)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "MPIUP_REPORTS=" + t.TempDir()}
		run, err := testlab.StartHere(cmd)
		if err != nil {
			t.Fatal(err)
		}
		run.Says(t, "up\n")
		if err := syscall.Kill(-agent.reader.Cmd.Process.Pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		run.Wait(t).Fails(t, 249)
		if r := agent.launcher.Wait(t); r.Code != 143 {
			t.Errorf("the agent ended with %d", r.Code)
		}
		if _, err := os.Stat(filepath.Join(dir, "saved.0")); err != nil {
			t.Errorf("the rank could not save: %v", err)
		}
	})
}
