package chaos

import (
	"errors"
	"fmt"
	"sync"
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
