package reap

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// lesser is a thread of the spawner's, from which processes of another user come (Command.User). None of them can gain what it was not given: by a program
// with the setuid bit or with capabilities of its file (no_new_privs, prctl(2)), or by inheritable or ambient capabilities that the container was
// started with. Whoever has that user's rights may take such a process over (ptrace(2)), and so would gain it, which it may have given up itself. A thread
// cannot take no_new_privs back, so it is not the spawner's own. As that one, it lives as long as its children (PR_SET_PDEATHSIG). It is the
// spawner's alone.
type lesser struct {
	work chan func()   // nil: it was not begun
	over chan struct{} // closed when the thread ends
}

// begin begins the thread, if it was not. An error: what came from it could gain rights, so nothing may.
func (l *lesser) begin(prepare func()) error {
	if l.work != nil {
		return nil
	}
	work, over, begun := make(chan func()), make(chan struct{}), make(chan error)
	go func() {
		defer close(over)
		runtime.LockOSThread() // never unlocked: it ends with the goroutine
		prepare()
		err := giveUpMore()
		if begun <- err; err != nil {
			return
		}
		for f := range work {
			f()
		}
	}()
	if err := <-begun; err != nil {
		<-over
		return err
	}
	l.work, l.over = work, over
	return nil
}

// do calls f on the thread.
func (l *lesser) do(f func()) {
	done := make(chan struct{})
	l.work <- func() { f(); close(done) }
	<-done
}

// end ends the thread, when all its children have ended.
func (l *lesser) end() {
	if l.work != nil {
		close(l.work)
		<-l.over
	}
}

// giveUpMore keeps what the calling thread starts from gaining rights.
func giveUpMore() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("new privileges cannot be forbidden: %w", err)
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // before Linux 4.3 there are none
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("capabilities cannot be read: %w", err)
	}
	for i := range sets {
		sets[i].Inheritable = 0
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("inheritable capabilities cannot be given up: %w", err)
	}
	return nil
}
