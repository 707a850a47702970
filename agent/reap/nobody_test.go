package reap

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
)

// looksAt makes a /proc with one process, a stranger's, and counts how often that was looked at since the last time.
func looksAt(t *testing.T) (root string, looks func() int) {
	root = t.TempDir()
	file := root + "/7/stat"
	line := []byte("7 (x) S 0 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5\n")
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err := errors.Join(err, os.Mkdir(root+"/7", 0o700), os.Symlink(strconv.Itoa(os.Getpid()), root+"/self"), os.WriteFile(file, line, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, file, unix.IN_OPEN|unix.IN_CLOSE_NOWRITE); err != nil { // both: equal events in a row are one
		t.Fatal(err)
	}
	return root, func() int {
		var events [64 * unix.SizeofInotifyEvent]byte
		n, err := unix.Read(fd, events[:])
		if err != nil && err != unix.EAGAIN {
			t.Fatal(err)
		}
		return max(n, 0) / unix.SizeofInotifyEvent / 2
	}
}

// A job that ended by itself is looked for once among the processes of the host while another one runs. A supervisor without a child, or that knows of
// nobody, does not look.
func TestWhoIsOverIsLookedForOnce(t *testing.T) {
	root, looks := looksAt(t)
	s := New(Config{Log: quiet(), Subreaper: true})
	s.proc = proctree.Proc{Root: root}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	other := start(t, s, inSession(sh("exec sleep 100"), "other"))
	wait(t, start(t, s, inSession(sh("exit 0"), "over")))
	looks()
	left := s.StopSession("over", unix.SIGTERM, time.Second)
	if n := looks(); len(left) > 0 || n != 1 {
		t.Errorf("left %v, looked at %d times at the session's end, want once", left, n)
	}
	left = s.StopSession("over", unix.SIGTERM, time.Second) // after a rank's death: first its job is stopped, then the session ends
	if n := looks(); len(left) > 0 || n != 0 {
		t.Errorf("left %v, looked at %d times for a session that is over, want never", left, n)
	}
	if err := other.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, other)
	left = s.StopSession("other", unix.SIGTERM, time.Second)
	if n := looks(); len(left) > 0 || n != 0 {
		t.Errorf("left %v, looked at %d times where there is no child, want never", left, n)
	}
	cancel()
	err := <-done
	if n := looks(); err != nil || n != 0 {
		t.Errorf("%v; looked at %d times at the supervisor's end, want never", err, n)
	}
}

// What descends from a rank that has ended is found by the one look, and ended.
func TestWhatARankLeftIsFoundByTheOneLook(t *testing.T) {
	s := supervise(t)
	file := t.TempDir() + "/pid"
	p := start(t, s, inSession(sh("setsid sh -c 'echo $$ >"+file+"; exec sleep 100' & exit 0"), "leaves"))
	pid := pidIn(t, file)
	wait(t, p)
	if left := s.StopSession("leaves", unix.SIGTERM, 10*time.Second); len(left) > 0 || !ended(pid) {
		t.Errorf("left %v, ended %v", left, ended(pid))
	}
}
