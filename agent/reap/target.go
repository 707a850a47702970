package reap

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// target is a process found in /proc, usually no child of ours, held by a pidfd so that a
// signal can only reach that very process.
type target struct {
	stat
	proc procfs
	fd   *os.File // nil on kernels without pidfds
}

// aim opens the processes that are still the ones that were seen.
func (s *Supervisor) aim(found []stat) []target { return aim(s.proc, found, !s.noPidfd.Load()) }

func aim(proc procfs, found []stat, pidfds bool) []target {
	var out []target
	for _, st := range found {
		t := target{stat: st, proc: proc}
		if pidfds {
			fd, err := unix.PidfdOpen(st.pid, 0)
			switch err {
			case nil:
				_ = unix.SetNonblock(fd, true)
				t.fd = os.NewFile(uintptr(fd), "pidfd")
			case unix.ESRCH:
				continue
			}
		}
		if !t.same() { // asked after the open: from here on the pidfd holds it
			t.close()
			continue
		}
		out = append(out, t)
	}
	return out
}

// same says whether the number still means the process that was seen, alive.
func (t *target) same() bool {
	now, err := t.proc.stat(t.pid)
	return err == nil && now.start == t.start && now.alive()
}

func (t *target) signal(sig unix.Signal) {
	if t.fd == nil {
		if t.same() {
			_ = unix.Kill(t.pid, sig)
		}
		return
	}
	conn, err := t.fd.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
}

// ended waits until the process has ended, as a zombie or altogether, or ctx is done.
func (t *target) ended(ctx context.Context) bool {
	if t.fd == nil {
		return t.endedByLooking(ctx)
	}
	conn, err := t.fd.SyscallConn()
	if err != nil {
		return true
	}
	stop := context.AfterFunc(ctx, func() { _ = t.fd.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = conn.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return n == 1 && err == nil
	})
	return err == nil
}

// endedByLooking is for kernels before 5.3.
func (t *target) endedByLooking(ctx context.Context) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for t.same() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (t *target) close() {
	if t.fd != nil {
		_ = t.fd.Close()
	}
}

func awaitTargets(ctx context.Context, targets []target) bool {
	for i := range targets {
		if !targets[i].ended(ctx) {
			return false
		}
	}
	return true
}

func closeTargets(targets []target) {
	for i := range targets {
		targets[i].close()
	}
}

func awaitUntil(targets []target, until time.Time) bool {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	return awaitTargets(ctx, targets)
}
