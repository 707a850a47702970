package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/netns"
)

// bound is for everything that must not hang.
const bound = 3 * time.Minute

// job is a mpiup run on the launcher, or another command there.
type job struct {
	hosts  string   // --host; "" is none
	args   []string // of mpiup run
	stdin  io.Reader
	stdout io.Writer // default: result.stdout
	env    []string  // besides the host's
	dir    string    // default: /
}

// run starts the job, waits for its end and returns what came of it.
func (l *lab) run(t *testing.T, j job) result {
	t.Helper()
	return l.start(t, j).wait(t)
}

func (l *lab) start(t *testing.T, j job) *running {
	t.Helper()
	argv := []string{l.bin, "run", "--key", l.key}
	if j.hosts != "" {
		argv = append(argv, "--host", j.hosts)
	}
	return l.command(t, j, append(argv, j.args...)...)
}

// mpiup runs any command of the binary on the launcher.
func (l *lab) mpiup(t *testing.T, args ...string) result {
	t.Helper()
	return l.command(t, job{}, append([]string{l.bin}, args...)...).wait(t)
}

// command starts argv on the launcher as j says. The test's end kills it if it still runs.
func (l *lab) command(t *testing.T, j job, argv ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := l.cluster.Command(ctx, netns.Launcher, argv...)
	cmd.Stdin, cmd.Stdout = j.stdin, j.stdout
	cmd.WaitDelay = bound // for what a killed launcher leaves behind with our pipes
	if j.dir != "" {
		cmd.Dir = j.dir
	}
	if len(j.env) > 0 {
		cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root"}, j.env...)
	}
	r, err := startCommand(cmd)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-r.done })
	return r
}

// running is a command that was started.
type running struct {
	cmd            *netns.Cmd
	stdout, stderr *transcript
	begun          time.Time
	done           chan struct{}
	err            error // of Wait; after done
}

// result is what came of a command.
type result struct {
	stdout, stderr string
	code           int // 128+signal when one killed it
	took           time.Duration
}

func startCommand(cmd *netns.Cmd) (*running, error) {
	r := &running{cmd: cmd, stdout: newTranscript(), stderr: newTranscript(), begun: time.Now(), done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = r.stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = r.stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(r.done)
		r.err = cmd.Wait()
	}()
	return r, nil
}

// end waits for the command's end.
func (r *running) end() (result, error) {
	select {
	case <-r.done:
	case <-time.After(bound):
		return result{}, fmt.Errorf("%v still runs after %v\n%s", r.cmd.Args, time.Since(r.begun), r.stderr)
	}
	res := result{stdout: r.stdout.String(), stderr: r.stderr.String(), took: time.Since(r.begun)}
	var exit *exec.ExitError
	if errors.As(r.err, &exit) {
		ws := exit.Sys().(syscall.WaitStatus)
		if res.code = ws.ExitStatus(); ws.Signaled() {
			res.code = 128 + int(ws.Signal())
		}
		return res, nil
	}
	return res, r.err
}

func (r *running) wait(t *testing.T) result {
	t.Helper()
	res, err := r.end()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// signal sends the command a signal.
func (r *running) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// until waits for text in what the command writes.
func (r *running) until(where *transcript, text string) error {
	end := time.After(bound)
	for {
		more := where.more()
		if strings.Contains(where.String(), text) {
			return nil
		}
		select {
		case <-more:
		case <-r.done:
			if strings.Contains(where.String(), text) {
				return nil
			}
			return fmt.Errorf("%v ended (%v) before it wrote %q\nstdout: %s\nstderr: %s", r.cmd.Args, r.err, text, r.stdout, r.stderr)
		case <-end:
			return fmt.Errorf("%v did not write %q in %v\nstdout: %s\nstderr: %s", r.cmd.Args, text, bound, r.stdout, r.stderr)
		}
	}
}

// says waits until standard output holds each text.
func (r *running) says(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := r.until(r.stdout, text); err != nil {
			t.Fatal(err)
		}
	}
}

// ok fails the test unless the command ended with 0 and said nothing of its own.
func (r result) ok(t *testing.T) result {
	t.Helper()
	if r.code != 0 || strings.Contains(r.stderr, "mpiup:") {
		t.Fatalf("ended with %d\nstdout: %.4000s\nstderr: %.4000s", r.code, r.stdout, r.stderr)
	}
	return r
}

// fails fails the test unless the command ended with code and standard error holds every text.
func (r result) fails(t *testing.T, code int, texts ...string) result {
	t.Helper()
	if r.code != code {
		t.Errorf("ended with %d, not %d\nstdout: %.4000s\nstderr: %.4000s", r.code, code, r.stdout, r.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("does not say %q on stderr:\n%.4000s", text, r.stderr)
		}
	}
	return r
}

// ends fails the test unless the command ended with code and printed exactly stdout; stderr is how
// its standard error begins, "" that there is none.
func (r result) ends(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || r.stdout != stdout || !strings.HasPrefix(r.stderr, stderr) || stderr == "" && r.stderr != "" {
		t.Errorf("ended with %d, printed %q and %q", r.code, r.stdout, r.stderr)
	}
}

// transcript is a stream that can be watched while it is written.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer  // guarded by mu
	next chan struct{} // closed at the next write, guarded by mu
}

func newTranscript() *transcript { return &transcript{next: make(chan struct{})} }

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.next)
	w.next = make(chan struct{})
	return w.text.Write(b)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *transcript) more() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}
