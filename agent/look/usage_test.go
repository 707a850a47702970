package look

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/test/cost"
)

func TestBranches(t *testing.T) {
	all := []proctree.Stat{
		{PID: 1, State: 'S'}, {PID: 10, PPID: 1, SID: 10, State: 'S'}, {PID: 20, PPID: 1, SID: 20, State: 'R'},
		{PID: 11, PPID: 10, SID: 10, State: 'S'}, {PID: 12, PPID: 11, SID: 12, State: 'S'}, // a child, and its child with a session of its own
		{PID: 13, PPID: 1, SID: 10, State: 'S'},  // an orphan
		{PID: 21, PPID: 20, SID: 10, State: 'S'}, // parentage counts before the process session
		{PID: 14, PPID: 10, SID: 10, State: 'Z'}, {PID: 30, PPID: 1, SID: 30, State: 'S'},
		{PID: 41, PPID: 42, State: 'S'}, {PID: 42, PPID: 41, State: 'S'}, // what no kernel says
	}
	if d := cmp.Diff(map[int][]int{10: {10, 11, 12, 13}, 20: {20, 21}}, Branches(all, []int{10, 20, 99})); d != "" {
		t.Error(d)
	}
}

func TestParse(t *testing.T) {
	if n := parseIO([]byte("rchar: 100\nwchar: 23\nsyscr: 7\nread_bytes: 4096\nwrite_bytes: 1000\ncancelled_write_bytes: 5\n")); n != 5219 {
		t.Errorf("%d bytes of I/O", n)
	}
	for text, want := range map[string]string{"running\n": "", "-1 0x7ffe 0x7f12\n": "", "": "", "x": "", "99999 0x0": "syscall 99999"} {
		if got := parseSyscall([]byte(text)); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
	for text, want := range map[string]string{"do_epoll_wait": "do_epoll_wait", "hrtimer_nanosleep.part.0\n": "hrtimer_nanosleep.part.0", "a b": "", "\x1b[2J": ""} {
		if got := symbol([]byte(text)); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// The process that does the work is below wrappers that wait for it, and a program with helpers is itself.
func TestWhoWorks(t *testing.T) {
	s := func(parent int, state byte, own time.Duration) proctree.Stat {
		return proctree.Stat{PPID: parent, State: state, Own: own}
	}
	for _, tt := range []struct {
		name  string
		stats map[int]proctree.Stat
		want  int
	}{
		{"alone", map[int]proctree.Stat{1: s(0, 'S', 5)}, 1},
		{"a shell and a wrapper", map[int]proctree.Stat{1: s(0, 'S', 0), 2: s(1, 'S', 1), 3: s(2, 'R', 9)}, 3},
		{"two children", map[int]proctree.Stat{1: s(0, 'S', 0), 2: s(1, 'R', 1), 3: s(1, 'R', 9)}, 1},
		{"a helper of one that runs", map[int]proctree.Stat{1: s(0, 'R', 0), 2: s(1, 'S', 5)}, 1},
		{"a helper of one that has worked", map[int]proctree.Stat{1: s(0, 'S', 9), 2: s(1, 'S', 1)}, 1},
		{"gone", map[int]proctree.Stat{}, 1},
	} {
		if got := mainOf(1, tt.stats); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A call that was begun again is told by its own name: a rank that sleeps is asleep after a look at its stack, too.
func TestBegunAgain(t *testing.T) {
	for _, tt := range []struct{ call, wchan, want string }{
		{"restart_syscall", "hrtimer_nanosleep", "clock_nanosleep"},
		{"restart_syscall", "do_syscall_64", "clock_nanosleep"}, // Linux 6.18
		{"restart_syscall", "futex_do_wait", "futex"},
		{"restart_syscall", "do_poll.constprop.0", "poll"},
		{"restart_syscall", "", "restart_syscall"},
		{"read", "pipe_read", "read"},
	} {
		if got := begunAgain(tt.call, tt.wchan); got != tt.want {
			t.Errorf("%s in %q: %q, want %q", tt.call, tt.wchan, got, tt.want)
		}
	}
}

// A program that waits for its child's sleep sleeps for a time that it has chosen; one of several children tells nothing.
func TestOnlyChild(t *testing.T) {
	s := func(parent int) proctree.Stat { return proctree.Stat{PPID: parent, State: 'S'} }
	for _, tt := range []struct {
		name  string
		stats map[int]proctree.Stat
		want  int
	}{
		{"none", map[int]proctree.Stat{1: s(0)}, 0},
		{"a shell and its child", map[int]proctree.Stat{1: s(0), 2: s(1), 3: s(2)}, 3},
		{"two", map[int]proctree.Stat{1: s(0), 2: s(1), 3: s(1)}, 0},
		{"two of a child", map[int]proctree.Stat{1: s(0), 2: s(1), 3: s(2), 4: s(2)}, 0},
		{"what no kernel says", map[int]proctree.Stat{1: s(2), 2: s(1)}, 0},
	} {
		if got := onlyChild(1, tt.stats); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	if k := (Kernel{Syscall: "wait4", Child: "clock_nanosleep"}); k.String() != "wait4 for a child in clock_nanosleep" {
		t.Error(k)
	}
}

// A shell that waits for a program that sleeps, on this machine.
func TestLook(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo; sleep 1000; :")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	proc := proctree.Proc{Root: "/proc"}
	defer func() {
		for pid := range Branches(must(proc.Snapshot())(t), []int{cmd.Process.Pid}) {
			for _, p := range Branches(must(proc.Snapshot())(t), []int{pid})[pid] {
				if child, err := os.FindProcess(p); err == nil {
					_ = child.Kill()
				}
			}
		}
		_ = cmd.Wait()
	}()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	var u Usage
	for late := time.Now().Add(30 * time.Second); time.Now().Before(late); {
		list, err := At(proc, []Leader{{PID: cmd.Process.Pid}, {PID: 1 << 30}})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if u = list[cmd.Process.Pid]; u.Name == "sleep" && u.State == 'S' && (u.Kernel != Kernel{}) {
			break
		}
	}
	if u.Main == cmd.Process.Pid || u.Processes != 2 || u.RSS == 0 || u.State != 'S' ||
		!slices.Contains([]string{"clock_nanosleep", "nanosleep", ""}, u.Kernel.Syscall) || u.Kernel == (Kernel{}) {
		t.Errorf("%+v", u)
	}

	// Whoever is in MPI is the rank, whatever it has started; a number of somebody else's is nobody.
	for main, want := range map[int]int{cmd.Process.Pid: cmd.Process.Pid, u.Main: u.Main, os.Getpid(): u.Main} {
		list, err := At(proc, []Leader{{PID: cmd.Process.Pid, Main: main}})
		if got := list[cmd.Process.Pid]; err != nil || got.Main != want || got.Processes != 2 {
			t.Errorf("with %d in MPI: %+v, %v; want %d", main, got, err, want)
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		if err != nil {
			t.Error(err)
		}
		return v
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("rchar: 1\nwchar: 2\n"))
	f.Add([]byte("202 0x1 0x2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, 4*len(b))()
		parseIO(b)
		if name := parseSyscall(b); len(name) > 40 {
			t.Error(name)
		}
		if name := symbol(b); strings.ContainsAny(name, " \x1b\n") {
			t.Errorf("%q", name)
		}
	})
}
