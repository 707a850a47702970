package early

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// asked has TestMain be a process that a test has started as PID 1, which ends by the signal that came since it began.
const asked = "MPIUP_TEST_EARLY"

func TestMain(m *testing.M) {
	if os.Getenv(asked) == "" {
		os.Exit(m.Run())
	}
	os.Stdout.WriteString("up\n")
	if s := <-Signals(); s == syscall.SIGTERM { // nil would wait for ever
		os.Exit(0)
	}
	os.Exit(1)
}

// A container's first process has the signal; any other has none, and ends by it as ever.
func TestSignals(t *testing.T) {
	if Signals() != nil {
		t.Error("this process is no PID 1, and listens")
	}

	first := exec.Command(os.Args[0])
	first.Env = append(os.Environ(), asked+"=1")
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	need.Done(t, "root", first.Start(), "a namespace of PIDs needs root")
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("it ends with %v, want 0", err)
	}
}
