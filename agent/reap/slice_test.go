package reap

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func sliceOf(t *testing.T, tid int) *unix.SchedAttr {
	t.Helper()
	a, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The threads that serve have short slices, and none that runs a child: the spawner's alone is the child's.
func TestSlicesAreShortForTheSupervisorOnly(t *testing.T) {
	before := sliceOf(t, os.Getpid())
	s := supervise(t)
	p := start(t, s, sh("sleep 100"))
	child := sliceOf(t, p.Pid())
	if child.Runtime == shortSlice || child.Nice != before.Nice || child.Policy != before.Policy {
		t.Errorf("a child of %+v has %+v", before, child)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	short, other := 0, 0
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		a, err := unix.SchedGetAttr(tid, 0)
		if err != nil {
			continue // it has ended
		}
		if a.Nice != before.Nice {
			t.Errorf("thread %d has nice %d now, and had %d", tid, a.Nice, before.Nice)
		}
		if a.Runtime == shortSlice {
			short++
		} else {
			other++
		}
	}
	if child.Runtime == 0 { // before Linux 6.12 no thread of the usual policy tells a slice
		if short > 0 {
			t.Errorf("%d threads have short slices on a kernel that has none", short)
		}
		return
	}
	if short == 0 || other > 1 {
		t.Errorf("%d threads have short slices, %d others", short, other)
	}
}
