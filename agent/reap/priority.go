package reap

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// urgent is by how many nice values an agent serves before its ranks, where it may: what it has to do takes microseconds, and ranks that poll
// on all processors would keep it from that for whole turns. It is a preference and no reservation: an agent that has nothing to do takes
// nothing, and no rank is kept from its processor for good (its weight is 1/28 of the agent's: kernel/sched/core.c, sched_prio_to_weight). One
// that was started with a nice value has its ranks at that, and is before those.
const (
	urgent  = 15
	highest = -20
)

// priority is how this process is scheduled beside its children. They get what it had itself when it began: the spawner, whose thread alone
// they come from, never has more (sched(7): a child has its parent's nice value, and a session's processes their session's).
//
//	raise:     all threads of this process, and its autogroup     nice -15, from 0
//	spawner:   its own thread                                     as before, and so each child
//	           before a child that stays in our process session   the autogroup as before, from then on
//
// An autogroup is raised by the leader of its process session only, as the first process of a container is: others share theirs with what is
// not ours.
type priority struct {
	before  int  // nice value of this process when it began
	raised  bool // its threads'
	group   int  // nice value of its autogroup when it began
	grouped bool // it was raised, too
}

// raise gives the threads of this process, and so those that they make, their turn before others', where that is allowed: by CAP_SYS_NICE,
// or by RLIMIT_NICE. A process that somebody has given another policy stays as it is.
func (p *priority) raise() {
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL {
		return
	}
	p.before = int(a.Nice)
	to := max(p.before-urgent, highest)
	if unix.Setpriority(unix.PRIO_PROCESS, 0, to) != nil {
		var most unix.Rlimit // 20 less than the limit is what may be had (getrlimit(2))
		if unix.Getrlimit(unix.RLIMIT_NICE, &most) != nil || most.Cur == 0 {
			return
		}
		if to = max(to, 20-int(min(most.Cur, 40))); to >= p.before || unix.Setpriority(unix.PRIO_PROCESS, 0, to) != nil {
			return
		}
	}
	p.raised = true
	eachThread(func(tid int) { _ = unix.Setpriority(unix.PRIO_PROCESS, tid, to) })
	if session, err := unix.Getsid(0); err != nil || session != os.Getpid() {
		return
	}
	if group, ok := autogroup(); ok && group > to {
		p.group, p.grouped = group, regroup(to)
	}
}

// autogroup is the nice value of this process's autogroup, if it is scheduled by one. In a container it mostly is not: its cgroup is what
// shares processors with others. Where each process session is a group of its own (sched(7)), a nice value tells only within it.
func autogroup() (nice int, ok bool) {
	on, err := os.ReadFile("/proc/sys/kernel/sched_autogroup_enabled")
	if err != nil || strings.TrimSpace(string(on)) != "1" {
		return 0, false
	}
	line, err := os.ReadFile("/proc/self/autogroup") // "/autogroup-10 nice 0"
	if err != nil {
		return 0, false
	}
	_, value, _ := strings.Cut(strings.TrimSpace(string(line)), " nice ")
	nice, err = strconv.Atoi(value)
	return nice, err == nil
}

// regroup sets the nice value of this process's autogroup, and says whether it could.
func regroup(nice int) bool {
	for range 5 { // without CAP_SYS_ADMIN it may be set ten times a second, by all of the machine
		f, err := os.OpenFile("/proc/self/autogroup", os.O_WRONLY, 0)
		if err != nil {
			return false
		}
		_, err = f.WriteString(strconv.Itoa(nice))
		_ = f.Close()
		if !errors.Is(err, unix.EAGAIN) {
			return err == nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// child sees to it that the child that the spawner makes next has what this process had when it began. together: it stays in our process
// session.
func (p *priority) child(together bool) {
	if together && p.grouped {
		p.grouped = !regroup(p.group)
	}
}

// spawner gives the calling thread what this process had when it began.
func (p *priority) spawner() {
	if p.raised {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, p.before)
	}
}

// eachThread calls f with all threads of this process. Those that they make afterwards inherit what f gave them.
func eachThread(f func(tid int)) {
	for range 2 { // a thread that the first pass does not see was made before its end by one that had nothing yet
		threads, _ := os.ReadDir("/proc/self/task") // there is nothing to do without /proc
		for _, thread := range threads {
			if tid, err := strconv.Atoi(thread.Name()); err == nil {
				f(tid)
			}
		}
	}
}
