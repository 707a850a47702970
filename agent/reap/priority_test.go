package reap

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// An agent that may takes its turn before its ranks, which have what it had: those with a process session of their own, those without, and
// what they start in turn.
func TestAnUrgentParentsChildrenAreNotUrgent(t *testing.T) {
	before := sliceOf(t, 0)
	group := groupOf(t, os.Getpid())
	s := supervise(t, func(c *Config) { c.Urgent = true })
	defer func() { // the other tests of this process
		eachThread(func(tid int) { _ = unix.Setpriority(unix.PRIO_PROCESS, tid, int(before.Nice)) })
		if s.priority.grouped {
			regroup(s.priority.group)
		}
	}()
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprintf("together %v", together), func(t *testing.T) {
			c := sh("sleep 100 & wait")
			c.SameSession = together
			p := start(t, s, c)
			child := sliceOf(t, p.Pid())
			if child.Nice != before.Nice || child.Policy != before.Policy || child.Runtime == shortSlice {
				t.Errorf("a child of %+v has %+v", before, child)
			}
			want := "nice 0" // a group of its own begins so
			if together {
				want = niceOfGroup(group)
			}
			if g := groupOf(t, p.Pid()); niceOfGroup(g) != want {
				t.Errorf("a child of who was in %q is in %q, want %s", group, g, want)
			}
		})
	}
	if s.priority.raised {
		others := 0 // but for the spawner's
		eachThread(func(tid int) {
			if a, err := unix.SchedGetAttr(tid, 0); err == nil && a.Nice != max(before.Nice-urgent, highest) {
				others++
			}
		})
		if others != 2 { // eachThread goes round twice
			t.Errorf("%d threads of the parent are not urgent", others/2)
		}
	} else if unix.Setpriority(unix.PRIO_PROCESS, 0, int(before.Nice)-1) == nil {
		t.Error("the parent was not raised, and may be")
	}
}

// groupOf is the line of a process's autogroup; "" where there is none.
func groupOf(t *testing.T, pid int) string {
	t.Helper()
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", pid))
	return strings.TrimSpace(string(b))
}

// niceOfGroup is the value in such a line, without the group's number. Who is in no group has what a new one begins with: the parent may be
// in none (it descends from no setsid(2) since the machine's start, or is in a cgroup that schedules), and a child with a process session of
// its own is in one all the same (kernel/sched/autogroup.c, sched_autogroup_create_attach).
func niceOfGroup(line string) string {
	if _, value, ok := strings.Cut(line, " "); ok {
		return value
	}
	return "nice 0"
}
