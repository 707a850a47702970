package reap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

func TestEveryExitCodeAndSignalIsReported(t *testing.T) {
	s := supervise(t)
	for code := range 256 {
		p := start(t, s, sh("exit $1", fmt.Sprint(code)))
		wait(t, p)
		if p.Exit() != (job.Exit{Code: code}) {
			t.Errorf("exit %d: got %+v", code, p.Exit())
		}
	}
	for _, sig := range []unix.Signal{1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 31, 34, 64} {
		p := start(t, s, sh("ulimit -c 0; kill -$1 $$; sleep 100", fmt.Sprint(int(sig))))
		wait(t, p)
		if p.Exit() != (job.Exit{Signal: int(sig)}) {
			t.Errorf("signal %d: got %+v", sig, p.Exit())
		}
		if p.Ended().IsZero() {
			t.Error("its end has no time")
		}
	}
}

func TestThousandsOfShortProcessesLoseNoExit(t *testing.T) {
	for _, pidfds := range []bool{true, false} {
		t.Run(fmt.Sprintf("pidfds=%v", pidfds), func(t *testing.T) {
			s := supervise(t)
			s.noPidfd.Store(!pidfds)
			n := 2000
			if testing.Short() || !pidfds {
				n = 300
			}
			var all sync.WaitGroup
			limit := make(chan struct{}, 16)
			for i := range n {
				limit <- struct{}{}
				all.Go(func() {
					defer func() { <-limit }()
					// Every process leaves an orphan that ends by itself.
					p, err := s.Start(t.Context(), sh("(exec true &) ; exit $1", fmt.Sprint(i%256)))
					if err != nil {
						t.Error(err)
						return
					}
					wait(t, p)
					if p.Exit().Code != i%256 || p.Exit().Signal != 0 {
						t.Errorf("%d: %+v", i, p.Exit())
					}
				})
			}
			all.Wait()
			until(t, "no child is left", func() bool { return len(children(t)) == 0 })
		})
	}
}

// children are the processes whose parent this process is, zombies included.
func children(t *testing.T) (pids []int) {
	all, err := proctree.Proc{Root: "/proc"}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.PPID == os.Getpid() {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

func TestKillIsNoticedAtOnce(t *testing.T) {
	s := supervise(t)
	best := time.Hour
	for range 20 {
		p := start(t, s, sh("exec sleep 100"))
		begin := time.Now()
		if err := unix.Kill(p.Pid(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		wait(t, p)
		best = min(best, time.Since(begin))
	}
	t.Logf("kill -9 to Done: best of 20 %v", best)
	if best > 50*time.Millisecond {
		t.Errorf("kill -9 was noticed after %v", best)
	}
}

// From the moment the kernel knows of an end, Over does, whether or not the waiter has run.
func TestOverKnowsAtOnce(t *testing.T) {
	s := supervise(t)
	for range 200 {
		p := start(t, s, sh("exec sleep 100"))
		if p.Over() {
			t.Fatal("over before its end")
		}
		fd, err := unix.PidfdOpen(p.Pid(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(p.Pid(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for err = unix.EINTR; errors.Is(err, unix.EINTR); { // also of Go's own signals, and more of those on a busy machine
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		}
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		if !p.Over() {
			t.Fatal("the kernel knows of the end, and it is not over")
		}
		wait(t, p)
		if p.Exit().Signal != int(unix.SIGKILL) {
			t.Fatalf("%+v", p.Exit())
		}
	}
}

// From the moment others see a process's descriptors closed, Dying knows of its end.
func TestDyingKnowsWhatPeersSee(t *testing.T) {
	s := supervise(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		p := start(t, s, sh("exec sleep 100 >"+fifo))
		peer, err := os.Open(fifo)
		if err != nil {
			t.Fatal(err)
		}
		if p.Dying() {
			t.Fatal("it dies before it is killed")
		}
		if err := unix.Kill(p.Pid(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(peer); err != nil {
			t.Fatal(err)
		}
		if !p.Dying() {
			t.Fatal("its peer sees the end, and it does not die")
		}
		peer.Close()
		wait(t, p)
	}
}

// A process whose first thread has ended lives as long as another one does, and dies with it.
func TestThreadsThatLiveOn(t *testing.T) {
	need.Program(t, "python3", "python3")
	s := supervise(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, s, sh("exec /usr/bin/python3 -c 'import ctypes, threading, time; threading.Thread(target=lambda: time.sleep(100)).start(); ctypes.CDLL(None).pthread_exit(None)' >"+fifo))
	peer, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	lab.Eventually(t, "its first thread has ended", func() bool {
		st, err := s.proc.Stat(p.Pid())
		return err == nil && !st.Alive()
	})
	if p.Dying() {
		t.Error("it dies, and a thread of it sleeps")
	}
	if err := unix.Kill(p.Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(peer); err != nil {
		t.Fatal(err)
	}
	if !p.Dying() {
		t.Error("its peer sees the end, and it does not die")
	}
	wait(t, p)
}

func TestStoppingRunStopsEverything(t *testing.T) {
	dir := t.TempDir()
	s := New(Config{Log: quiet(), Subreaper: true, StopGrace: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stubborn := start(t, s, inSession(sh(`trap "" TERM; setsid sh -c 'echo $$ >`+dir+`/pid; exec sleep 100' & while :; do sleep 100; done`), "a"))
	pid := pidIn(t, filepath.Join(dir, "pid"))
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !gone(stubborn.Pid()) || !ended(pid) {
		t.Error("something survived Run")
	}
	if _, err := s.Start(t.Context(), sh("true")); !errors.Is(err, ErrEnded) {
		t.Errorf("start after the end: %v", err)
	}
}

func TestCoreIsReported(t *testing.T) {
	need.Core(t)
	s := supervise(t)
	c := sh("ulimit -S -c $(ulimit -H -c); kill -QUIT $$; sleep 100")
	c.Dir = t.TempDir()
	p := start(t, s, c)
	wait(t, p)
	if p.Exit() != (job.Exit{Signal: int(unix.SIGQUIT), Core: true}) {
		t.Errorf("got %+v", p.Exit())
	}
}
