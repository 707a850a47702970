package streams

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// backgroundVar makes the test binary a launcher in the background of a terminal.
const backgroundVar = "MPIUP_TEST_BACKGROUND"

func TestMain(m *testing.M) {
	if os.Getenv(backgroundVar) != "" {
		os.Exit(inBackground())
	}
	goleak.VerifyTestMain(m)
}

type frame struct {
	data string
	eof  bool
}

// blockingPipe is a pipe as a shell makes it.
func blockingPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	fds := make([]int, 2)
	if err := unix.Pipe2(fds, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func startInput(t *testing.T, f *os.File, window int, targets ...int) (*Input, chan frame, chan error, context.CancelFunc) {
	t.Helper()
	frames, done := make(chan frame, 1<<10), make(chan error, 1)
	in := NewInput(InputConfig{File: f, Targets: targets, Window: window, Send: func(data []byte, eof bool) {
		frames <- frame{string(data), eof}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { done <- in.Run(ctx) }()
	return in, frames, done, cancel
}

func TestInputToTheEnd(t *testing.T) {
	r, w := blockingPipe(t)
	_, frames, done, _ := startInput(t, r, 0, 0)
	w.WriteString("a\n")
	if f := <-frames; f != (frame{"a\n", false}) {
		t.Errorf("got %+v", f)
	}
	w.Close()
	if f := <-frames; f != (frame{"", true}) {
		t.Errorf("got %+v", f)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestInputFromAFile(t *testing.T) {
	path := t.TempDir() + "/in"
	os.WriteFile(path, []byte("from a file"), 0o666)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, frames, done, _ := startInput(t, f, 0, 0)
	if f := <-frames; f.data != "from a file" {
		t.Errorf("got %+v", f)
	}
	if f := <-frames; !f.eof {
		t.Errorf("got %+v", f)
	}
	<-done
}

func TestInputFromNull(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, frames, done, _ := startInput(t, f, 0, 0)
	if f := <-frames; !f.eof {
		t.Errorf("got %+v", f)
	}
	<-done
}

// nohup puts a file there that can only be written to: that is the end of the input, and no error to be told.
func TestInputThatIsNone(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, f := range []*os.File{null, writer} {
		var frames []bool
		in := NewInput(InputConfig{File: f, Targets: []int{0}, Send: func(_ []byte, eof bool) { frames = append(frames, eof) }})
		if err := in.Run(t.Context()); err != nil || !slices.Equal(frames, []bool{true}) {
			t.Errorf("%s: %v, frames %v", f.Name(), err, frames)
		}
	}
}

// The slowest target sets the pace; one that has ended does not.
func TestInputWindow(t *testing.T) {
	r, w := blockingPipe(t)
	in, frames, done, _ := startInput(t, r, 4, 0, 1)
	w.WriteString("abcdefghijkl")
	w.Close()
	want := func(data string) {
		t.Helper()
		if f := <-frames; f.data != data {
			t.Fatalf("got %+v, want %q", f, data)
		}
	}
	want("abcd")
	in.Grant(0, 4)
	in.Grant(1, 2)
	want("ef")
	in.Gone(1)
	want("gh") // rank 0 has 2 left
	in.Grant(0, 100)
	want("ijkl")
	in.Grant(0, 4)
	if f := <-frames; !f.eof {
		t.Errorf("got %+v", f)
	}
	<-done
}

// Nothing comes, and yet Run ends: by ctx, or with the last target. What is typed afterwards is
// the shell's.
func TestInputLeavesNoReadBehind(t *testing.T) {
	for _, how := range []string{"ctx", "gone"} {
		t.Run(how, func(t *testing.T) {
			r, w := blockingPipe(t)
			in, _, done, cancel := startInput(t, r, 0, 0)
			if how == "ctx" {
				cancel()
			} else {
				in.Gone(0)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			w.WriteString("for the shell\n")
			if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "for the shell\n" {
				t.Errorf("got %q, %v", line, err)
			}
			flags, err := unix.FcntlInt(r.Fd(), unix.F_GETFL, 0)
			if err != nil || flags&unix.O_NONBLOCK != 0 {
				t.Errorf("flags %#x, %v", flags, err)
			}
		})
	}
}

// A signal that comes while the input is waited for, as Go's own do all the time, leads to no read
// that would block: a socket (pdsh's, and rsh's before it) cannot be made non-blocking here.
func TestInputIsInterrupted(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	s, err := openSource(ours)
	if err != nil {
		t.Fatal(err)
	}
	thread, ended := make(chan int), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		s.serve(make(chan readResult, 1))
	}()
	tid := <-thread
	s.ask <- 1
	for range 20 {
		for !sleeps(t, tid) {
			runtime.Gosched()
		}
		if err := unix.Tgkill(os.Getpid(), tid, unix.SIGURG); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	select {
	case <-ended:
		s.close()
	case <-time.After(time.Minute):
		t.Error("a read blocks")
		theirs.Close()
		<-ended
	}
}

// sleeps says that a thread of ours waits for something (proc_pid_stat(5)).
func sleeps(t *testing.T, tid int) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", tid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasPrefix(string(b[bytes.LastIndexByte(b, ')')+1:]), " S")
}

func TestInputForNobody(t *testing.T) {
	if err := NewInput(InputConfig{}).Run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTargets(t *testing.T) {
	tests := []struct {
		which string
		want  []int
		bad   bool
	}{
		{"", []int{0}, false}, {"0", []int{0}, false}, {"2", []int{2}, false}, {"all", []int{0, 1, 2}, false},
		{"none", nil, false}, {"3", nil, true}, {"-1", nil, true}, {"1x", nil, true}, {"ALL ", nil, true},
	}
	for _, tt := range tests {
		got, err := Targets(tt.which, 3)
		if !reflect.DeepEqual(got, tt.want) || (err != nil) != tt.bad {
			t.Errorf("%q: %v, %v", tt.which, got, err)
		}
	}
}

// inBackground is the launcher: leader of a session on a terminal whose foreground is another
// process group for a while.
func inBackground() int {
	signalFree := exec.Command("sleep", "60")
	signalFree.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := signalFree.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	defer signalFree.Wait()
	defer signalFree.Process.Kill()
	foreground := func(group int) {
		defer blockSignals(unix.SIGTTOU)()
		if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group); err != nil {
			fmt.Println("tcsetpgrp:", err)
		}
	}
	foreground(signalFree.Process.Pid)
	got := make(chan string, 10)
	in := NewInput(InputConfig{File: os.Stdin, Targets: []int{0}, Send: func(data []byte, eof bool) { got <- string(data) }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	fmt.Println("background")
	select {
	case s := <-got:
		fmt.Printf("read %q in the background\n", s)
		return 1
	case <-time.After(3 * background):
	}
	foreground(unix.Getpgrp())
	fmt.Printf("read %q\n", <-got)
	cancel()
	<-done
	return 0
}

func TestInputInBackground(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), backgroundVar+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	master.WriteString("hello\n") // for whoever reads first
	var all strings.Builder
	lines := bufio.NewScanner(master)
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(all.String(), `read "hello\n"`) {
		t.Errorf("%v: %s", err, all.String())
	}
}

func TestRaw(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	pty.Setsize(slave, &pty.Winsize{Rows: 7, Cols: 9})
	before, _ := term.GetState(int(slave.Fd()))
	echo := func() bool {
		tio, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		return err == nil && tio.Lflag&unix.ECHO != 0
	}
	defer func() {
		if recover() == nil {
			t.Error("the panic was lost")
		}
		after, _ := term.GetState(int(slave.Fd()))
		if !reflect.DeepEqual(before, after) {
			t.Error("the terminal was not restored")
		}
	}()
	Raw(slave, func(err error) { t.Error(err) }, func() error {
		rows, columns, err := TerminalSize(slave)
		if err != nil || rows != 7 || columns != 9 {
			t.Errorf("size %dx%d, %v", rows, columns, err)
		}
		if echo() {
			t.Error("not raw")
		}
		panic("way out")
	})
}

// A terminal that cannot be restored is told of, and f's error is what it was.
func TestRawStays(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	var told error
	err = Raw(slave, func(err error) { told = err }, func() error { slave.Close(); return io.ErrUnexpectedEOF })
	if err != io.ErrUnexpectedEOF || told == nil {
		t.Errorf("%v, told %v", err, told)
	}
}

func TestRawOnAFile(t *testing.T) {
	r, _ := blockingPipe(t)
	if err := Raw(r, nil, func() error { return nil }); err == nil {
		t.Error("a pipe went raw")
	}
}
