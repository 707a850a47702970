package proctree

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Target is a process found in /proc, usually no child of ours, held by a pidfd so that a
// signal can only reach that very process.
type Target struct {
	Stat
	proc Proc
	fd   *os.File // nil on kernels without pidfds
}

// Targets have to be closed.
type Targets []Target

// Aim opens the processes that are still the ones that were seen. pidfds says whether this kernel has any.
func (p Proc) Aim(found []Stat, pidfds bool) Targets {
	var out Targets
	for _, st := range found {
		t := Target{Stat: st, proc: p}
		if pidfds {
			fd, err := unix.PidfdOpen(st.PID, 0)
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
func (t *Target) same() bool {
	now, err := t.proc.Stat(t.PID)
	return err == nil && now.Start == t.Start && now.Alive()
}

// Signal does nothing to a process that has ended.
func (t *Target) Signal(sig unix.Signal) {
	if t.fd == nil {
		if t.same() {
			_ = unix.Kill(t.PID, sig)
		}
		return
	}
	conn, err := t.fd.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
}

// WithPidfd runs f with the pidfd, and says what f does; false where there is none.
func (t *Target) WithPidfd(f func(fd int) bool) (ok bool) {
	if t.fd == nil {
		return false
	}
	conn, err := t.fd.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Control(func(fd uintptr) { ok = f(int(fd)) })
	return err == nil && ok
}

// ended waits until the process has ended, as a zombie or altogether, or ctx is done.
func (t *Target) ended(ctx context.Context) bool {
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
func (t *Target) endedByLooking(ctx context.Context) bool {
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

func (t *Target) close() {
	if t.fd != nil {
		_ = t.fd.Close()
	}
}

// Await waits until all have ended, as zombies or altogether, and says whether they did before ctx.
func (ts Targets) Await(ctx context.Context) bool {
	for i := range ts {
		if !ts[i].ended(ctx) {
			return false
		}
	}
	return true
}

// Signal sends sig to all.
func (ts Targets) Signal(sig unix.Signal) {
	for i := range ts {
		ts[i].Signal(sig)
	}
}

func (ts Targets) Close() {
	for i := range ts {
		ts[i].close()
	}
}
