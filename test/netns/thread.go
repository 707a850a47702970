package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespaces are descriptors that keep namespaces alive; a nil one is not entered.
type namespaces struct {
	net, uts, ipc, mnt, pid *os.File
}

// enter moves the calling thread, which must be locked and is lost for other work, into ns.
// The pid namespace is for the thread's children, as always.
func (ns namespaces) enter() error {
	if ns.mnt != nil {
		// setns(2): a thread that shares its root and directory with others may not.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
	}
	for _, s := range []struct {
		file *os.File
		kind int
	}{
		{ns.net, unix.CLONE_NEWNET}, {ns.uts, unix.CLONE_NEWUTS}, {ns.ipc, unix.CLONE_NEWIPC},
		{ns.pid, unix.CLONE_NEWPID}, {ns.mnt, unix.CLONE_NEWNS},
	} {
		if s.file == nil {
			continue
		}
		if err := unix.Setns(int(s.file.Fd()), s.kind); err != nil {
			return fmt.Errorf("setns %s: %w", s.file.Name(), err)
		}
	}
	return nil
}

func (ns namespaces) close() {
	for _, f := range []*os.File{ns.net, ns.uts, ns.ipc, ns.mnt, ns.pid} {
		if f != nil {
			f.Close()
		}
	}
}

// within runs f on a thread of its own inside ns.
func (ns namespaces) within(f func() error) error {
	return onThread(func() error {
		if err := ns.enter(); err != nil {
			return err
		}
		return f()
	})
}

// onThread runs f on a thread that ends afterwards, so that f may change what belongs to a
// thread: namespaces, capabilities, the bounding set.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// Never the main thread: it cannot end, and /proc/self would show what f did to it.
			// It stays locked here until another thread has done the work.
			done <- onThread(f)
			runtime.UnlockOSThread()
			return
		}
		done <- f() // and no unlock: the thread ends with this goroutine
	}()
	return <-done
}

// openNS opens a namespace of the calling thread.
func openNS(kind string) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/task/%d/ns/%s", unix.Gettid(), kind))
}

// errClosed is the answer of a host whose cluster is closed.
var errClosed = errors.New("the cluster is closed")

// thread is an OS thread that stays. The kernel sends a process its parent-death signal when the thread that forked
// it ends. So a host's PID 1 needs a thread that lives as long as the cluster.
type thread struct {
	calls chan func()
	ended chan struct{}
}

func newThread() *thread {
	t := &thread{calls: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		_ = onThread(func() error {
			for f := range t.calls {
				f()
			}
			return nil
		})
	}()
	return t
}

// do runs f on the thread. The caller sees to it that end is not called meanwhile.
func (t *thread) do(f func() error) error {
	result := make(chan error, 1)
	t.calls <- func() { result <- f() }
	return <-result
}

// end ends the thread, and with it the processes that were forked on it.
func (t *thread) end() {
	close(t.calls)
	<-t.ended
}
