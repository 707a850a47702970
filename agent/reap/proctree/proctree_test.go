package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

const statLine = `4711 (a) b (c) S 12 34 56 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 998877 1000 20 18446744073709551615 94000 95000 140000 0 0 0 0 0 0 0 0 0 17 3 0 0 7 0 0 96000 97000 98000 1 2 3 4 0
`

func TestStatIsReadFromTheLastParenthesis(t *testing.T) {
	got, err := parse([]byte(statLine))
	want := Stat{PID: 4711, PPID: 12, Group: 34, SID: 56, State: 'S', Start: 998877, image: [2]uint64{94000, 4},
		Name: "a) b (c", Own: 110 * time.Millisecond, CPU: 260 * time.Millisecond, RSS: 20 * uint64(os.Getpagesize()), Faults: 4, ReadBack: 3, Delay: 70 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
	for flags, dying := range map[string]bool{"4194560": false, "4194564": true, "4195584": true} { // PF_EXITING, PF_SIGNALED
		if got, err := parse([]byte(strings.Replace(statLine, " 4194560 ", " "+flags+" ", 1))); err != nil || got.Dying != dying {
			t.Errorf("flags %s: %+v, %v", flags, got, err)
		}
	}
	self, err := Proc{Root: "/proc"}.Stat(os.Getpid())
	if err != nil || self.PID != os.Getpid() || self.PPID != os.Getppid() || self.Start == 0 || self.unsettled {
		t.Errorf("self %+v %v", self, err)
	}
	for _, bad := range []string{"", "1", "1 (x", "1 (x) S 1", strings.Replace(statLine, "998877", "x", 1), strings.Replace(statLine, " 12 ", " -12 ", 1)} {
		if got, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func TestSessionIsFoundInAnEnvironment(t *testing.T) {
	for env, want := range map[string]string{
		"":                                   "",
		"A=1\x00MPIUP_SESSION=ab\x00B=2\x00": "ab",
		"XMPIUP_SESSION=ab\x00":              "",
		"MPIUP_SESSION=ab":                   "ab",
		"MPIUP_SESSION=" + strings.Repeat("x", MaxSession+1): "",
	} {
		if got := sessionOf([]byte(env)); got != want {
			t.Errorf("%q: %q, want %q", env, got, want)
		}
	}
}

// A mark is a session's own, and no limit that anybody else has set.
func TestMarks(t *testing.T) {
	const limits = "Limit                     Soft Limit           Hard Limit           Units     \nMax realtime timeout      5                    5                    us        \nMax file locks            %s             unlimited            locks     \nMax pending signals       95946                95946                signals   \n"
	if a, b := Mark("a"), Mark("b"); a == b || a>>61 != 1 || b>>61 != 1 {
		t.Errorf("marks %x, %x", a, b)
	}
	mark := fmt.Sprint(Mark("a"))
	for soft, want := range map[string]uint64{mark: Mark("a"), "unlimited": 0, "": 0, "x": 0, "18446744073709551615": 0} {
		if got := markOf(fmt.Appendf(nil, limits, soft)); got != want {
			t.Errorf("%q is the mark %x, want %x", soft, got, want)
		}
	}
	if got := (Proc{Root: "/proc"}).Mark(os.Getpid()); got>>61 == 1 {
		t.Errorf("this process has the mark %x", got)
	}
}

func FuzzMarkOf(f *testing.F) {
	f.Add([]byte("Max file locks            unlimited            unlimited            locks     \n"))
	f.Add([]byte("Max file locks            2305843009213693952  unlimited            locks     \n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		if n := markOf(b); n >= 1<<62 {
			t.Errorf("%d", n)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Add([]byte("1 () S"))
	f.Add([]byte("0()\xb0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		s, err := parse(b)
		if err != nil {
			return
		}
		if s.Own < 0 || s.CPU < s.Own || !bytes.Contains(b, []byte(s.Name)) {
			t.Errorf("%+v", s)
		}
		again := fmt.Sprintf("%d (x) %c %d %d %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 %d", s.PID, s.State, s.PPID, s.Group, s.SID, s.Start)
		s.image, s.unsettled, s.Name, s.Own, s.CPU, s.RSS, s.Faults, s.ReadBack, s.Delay, s.Dying = [2]uint64{}, false, "x", 0, 0, 0, 0, 0, 0, false // which a short line does not have
		if got, err := parse([]byte(again)); err != nil || got != s {
			t.Errorf("%q: %+v %v, want %+v", again, got, err, s)
		}
	})
}

func FuzzSessionOf(f *testing.F) {
	f.Add([]byte("A=1\x00MPIUP_SESSION=ab\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		if s := sessionOf(b); len(s) > MaxSession || strings.ContainsRune(s, 0) {
			t.Errorf("%q", s)
		}
	})
}

func TestDescriptorsAreBounded(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/7/fd", 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range maxDescriptors {
		if err := os.Symlink("socket:[5]", fmt.Sprintf("%s/7/fd/%d", root, i)); err != nil {
			t.Fatal(err)
		}
	}
	calls := 0
	err := Proc{Root: root}.EachSocket(7, func(_ string, n uint64) bool { calls++; return n == 5 })
	if !errors.Is(err, ErrTooMany) || calls != maxDescriptors {
		t.Errorf("%d sockets, %v", calls, err)
	}
	if err := (Proc{Root: root}).EachSocket(8, nil); err != nil {
		t.Errorf("of a process that is gone: %v", err)
	}
}

// A socket is found by a few links from where the last one was, and no other process's or descriptor's is taken for it.
func TestSocketNear(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/7/fd", 0o700); err != nil {
		t.Fatal(err)
	}
	for fd, link := range map[int]string{0: "/dev/null", 3: "socket:[30]", 4: "pipe:[40]", 6: "socket:[60]", 9: "socket:[90]"} {
		if err := os.Symlink(link, fmt.Sprintf("%s/7/fd/%d", root, fd)); err != nil {
			t.Fatal(err)
		}
	}
	p := Proc{Root: root}
	for _, c := range []struct {
		pid, from int
		inode     uint64
		fd        int
		ok        bool
	}{{7, 0, 30, 3, true}, {7, 3, 30, 3, true}, {7, 3, 60, 6, true}, {7, 3, 90, 0, false}, {7, 4, 40, 0, false}, {7, 4, 30, 0, false}, {8, 3, 30, 0, false}} {
		if fd, ok := p.SocketNear(c.pid, c.from, c.inode); fd != c.fd || ok != c.ok {
			t.Errorf("socket %d of process %d from %d: %d %v", c.inode, c.pid, c.from, fd, ok)
		}
	}
	if of, fd := p.BranchHolder(7, 90); of != 7 || fd != 9 {
		t.Errorf("by all links: %d of %d", fd, of)
	}
}

func TestSocketLinks(t *testing.T) {
	for link, want := range map[string]uint64{
		"socket:[12345]": 12345, "socket:[]": 0, "socket:[1": 0, "socket:[x]": 0, "pipe:[12]": 0, "/tmp/socket:[3]": 0, "": 0,
		"socket:[99999999999999999999]": 0,
	} {
		if n, ok := socketLink([]byte(link)); n != want && ok || ok != (want != 0) {
			t.Errorf("%q: %d %v", link, n, ok)
		}
	}
}

func TestUidsOfAStatus(t *testing.T) {
	for status, want := range map[string]string{
		"Name:\tUid:\nUmask:\t0022\nUid:\t1000\t0\t1000\t1001\nGid:\t7\n": "[1000 0 1000 1001]",
		"Uid:\t4294967295\n": "[]", "Uid:\tx\n": "[]", "": "[]",
	} {
		if got := fmt.Sprint(IDs(status, "Uid:")); got != want {
			t.Errorf("%q: %s, want %s", status, got, want)
		}
	}
}

func FuzzUidsOf(f *testing.F) {
	f.Add([]byte("Uid:\t1000\t0\t1000\t1001\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		if ids := IDs(string(b), "Uid:"); len(ids) > len(b) {
			t.Error(ids)
		}
	})
}

func TestOwnershipOfProcesses(t *testing.T) {
	proc := Proc{Root: t.TempDir()}
	for pid, session := range map[int]string{13: "b", 14: "foreign", 16: "foreign"} {
		write(t, proc, pid, "environ", "MPIUP_SESSION="+session+"\x00")
	}
	for pid, session := range map[int]string{14: "foreign", 19: "b", 21: "foreign"} {
		write(t, proc, pid, "limits", fmt.Sprintf("Max file locks   %d   unlimited   locks\n", Mark(session)))
	}
	// given: 10 and 20 were started for sessions a and b; 30's number was given anew
	tree := New([]Stat{
		{PID: 1}, {PID: 10, PPID: 1, SID: 10, Start: 5}, {PID: 20, PPID: 1, SID: 20, Start: 6}, {PID: 99, PPID: 1, SID: 99},
		{PID: 11, PPID: 1, SID: 10}, {PID: 12, PPID: 10, SID: 12}, {PID: 13, PPID: 1, SID: 13}, {PID: 14, PPID: 10, SID: 14},
		{PID: 15, PPID: 14, SID: 14}, {PID: 16, PPID: 1, SID: 16}, {PID: 30, PPID: 0, SID: 30, Start: 70},
		{PID: 17, PPID: 18, SID: 17}, {PID: 18, PPID: 17, SID: 17}, {PID: 19, PPID: 1, SID: 19}, {PID: 21, PPID: 1, SID: 21},
	}, Known{Self: 1, Children: map[int]string{10: "a", 20: "b"}, Sessions: map[string]bool{"a": true, "b": true},
		Leaders: map[int]Whose{10: {Session: "a", Start: 5}, 20: {Session: "b", Start: 6}, 30: {Session: "a", Start: 7}},
		Exempt:  map[int]bool{99: true}},
		proc)
	for _, tt := range []struct {
		why     string
		pid     int
		session string
		ours    bool
	}{
		{"in the table", 10, "a", true},
		{"orphan in a's process session", 11, "a", true},
		{"setsid without environment, by its parent", 12, "a", true},
		{"setsid orphan, by its environment", 13, "b", true},
		{"setsid orphan without environment, by its mark", 19, "b", true},
		{"orphan of a nested mpiup's", 21, "", false},
		{"rank of a nested mpiup, by its parent", 14, "a", true},
		{"its child", 15, "a", true},
		{"somebody else's", 16, "", false},
		{"new process with an old number", 30, "", false},
		{"parents in a circle", 17, "", false},
		{"the guard", 99, "", false},
		{"this process", 1, "", false},
	} {
		if o := tree.Owner(tt.pid); o.Session != tt.session || o.Ours != tt.ours {
			t.Errorf("%s: %q %v, want %q %v", tt.why, o.Session, o.Ours, tt.session, tt.ours)
		}
	}
	if tree.Descends(30) || !tree.Descends(15) || tree.Descends(17) {
		t.Error("descent")
	}
}

func write(t *testing.T, proc Proc, pid int, name, text string) {
	t.Helper()
	dir := fmt.Sprintf("%s/%d", proc.Root, pid)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/"+name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestProcOfAnotherNamespaceIsNotUsed(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink("1", root+"/self"); err != nil {
		t.Fatal(err)
	}
	if err := (Proc{Root: root}).Verify(); err == nil || !strings.Contains(err.Error(), "another PID namespace") {
		t.Errorf("got %v", err)
	}
}
