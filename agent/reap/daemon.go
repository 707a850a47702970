package reap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Background puts this program into the background, as ssh -f and sshd do.
//
//	Background ──start──▶ the same program, in a session of its own ──Ready──▶ Background returns
//	                                                               ──end────▶ its exit code
//
// It is called before the process has other goroutines of its own, and keeps no state.
//
// It supervises nothing: the daemon ends by itself.

// readyVariable names the descriptor on which a background process says that it is ready.
const readyVariable = "MPIUP_READY_FD"

// Background starts this program again with argv and env as a daemon: a session of its own, with
// stdin from /dev/null and our other standard streams. It returns once the daemon has called
// Ready, with code 0, or has ended before, with its exit code.
func Background(argv, env []string) (code int, err error) {
	in, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	p, err := os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
		Env:   append(env[:len(env):len(env)], readyVariable+"=3"),
		Files: []*os.File{in, os.Stdout, os.Stderr, w},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	w.Close()
	if err != nil {
		return 0, fmt.Errorf("start %s in the background: %w", argv[0], err)
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err == nil {
		return 0, p.Release()
	}
	state, err := p.Wait()
	if err != nil {
		return 0, err
	}
	if code := state.ExitCode(); code > 0 {
		return code, nil
	}
	return 0, errors.New("the background process ended before it was ready: " + state.String())
}

// Ready is for a process that Background may have started. ready lets that Background return; it
// is nil where there is none. rest is env without what was for this process alone.
func Ready(env []string) (ready func(), rest []string) {
	i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, readyVariable+"=") })
	if i < 0 {
		return nil, env
	}
	rest = slices.Concat(env[:i], env[i+1:])
	fd, err := strconv.Atoi(env[i][len(readyVariable)+1:])
	if err != nil || fd < 3 {
		return nil, rest
	}
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "ready")
	return func() {
		_, _ = f.Write([]byte{1}) // who waited for it may be gone
		f.Close()
	}, rest
}

// Detach closes the standard output and error that this process was given, as a daemon does. Otherwise those who read
// them would wait for its end. What it writes from here on goes where the container's own process writes, the
// container's log, or nowhere.
func Detach() error {
	out, err := os.OpenFile("/proc/1/fd/1", os.O_WRONLY|os.O_APPEND|syscall.O_NOCTTY, 0)
	if err != nil {
		if out, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return err
		}
	}
	defer out.Close()
	for _, fd := range []int{1, 2} {
		if err := unix.Dup3(int(out.Fd()), fd, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	return nil
}
