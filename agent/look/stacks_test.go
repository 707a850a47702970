package look

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/agent/trace"
	"github.com/mpiup/mpiup/test/need"
)

// A process of another user than root's is looked into as that user, so that what it makes of a tool is what that user may do.
func TestToolsRunAsTheRanksUser(t *testing.T) {
	need.Root(t)
	const uid, gid = 65533, 65532
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }() // which says that it was killed
	defer func() { _ = cmd.Process.Kill() }()
	l := &taking{proc: proctree.Proc{Root: "/proc"}}
	if as, ours := l.user(cmd.Process.Pid); as == nil || *as != (reap.User{UID: uid, GID: gid}) || ours {
		t.Errorf("as %v, ours %v", as, ours)
	}
	if as, ours := l.user(os.Getpid()); as != nil || !ours {
		t.Errorf("this process: as %v, ours %v", as, ours)
	}
	if as, _ := l.user(1 << 30); as == nil || as.UID == 0 {
		t.Errorf("a process that is not there: as %v", as)
	}
	ran := 0
	Take(t.Context(), StackConfig{Run: func(_ context.Context, argv []string, as *reap.User, _ int) (string, error) {
		if ran++; as == nil || as.UID != uid {
			t.Errorf("%q runs as %v", argv, as)
		}
		return "", nil
	}}, []Target{{PID: cmd.Process.Pid}})
	if l.ptrace(false, true).Refusal() == "" && ran == 0 {
		t.Error("no tool has run")
	}
}

// child is a process of the test's, whose standard error goes to whoever hears, once it has written a line.
func child(t *testing.T, script string) (Target, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	hear := func([]byte) {}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewReader(errs)
		for {
			b, err := lines.ReadBytes('\n')
			mu.Lock()
			hear(b)
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-done
		_ = cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return Target{PID: cmd.Process.Pid, Hear: func(f func([]byte)) func() {
		mu.Lock()
		defer mu.Unlock()
		hear = f
		return func() { mu.Lock(); hear = func([]byte) {}; mu.Unlock() }
	}}, cmd
}

// The best tool that is there is taken, and what is missing is said.
func TestTools(t *testing.T) {
	target, _ := child(t, "echo; exec sleep 1000")
	mayTrace := (&taking{proc: proctree.Proc{Root: "/proc"}}).ptrace(true, false).Refusal() == ""
	for _, tt := range []struct {
		name  string
		tools map[string]string // what each writes
		fails string            // tool that fails
		want  string            // means and innermost frame
		note  string            // part of the notes
	}{
		{"all", map[string]string{"eu-stack": "#0  0x1 nanosleep\n#1  0x2 main\n", "gdb": "#0  f ()\n"}, "", "eu-stack nanosleep", ""},
		{"gdb only", map[string]string{"gdb": "#0  f ()\n"}, "", "gdb f", ""},
		{"one of them fails", map[string]string{"eu-stack": "", "gdb": "#0  f ()\n"}, "eu-stack", "gdb f", "eu-stack tells nothing: it broke"},
		{"a program without symbols", map[string]string{"eu-stack": "#0  0x1\n#1  0x2\n", "gdb": "#0  0x1 in ?? ()\n"}, "", "kernel", ""},
		{"none", nil, "", "kernel", "neither eu-stack (elfutils) nor gdb is on PATH"},
	} {
		if !mayTrace && tt.name != "none" {
			continue
		}
		run := func(_ context.Context, argv []string, _ *reap.User, _ int) (string, error) {
			text, there := tt.tools[argv[0]]
			switch {
			case !there:
				return "", trace.ErrNoProgram
			case argv[0] == tt.fails:
				return text, errors.New("it broke")
			}
			return text, nil
		}
		found, notes := Take(t.Context(), StackConfig{Run: run}, []Target{target, target})
		if len(found) != 2 || len(found[1].Frames) == 0 || !strings.HasPrefix(found[1].Means+" "+found[1].Frames[0], tt.want) {
			t.Errorf("%s: %+v", tt.name, found)
		}
		if got := strings.Join(notes, "; "); mayTrace && (!strings.Contains(got, tt.note) || tt.note == "" && got != "" || len(notes) > 1) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// A tool that was ended is said to have been too slow, and not by the words of whoever ended it.
func TestSilence(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{ended, ended.Err(), " was ended: it took longer than a look may, "},
		{ended, errors.New("signal: killed"), " was ended: it took longer than a look may, "},
		{t.Context(), errors.New("it broke"), " tells nothing: it broke"},
		{t.Context(), nil, " tells nothing"},
	} {
		if got := silence(tt.ctx, tt.err); !strings.HasPrefix(got, tt.want) || strings.Contains(got, "context") || strings.Contains(got, "nil") {
			t.Errorf("%v: %q", tt.err, got)
		}
	}
}

// A program of Python is looked at by both kinds of tools, of which none stops it for the other; by its own lines alone nobody can be named, which is said.
func TestToolsForPython(t *testing.T) {
	need.Program(t, "python3", "python3")
	if (&taking{proc: proctree.Proc{Root: "/proc"}}).ptrace(true, false).Refusal() != "" {
		return // no tool may look into it
	}
	target, _ := child(t, `exec python3 -c 'import time; print(flush=True); time.sleep(1000)'`)
	const native, lines = "#0  0x1 nanosleep\n#1  0x2 _PyEval_EvalFrameDefault\n#2  0x3 Py_BytesMain\n", "Thread 1 (idle): \"MainThread\"\n    load (x.py:4)\n"
	for _, tt := range []struct {
		tools      map[string]string
		want, note string
	}{
		{map[string]string{"eu-stack": native, "py-spy": lines}, "eu-stack and py-spy: nanosleep|load (x.py:4)|Py_BytesMain", ""},
		{map[string]string{"gdb": native, "py-spy": lines}, "gdb and py-spy: nanosleep|load (x.py:4)|Py_BytesMain", ""},
		{map[string]string{"py-spy": lines}, "py-spy: load (x.py:4)", "install elfutils (eu-stack) or gdb so that waits in C and C++ show"},
		{map[string]string{"eu-stack": native}, "eu-stack: nanosleep|Py_BytesMain", "py-spy is not on PATH"},
		{map[string]string{"eu-stack": native, "py-spy": ""}, "eu-stack: nanosleep|Py_BytesMain", "py-spy tells nothing"},
	} {
		run := func(_ context.Context, argv []string, _ *reap.User, _ int) (string, error) {
			text, there := tt.tools[argv[0]]
			if !there {
				return "", trace.ErrNoProgram
			}
			if argv[0] == "py-spy" && !slices.Contains(argv, "--nonblocking") {
				t.Errorf("%q stops the process, which another tool does too", argv)
			}
			return text, nil
		}
		found, notes := Take(t.Context(), StackConfig{Run: run}, []Target{target})
		if got := found[0].Means + ": " + strings.Join(found[0].Frames, "|"); got != tt.want {
			t.Errorf("%v: %s", tt.tools, got)
		}
		if got := strings.Join(notes, "; "); !strings.Contains(got, tt.note) || tt.note == "" && got != "" || len(notes) > 1 {
			t.Errorf("%v: %q", tt.tools, got)
		}
	}
}

// A program is sent the signal if it handles it; sent to any other, it would end it.
func TestSignalEndsNobody(t *testing.T) {
	usr1 := int(unix.SIGUSR1)
	none := func(context.Context, []string, *reap.User, int) (string, error) { return "", trace.ErrNoProgram }
	deaf, cmd := child(t, "echo; exec sleep 1000")
	found, notes := Take(t.Context(), StackConfig{Run: none, Signal: usr1}, []Target{deaf})
	if found[0].Means != "kernel" || !slices.Contains(notes, "ranks that have no handler for SIGUSR1 were not sent it") {
		t.Errorf("%+v %q", found, notes)
	}
	if err := cmd.Process.Signal(unix.Signal(0)); err != nil || catches((&taking{proc: proctree.Proc{Root: "/proc"}}).file(deaf.PID, "status"), usr1) {
		t.Errorf("the program that does not handle it: %v", err)
	}
	const dump = `trap 'printf "Current thread 0x1 (most recent call first):\n  File \"x.py\", line 3 in f\n" >&2' USR1; echo; while :; do sleep 0.05; done`
	able, _ := child(t, dump)
	found, notes = Take(t.Context(), StackConfig{Run: none, Signal: usr1}, []Target{able})
	if found[0].Means != "faulthandler" || !slices.Equal(found[0].Frames, []string{"f (x.py:3)"}) || len(notes) > 0 {
		t.Errorf("%+v %q", found, notes)
	}
	other, _ := child(t, `trap 'echo checkpoint >&2' USR1; echo; while :; do sleep 0.05; done`)
	found, notes = Take(t.Context(), StackConfig{Run: none, Signal: usr1}, []Target{other})
	if found[0].Means != "kernel" || !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "wrote no Python stack") }) {
		t.Errorf("%+v %q", found, notes)
	}
}
