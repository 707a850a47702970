package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/netns"
)

// Text is output that may be read and watched while it is written. The zero value is empty.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer  // guarded by mu
	next chan struct{} // closed at the next write; nil: nobody waits; guarded by mu
}

// Write appends; it never fails.
func (x *Text) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.next != nil {
		close(x.next)
		x.next = nil
	}
	return x.text.Write(b)
}

func (x *Text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// More is closed at the next write.
func (x *Text) More() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.next == nil {
		x.next = make(chan struct{})
	}
	return x.next
}

// Process is a command that was started.
type Process struct {
	Cmd            *exec.Cmd
	Stdout, Stderr *Text // what goes nowhere else
	Begun          time.Time
	Done           chan struct{} // closed at its end

	err error // of Wait; after Done
}

// Result is what came of a command.
type Result struct {
	Stdout, Stderr string
	Code           int // 128+signal when one killed it
	Took           time.Duration
}

// Start starts a command on a host.
func Start(cmd *netns.Cmd) (*Process, error) { return begin(cmd.Cmd, cmd.Start, cmd.Wait) }

// StartHere starts a command on this machine.
func StartHere(cmd *exec.Cmd) (*Process, error) { return begin(cmd, cmd.Start, cmd.Wait) }

func begin(cmd *exec.Cmd, start, wait func() error) (*Process, error) {
	usualSignals()
	p := &Process{Cmd: cmd, Stdout: new(Text), Stderr: new(Text), Begun: time.Now(), Done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.Stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Stderr
	}
	if err := start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.Done)
		p.err = wait()
	}()
	return p, nil
}

// usualSignals has children begin with SIG_DFL, also those of a test that nohup has started or a shell in the background: Go leaves ignored
// what it finds so (os/signal), and a child inherits that, but not a handler (execve(2)).
func usualSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// Run runs a command of this machine to its end. After bound it is killed, which fails the test.
func Run(t testing.TB, bound time.Duration, cmd *exec.Cmd) Result {
	t.Helper()
	cmd.WaitDelay = 5 * time.Second // for what holds its output
	p, err := StartHere(cmd)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done:
	case <-time.After(bound):
		_ = cmd.Process.Kill()
		<-p.Done
		t.Errorf("%q hangs:\n%s", cmd.Args, p.Stderr)
	}
	return p.result()
}

// End waits for the command's end.
func (p *Process) End() (Result, error) {
	select {
	case <-p.Done:
	case <-time.After(Bound):
		return Result{}, fmt.Errorf("%v still runs after %v\n%s", p.Cmd.Args, time.Since(p.Begun), p.Stderr)
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		return p.result(), nil
	}
	return p.result(), p.err
}

// result is what came of a command that has ended.
func (p *Process) result() Result {
	r := Result{Stdout: p.Stdout.String(), Stderr: p.Stderr.String(), Code: p.Cmd.ProcessState.ExitCode(), Took: time.Since(p.Begun)}
	if ws := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		r.Code = 128 + int(ws.Signal())
	}
	return r
}

// Wait is End, whose error fails the test.
func (p *Process) Wait(t testing.TB) Result {
	t.Helper()
	res, err := p.End()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Signal sends the command a signal.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// Until waits for text in one of the command's outputs.
func (p *Process) Until(where *Text, text string) error {
	late := time.After(Bound)
	for {
		more := where.More()
		if strings.Contains(where.String(), text) {
			return nil
		}
		select {
		case <-more:
		case <-p.Done:
			if strings.Contains(where.String(), text) {
				return nil
			}
			return fmt.Errorf("%v ended (%v) before it wrote %q\nstdout: %s\nstderr: %s", p.Cmd.Args, p.err, text, p.Stdout, p.Stderr)
		case <-late:
			return fmt.Errorf("%v did not write %q in %v\nstdout: %s\nstderr: %s", p.Cmd.Args, text, Bound, p.Stdout, p.Stderr)
		}
	}
}

// Says waits until standard output holds each text.
func (p *Process) Says(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := p.Until(p.Stdout, text); err != nil {
			t.Fatal(err)
		}
	}
}

// OK fails the test unless the command ended with 0 and mpiup said nothing on standard error.
func (r Result) OK(t testing.TB) Result {
	t.Helper()
	if r.Code != 0 || strings.Contains(r.Stderr, "mpiup:") {
		t.Fatalf("ended with %d\nstdout: %.4000s\nstderr: %.4000s", r.Code, r.Stdout, r.Stderr)
	}
	return r
}

// Fails fails the test unless the command ended with code and standard error holds every text.
func (r Result) Fails(t testing.TB, code int, texts ...string) Result {
	t.Helper()
	if r.Code != code {
		t.Errorf("ended with %d, not %d\nstdout: %.4000s\nstderr: %.4000s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, text := range texts {
		if !strings.Contains(r.Stderr, text) {
			t.Errorf("does not say %q on stderr:\n%.4000s", text, r.Stderr)
		}
	}
	return r
}

// Ends fails the test unless the command ended with code and printed exactly stdout, and its standard error
// begins with stderr; "" means that there is none.
func (r Result) Ends(t testing.TB, code int, stdout, stderr string) {
	t.Helper()
	if r.Code != code || r.Stdout != stdout || !strings.HasPrefix(r.Stderr, stderr) || stderr == "" && r.Stderr != "" {
		t.Errorf("ended with %d, printed %q and %q", r.Code, r.Stdout, r.Stderr)
	}
}
