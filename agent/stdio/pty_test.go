package stdio

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal starts a shell command on a pseudo terminal.
func onTerminal(t *testing.T, command string) (*Files, *exec.Cmd) {
	t.Helper()
	f, err := Pty(24, 80)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f.Child[0], f.Child[1], f.Child[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	f.CloseChild()
	if err != nil {
		t.Fatal(err)
	}
	return f, cmd
}

func TestTerminal(t *testing.T) {
	f, cmd := onTerminal(t, `stty size; trap 'stty size; exit 5' WINCH; echo ready; while read x; do :; done; wait; sleep 60 & wait`)
	var out bytes.Buffer
	ready := make(chan struct{})
	p := NewPump(Config{Out: f.Out, Emit: func(c Chunk) {
		if had := strings.Contains(out.String(), "ready"); !had {
			defer func() {
				if strings.Contains(out.String(), "ready") {
					close(ready)
				}
			}()
		}
		out.Write(c.Data)
	}})
	done := make(chan error, 1)
	go func() { _, err := p.Run(t.Context()); done <- err }()
	<-ready
	if err := f.Resize(50, 132); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	if err := <-done; err != nil { // EOF, not EIO
		t.Error(err)
	}
	if cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("%v", cmd.ProcessState)
	}
	for _, want := range []string{"24 80", "50 132"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
}

// EOF of the launcher's input reads as EOF on the terminal, after a line without an end too.
func TestTerminalEOF(t *testing.T) {
	f, cmd := onTerminal(t, `stty -echo; echo ready; cat`)
	var out bytes.Buffer
	ready := make(chan struct{}, 16)
	p := NewPump(Config{Out: f.Out, Emit: func(c Chunk) { out.Write(c.Data); ready <- struct{}{} }})
	pumped := make(chan error, 1)
	go func() { _, err := p.Run(t.Context()); pumped <- err }()
	<-ready
	in := NewInput(InputConfig{File: f.In, Terminal: true})
	fed := make(chan error, 1)
	go func() { fed <- in.Run(t.Context()) }()
	in.Write([]byte("one\ntwo"))
	in.CloseWrite()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := <-fed; err != nil {
		t.Error(err)
	}
	if err := <-pumped; err != nil {
		t.Error(err)
	}
	if got := strings.ReplaceAll(out.String(), "\r", ""); got != "ready\none\ntwo" {
		t.Errorf("got %q", got)
	}
}

// Other processes that start meanwhile must not hold a rank's pipes open, programs expect
// descriptors that block, and ours must not.
func TestFlagsOfPipes(t *testing.T) {
	f, err := Pipes(true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, tt := range []struct {
		file  *os.File
		block bool
	}{{f.Child[0], true}, {f.Child[1], true}, {f.Child[2], true}, {f.In, false}, {f.Out, false}, {f.Err, false}} {
		raw, err := tt.file.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) {
			flags, _ := unix.FcntlInt(fd, unix.F_GETFD, 0)
			status, _ := unix.FcntlInt(fd, unix.F_GETFL, 0)
			if flags&unix.FD_CLOEXEC == 0 || (status&unix.O_NONBLOCK == 0) != tt.block {
				t.Errorf("%s: flags %#x, status %#x", tt.file.Name(), flags, status)
			}
		})
	}
}
