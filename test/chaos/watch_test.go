package chaos

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// watch notices when the last of some processes has ended, to the millisecond and however they end.
type watch struct {
	over chan struct{} // closed at the last one's end
	at   time.Time     // then
}

// watched begins a watch over all ranks that run now.
func (k *cell) watched() *watch {
	k.t.Helper()
	w := &watch{over: make(chan struct{})}
	var each sync.WaitGroup
	for _, host := range hosts {
		for _, p := range k.ranks(host) {
			fd, err := unix.PidfdOpen(p.Pid, 0)
			if errors.Is(err, unix.ESRCH) {
				continue
			}
			if err != nil {
				k.t.Fatal(err)
			}
			each.Go(func() {
				defer unix.Close(fd)
				for {
					n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
					if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
						return
					}
				}
			})
		}
	}
	go func() {
		each.Wait()
		w.at = time.Now()
		close(w.over)
	}()
	return w
}

// gone waits until no rank runs, for at most a time, and returns how long that took since the fault.
func (k *cell) gone(most time.Duration) (time.Duration, error) {
	select {
	case <-k.watch.over:
		return k.watch.at.Sub(k.begun), nil
	case <-time.After(time.Until(k.begun.Add(most))):
		return 0, fmt.Errorf("ranks still run %v after the fault", most)
	}
}

// meter counts how long this machine kept a process waiting that had something to do each millisecond. What is promised of a fault is promised
// of a machine that has time for it, and this one has other work.
type meter struct {
	sum  atomic.Int64
	stop chan struct{}
	over sync.WaitGroup
}

func newMeter() *meter {
	m := &meter{stop: make(chan struct{})}
	m.over.Go(func() {
		const step = time.Millisecond
		t := time.NewTicker(step)
		defer t.Stop()
		for last := time.Now(); ; {
			select {
			case <-m.stop:
				return
			case <-t.C:
			}
			now := time.Now()
			m.sum.Add(int64(max(now.Sub(last)-step, 0)))
			last = now
		}
	})
	return m
}

func (m *meter) lost() time.Duration { return time.Duration(m.sum.Load()) }

func (m *meter) end() {
	close(m.stop)
	m.over.Wait()
}
