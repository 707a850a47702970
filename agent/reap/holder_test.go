package reap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/pmi/loopback"
	"github.com/mpiup/mpiup/test/need"
)

func (h Holding) String() string { return [...]string{"not held", "held", "hidden"}[h] }

// connectRole opens descriptors and a connection, and holds all until it is hung up on.
func connectRole(args []string) int {
	var many int
	if _, err := fmt.Sscan(args[1], &many); err != nil {
		return 95
	}
	for range many {
		if f, err := os.Open("/dev/null"); err != nil || f == nil {
			return 94
		}
	}
	if len(args) > 2 && args[2] == "hidden" {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return 93
		}
	}
	c, err := net.Dial("tcp4", args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 92
	}
	_, _ = io.Copy(io.Discard, c)
	return 0
}

// desk is a port that the tests' processes connect to.
type desk struct{ net.Listener }

func newDesk(t testing.TB) desk {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return desk{l}
}

// next is whose the next connection is. It is open until the test ends.
func (d desk) next(t testing.TB) loopback.Peer {
	t.Helper()
	if err := d.Listener.(*net.TCPListener).SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	c, err := d.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	p, err := loopback.PeerOf(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// connecting is this binary, connecting to d; script says how the shell makes it ("$@").
func connecting(t testing.TB, d desk, session, script string, args ...string) Command {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if len(args) == 0 {
		args = []string{"30"}
	}
	c := inSession(sh(script, append([]string{exe, d.Addr().String()}, args...)...), session)
	c.Env = append(c.Env, "REAP_TEST_ROLE=connect")
	return c
}

func TestHolderIsAProcessOfTheSession(t *testing.T) {
	d := newDesk(t)
	s := supervise(t)
	for _, tt := range []struct{ name, script string }{
		{"a rank", `exec "$@"`},
		{"its child", `"$@"; exit 0`},
		{"a grandchild in a process session of its own", `sh -c 'setsid "$@"; exit 0' sh "$@"; exit 0`},
		{"a daemon, whose parents have ended", `(setsid "$@" &) ; exit 0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, s, connecting(t, d, "aa", tt.script))
			p := d.next(t)
			pid, h := s.Holder(t.Context(), "aa", nil, p.Inode, p.UID)
			if h != Held {
				t.Error(h)
			}
			has := false
			_ = s.proc.EachSocket(pid, func(_ string, inode uint64) bool {
				has = inode == p.Inode
				return !has
			})
			if !has {
				t.Errorf("process %d does not have the socket", pid)
			}
			for range 2 { // the second time where it was
				if _, h := s.Holder(t.Context(), "aa", r, p.Inode, p.UID); h != Held {
					t.Errorf("likely: %v", h)
				}
			}
			for _, likely := range []*Process{nil, r} {
				if _, h := s.Holder(t.Context(), "bb", likely, p.Inode, p.UID); h != NotHeld {
					t.Errorf("for another session: %v", h)
				}
			}
		})
	}
}

func TestHolderIsAStranger(t *testing.T) {
	d := newDesk(t)
	s := supervise(t)
	start(t, s, inSession(sh("sleep 100"), "aa"))
	pretender := func(session string) Command {
		c := connecting(t, d, "aa", `"$@"; exit 0`)
		c.Session = session
		return c
	}
	for _, tt := range []struct {
		name    string
		connect func()
	}{
		{"this process", func() {
			c, err := net.Dial("tcp4", d.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
		}},
		{"another job's rank with this job's variables", func() { start(t, s, pretender("bb")) }},
		{"a process of no job with this job's variables", func() { start(t, s, pretender("")) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.connect()
			p := d.next(t)
			if _, h := s.Holder(t.Context(), "aa", nil, p.Inode, p.UID); h != NotHeld {
				t.Error(h)
			}
		})
	}
	if _, h := s.Holder(t.Context(), "never heard of", nil, 1, 0); h != NotHeld {
		t.Error(h)
	}
}

// A child runs before it is in the table; who it is shows when its fork is over.
func TestHolderIsBeingForked(t *testing.T) {
	d := newDesk(t)
	s := supervise(t)
	start(t, s, connecting(t, d, "aa", `exec "$@"`))
	p := d.next(t)

	// As it is between clone and the table.
	req := &request{cmd: Command{Session: "aa"}}
	var unborn *Process
	s.mu.Lock()
	for pid, child := range s.table {
		unborn = child
		delete(s.table, pid)
		delete(s.leaders, pid)
	}
	s.mu.Unlock()
	if err := s.beginFork(req); err != nil {
		t.Fatal(err)
	}
	got := make(chan Holding)
	go func() {
		_, h := s.Holder(t.Context(), "aa", nil, p.Inode, p.UID)
		got <- h
	}()
	s.endFork(req, unborn)
	if h := <-got; h != Held {
		t.Error(h)
	}
	if s.awaitFork(t.Context(), "aa") {
		t.Error("there is a fork")
	}
	// One that hangs is waited for no longer than the caller wants.
	if err := s.beginFork(req); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if !s.awaitFork(ctx, "aa") || s.awaitFork(ctx, "bb") {
		t.Error("the wrong fork")
	}
	s.endFork(req, nil)
}

// holdsRole, run as root, lives on as nobody, starts the processes its arguments name, and prints
// what it sees of them.
func holdsRole(kinds []string) int {
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(98)
		}
	}
	must(errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)))
	s, end := roleSupervisor("")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(err)
	var accepted []net.Conn // a collected connection is closed, and what holds the other end goes
	defer func() { runtime.KeepAlive(accepted) }()
	accept := func() loopback.Peer {
		c, err := l.Accept()
		must(err)
		accepted = append(accepted, c)
		p, err := loopback.PeerOf(c)
		must(err)
		return p
	}
	ctx := context.Background()
	for _, kind := range kinds {
		p, err := s.Start(ctx, Command{Argv: []string{"connect", l.Addr().String(), "10", kind}, Path: "/proc/self/exe",
			Env: []string{"REAP_TEST_ROLE=connect", "MPIUP_SESSION=aa"}, Session: "aa"})
		must(err)
		peer := accept()
		_, h := s.Holder(ctx, "aa", nil, peer.Inode, peer.UID)
		fmt.Println(kind, h)
		c, err := net.Dial("tcp4", l.Addr().String())
		must(err)
		_, h = s.Holder(ctx, "aa", nil, accept().Inode, nobody)
		fmt.Println("this process", h)
		_, h = s.Holder(ctx, "aa", nil, 1, nobody+1)
		fmt.Println("another user", h)
		_ = c.Close()
		must(p.Signal(syscall.SIGKILL))
		<-p.Done()
	}
	must(end())
	return 0
}

const nobody = 65534

// A rank that is not dumpable does not show what it has open to its own user: then anyone of that
// user may be it.
func TestHolderIsHidden(t *testing.T) {
	need.Root(t)
	got := output(t, supervise(t), inRole(t, "holds", "plain", "hidden"))
	want := "plain held\nthis process not held\nanother user not held\n" +
		"hidden hidden\nthis process hidden\nanother user not held\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// With hidepid=2, /proc shows a user's own processes only, and of those everything.
func TestHolderUnderHidepid(t *testing.T) {
	need.Root(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, opt := range []string{"hidepid=2", "hidepid=1"} {
		c := inRole(t, "holds")
		c.Argv = []string{"unshare", "-m", "sh", "-c",
			`mount -t proc -o ` + opt + ` proc /proc && grep -q "^proc /proc proc.*hidepid=" /proc/mounts && exec "$0" plain`, exe}
		if got, want := output(t, supervise(t), c), "plain held\nthis process not held\nanother user not held\n"; got != want {
			t.Errorf("%s: got\n%swant\n%s", opt, got, want)
		}
	}
}

// Where /proc is of no use, the user decides.
func TestHolderWithoutProc(t *testing.T) {
	s := New(Config{Log: quiet()})
	s.proc.Root = t.TempDir()
	self := uint32(os.Getuid())
	if _, h := s.Holder(t.Context(), "aa", nil, 1, self); h != Hidden {
		t.Error(h)
	}
	if _, h := s.Holder(t.Context(), "aa", nil, 1, self+1); h != NotHeld {
		t.Error(h)
	}
}

// After a stranger the next look is put off, and comes all the same.
func TestLooksForStrangersArePaced(t *testing.T) {
	s := supervise(t)
	start(t, s, inSession(sh("sleep 100"), "aa"))
	s.holdings("aa")
	if !s.nextLook.IsZero() {
		t.Error("a look that found nobody to be a stranger")
	}
	before := time.Now()
	if _, h := s.Holder(t.Context(), "aa", nil, 1, 0); h != NotHeld {
		t.Error(h)
	}
	if !s.nextLook.After(before) || s.nextLook.After(time.Now().Add(maxRest)) {
		t.Errorf("the next look is at %v, this one was at %v", s.nextLook, before)
	}
	s.nextLook = time.Now().Add(maxRest) // no look is under way
	if s.holdings("aa"); time.Now().Before(s.nextLook) {
		t.Error("a look began too early")
	}
}

func BenchmarkHolder(b *testing.B) {
	d := newDesk(b)
	s := supervise(b)
	var ranks []loopback.Peer
	var first *Process
	for i := range 8 {
		r := start(b, s, connecting(b, d, "aa", `exec "$@"`, "60"))
		if i == 0 {
			first = r
		}
		ranks = append(ranks, d.next(b))
	}
	start(b, s, connecting(b, d, "aa", `"$@"; exit 0`))
	child := d.next(b)
	each := func(name string, peers ...loopback.Peer) {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				p := peers[i%len(peers)]
				s.Holder(b.Context(), "aa", nil, p.Inode, p.UID)
			}
		})
	}
	each("ranks", ranks...)
	each("rank", ranks[0])
	b.Run("rank, likely", func(b *testing.B) {
		for b.Loop() {
			s.Holder(b.Context(), "aa", first, ranks[0].Inode, ranks[0].UID)
		}
	})
	each("child", child)
	start(b, s, connecting(b, d, "aa", `(setsid "$@" &); exit 0`))
	each("daemon", d.next(b))
	each("stranger", loopback.Peer{Inode: 1})
	if n, err := exec.Command("sh", "-c", "ls -d /proc/[0-9]* | wc -l").Output(); err == nil {
		b.Logf("%s processes here", strings.TrimSpace(string(n)))
	}
}
