package reap

import (
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// orphans reaps, for a supervisor, descendants that lost their parent and became children of this process. Where the
// kernel has no pidfds it reaps the children of the table as well.
//
// It peeks at an ended child without reaping it. One that the table owns is left to its waiter, which pokes when it
// is done. An unknown one is an orphan, unless a fork is in flight that may be making it. Then the spawner's poke
// decides, after it put its child into the table.
type orphans struct {
	s    *Supervisor
	poke chan struct{} // capacity 1
}

// run reaps until stop is closed, and then once more.
func (o orphans) run(stop <-chan struct{}) {
	chld := make(chan os.Signal, 1)
	signal.Notify(chld, unix.SIGCHLD)
	defer signal.Stop(chld)
	seen := unknown{}
	for {
		o.reapWithoutPidfd()
		for o.s.adopts && o.reapOne(&seen) {
		}
		select {
		case <-chld:
		case <-o.poke:
		case <-stop:
			for o.s.adopts && o.reapOne(&seen) {
			}
			return
		}
	}
}

func (o orphans) wake() { poke(o.poke) }

// poke says that there is something to do, without waiting for who does it.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// unknown is a zombie that was in nobody's table when fork number forks was in flight.
type unknown struct {
	pid   int
	forks uint64
}

// reapOne reaps an orphan; false: there is none, or what comes first is not to be decided now.
func (o orphans) reapOne(seen *unknown) bool {
	s := o.s
	pid, err := peek()
	if err != nil || pid == 0 {
		return false
	}
	s.mu.Lock()
	_, own := s.table[pid]
	own = own || s.watched[pid] > 0 // who waits for it wants to see its exit, and pokes then
	forks, forking := s.forks, s.forking != nil
	s.mu.Unlock()
	if own {
		return false
	}
	// A zombie's number is taken, so no later fork can have made it.
	if forking && (seen.pid != pid || seen.forks == forks) {
		*seen = unknown{pid, forks}
		return false
	}
	*seen = unknown{}
	_, err = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return err == nil
}

func (o orphans) reapWithoutPidfd() {
	s := o.s
	s.mu.Lock()
	var bare []*Process
	for _, p := range s.table {
		if p.pidfd == nil {
			bare = append(bare, p)
		}
	}
	s.mu.Unlock()
	for _, p := range bare {
		p.tryReap()
	}
}

// siginfoChild is siginfo_t as waitid fills it, on 64-bit Linux.
type siginfoChild struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [100]byte
}

// peek is the pid of some ended child, which stays a zombie; 0: no child has ended.
func peek() (int, error) {
	info, err := endOf(unix.P_ALL, 0)
	return int(info.pid), err
}

// endOf is how a child has ended that waitid's kind and id name, which stays a zombie; pid 0: none has.
func endOf(kind, id int) (info siginfoChild, err error) {
	err = unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return info, err
}
