package integration

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// A rank's terminal has the size of the launcher's, and follows it; the rank gets SIGWINCH once it has.
func TestSizeOfRanksTerminals(t *testing.T) {
	t.Parallel()
	bin, err := testlab.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := testlab.Keygen(bin, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bin, filepath.Join(dir, "mpirun")); err != nil {
		t.Fatal(err)
	}
	agent := testlab.NewLoopback(t, bin, []string{"MPIUP_KEY=" + key})
	const program = `exec 3>&1; trap 'echo "$MPIUP_RANK now $(stty size <&3)"; exit 0' WINCH
		echo "$MPIUP_RANK has $(stty size <&3)"; while :; do sleep 0.05; done`

	for _, c := range []struct {
		name string
		argv []string
		none bool // the launcher's output goes to a pipe
		has  string
	}{
		{name: "here", argv: []string{bin, "run", "--pty", "-n", "2"}, has: "33 77"},
		{name: "on a host", argv: []string{bin, "run", "--key", key, "--host", agent.Addr + ":2", "--pty", "-n", "2"}, has: "33 77"},
		{name: "mpirun", argv: []string{filepath.Join(dir, "mpirun"), "-n", "2"}, has: "33 77"},
		{name: "into a pipe", argv: []string{bin, "run", "--pty", "-n", "2"}, none: true, has: "0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			master, tty, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			if err := pty.Setsize(tty, &pty.Winsize{Rows: 33, Cols: 77}); err != nil {
				t.Fatal(err)
			}

			cmd := exec.Command(c.argv[0], append(c.argv[1:], "sh", "-c", program)...)
			cmd.Stdin = tty
			cmd.Stderr = tty
			if !c.none {
				cmd.Stdout = tty
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			cmd.Env = []string{"PATH=/usr/bin:/bin", "TERM=vt100", "MPIUP_FAMILY=openmpi", "MPIUP_REPORTS=" + t.TempDir()}
			p, err := testlab.StartHere(cmd)
			if err != nil {
				t.Fatal(err)
			}
			tty.Close()
			screen := new(testlab.Text)
			copied := make(chan struct{})
			go func() {
				defer close(copied)
				_, _ = io.Copy(screen, master) // until the last of the terminal's users is gone
			}()
			where := screen
			if c.none {
				where = p.Stdout
			}
			sees := func(text string) {
				t.Helper()
				for _, rank := range []string{"0", "1"} {
					if err := p.Until(where, rank+" "+text); err != nil {
						t.Fatalf("%v\non the screen: %q", err, where.String())
					}
				}
			}

			sees("has " + c.has)
			if err := pty.Setsize(master, &pty.Winsize{Rows: 40, Cols: 100}); err != nil {
				t.Fatal(err)
			}
			sees("now " + strings.ReplaceAll(c.has, "33 77", "40 100"))
			if r := p.Wait(t); r.Code != 0 {
				t.Errorf("ended with %d", r.Code)
			}
			<-copied
		})
	}
}
