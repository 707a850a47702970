package reap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/program"
)

func TestChildHasDefaultSignalsAndAnEmptyMask(t *testing.T) {
	s := supervise(t)
	// given: a supervisor that was itself started with signals ignored and blocked
	c := inRole(t, "supervisor", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
	c.Argv = append([]string{"env", "--ignore-signal", "--block-signal=TERM,USR1,CHLD,RTMIN"}, c.Argv...)
	got := output(t, s, c)
	want := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChildSeesItsDescriptorsOnly(t *testing.T) {
	s := supervise(t)
	leak, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // no O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	c := sh(`for i in $(seq 0 200); do [ -e /proc/$$/fd/$i ] && printf "%s " $i; done`)
	if got := output(t, s, c); got != "0 1 2 " {
		t.Errorf("descriptors %q, want 0 1 2", got)
	}
	c.Files = []*os.File{w, nil, r}
	if got := output(t, s, c); got != "0 1 2 3 5 " {
		t.Errorf("descriptors %q, want 0 1 2 3 5", got)
	}
	if flags, err := unix.FcntlInt(w.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("a child's pipe is not blocking: %#x %v", flags, err)
	}
}

func TestNothingLeaksInTheSupervisor(t *testing.T) {
	s := supervise(t)
	wait(t, start(t, s, sh("true")))
	before := openDescriptors(t)
	for range 50 {
		wait(t, start(t, s, inSession(sh("true"), "a")))
		_, _ = s.Start(t.Context(), Command{Argv: []string{"/nonexistent"}})
		stopped(t, s, "a", patience)
	}
	until(t, "descriptors are closed", func() bool { return openDescriptors(t) <= before })
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.table)+len(s.leaders)+len(s.known)+len(s.stopping) != 0 {
		t.Errorf("left: table %v, leaders %v, known %v, stopping %v", s.table, s.leaders, s.known, s.stopping)
	}
}

func openDescriptors(t *testing.T) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestChildLeadsItsSessionAndStartsInItsDirectory(t *testing.T) {
	s := supervise(t)
	dir := t.TempDir()
	c := sh(`read -r pid rest </proc/self/stat; set -- $(cut -d' ' -f5,6 /proc/$$/stat); [ $1 = $$ ] && [ $2 = $$ ] && pwd && env -0 | tr '\0' ' '`)
	c.Dir, c.Env = dir, []string{"PATH=/usr/bin:/bin", "X=1"}
	got := output(t, s, c)
	if !strings.HasPrefix(got, dir+"\n") || !strings.Contains(got, "X=1") || strings.Contains(got, "HOME=") {
		t.Errorf("got %q", got)
	}
}

func TestTerminalBecomesTheControllingOne(t *testing.T) {
	s := supervise(t)
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	c := sh("tty; test -t 0 && echo yes >/dev/tty; exec sleep 100")
	c.Files, c.Terminal = []*os.File{slave, slave, slave}, true
	p := start(t, s, c)
	slave.Close()
	var got bytes.Buffer
	buf := make([]byte, 256)
	for !strings.Contains(got.String(), "yes") {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("%q: %v", got.String(), err)
		}
		got.Write(buf[:n])
	}
	if _, err := master.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	wait(t, p)
	if p.Exit().Signal != int(unix.SIGINT) || !strings.Contains(got.String(), "/dev/pts/") {
		t.Errorf("exit %+v after %q", p.Exit(), got.String())
	}
}

func TestInteractiveShellIsEndedByHangup(t *testing.T) {
	s := supervise(t)
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	c := inSession(Command{Argv: []string{"/bin/sh", "-i"}, Files: []*os.File{slave, slave, slave}, Terminal: true}, "a")
	p := start(t, s, c)
	slave.Close()
	if _, err := master.Read(make([]byte, 1)); err != nil { // the prompt
		t.Fatal(err)
	}
	stopped(t, s, "a", patience)
	if p.Exit().Signal == int(unix.SIGKILL) {
		t.Errorf("exit %+v, want an end before the grace is over", p.Exit())
	}
}

func TestAffinityIsSetForTheChildOnly(t *testing.T) {
	s := supervise(t)
	mask, err := maskOfThread(0)
	if err != nil {
		t.Fatal(err)
	}
	show := func(cpus ...int) string {
		c := Command{Argv: []string{"grep", "Cpus_allowed_list", "/proc/self/status"}, Env: []string{"PATH=/bin:/usr/bin"}, CPUs: cpus}
		return strings.TrimSpace(output(t, s, c))
	}
	all := show()
	one := numbers(mask)[len(numbers(mask))-1]
	if got := show(one); got != fmt.Sprintf("Cpus_allowed_list:\t%d", one) {
		t.Errorf("bound to %d: %s", one, got)
	}
	if got := show(); got != all {
		t.Errorf("the next child has %s, want %s", got, all)
	}
	var e *program.Error
	for _, cpus := range [][]int{{8191}, {one, 8191}, {-1}, {maxCPU}} {
		_, err = s.Start(t.Context(), Command{Argv: []string{"/bin/true"}, CPUs: cpus})
		if !errors.As(err, &e) || e.Phase != program.PhaseInit {
			t.Errorf("CPUs %v: %v", cpus, err)
		}
	}
}

// A child takes memory of the node first, as far as this container may say so, and the next one as
// before. Both are what /proc/PID/numa_maps shows of a process's own policy.
func TestMemoryIsPreferredForTheChildOnly(t *testing.T) {
	s := supervise(t)
	node := 0
	show := func(memory *int) string {
		return output(t, s, Command{Argv: []string{"grep", "-c", "prefer", "/proc/self/numa_maps"},
			Env: []string{"PATH=/bin:/usr/bin"}, Memory: memory})
	}
	before := show(nil)
	runtime.LockOSThread()
	back := preferMemory(&node)
	allowed := hasPolicy()
	back()
	runtime.UnlockOSThread()
	if got := show(&node); (got != before) != allowed {
		t.Errorf("with a node %q, without %q; allowed: %v", got, before, allowed)
	}
	if got := show(nil); got != before {
		t.Errorf("the next child has %q, want %q", got, before)
	}
	for _, none := range []int{-1, maxNode} {
		if got := show(&none); got != before {
			t.Errorf("node %d: %q", none, got)
		}
	}
}

// hasPolicy says that the calling thread has a memory policy of its own.
func hasPolicy() bool {
	var mode int32
	_, _, errno := unix.RawSyscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), 0, 0, 0, 0, 0)
	return errno == 0 && mode != unix.MPOL_DEFAULT
}

func TestManySpawnsAtOnce(t *testing.T) {
	s := supervise(t)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { wait(t, start(t, s, sh("exit 0"))) })
	}
	all.Wait()
}

func TestStartIsWithdrawnWithItsContext(t *testing.T) {
	s := New(Config{Log: quiet()}) // not running: nothing takes the request
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Start(ctx, sh("true")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	s.cfg.SpawnDeadline = time.Millisecond
	if _, err := s.Start(t.Context(), sh("true")); err == nil {
		t.Error("started without Run")
	}
}

func TestMalformedCommandsAreRefused(t *testing.T) {
	s := New(Config{Log: quiet()})
	for name, c := range map[string]Command{
		"no program":        {},
		"relative Dir":      {Argv: []string{"true"}, Dir: "x"},
		"session":           {Argv: []string{"true"}, Session: "a b"},
		"no terminal given": {Argv: []string{"true"}, Terminal: true},
	} {
		var e *program.Error
		if _, err := s.Start(t.Context(), c); !errors.As(err, &e) || e.Phase != program.PhaseInit {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkSpawnTrue4InFlight(b *testing.B) {
	for _, size := range []int{0, 1 << 30} {
		b.Run(fmt.Sprintf("memory=%dMiB", size>>20), func(b *testing.B) {
			ballast := make([]byte, size)
			for i := 0; i < len(ballast); i += 4096 {
				ballast[i] = 1
			}
			s := supervise(b)
			b.ResetTimer()
			limit := make(chan struct{}, 4)
			var all sync.WaitGroup
			for range b.N {
				limit <- struct{}{}
				all.Go(func() {
					defer func() { <-limit }()
					p, err := s.Start(b.Context(), Command{Argv: []string{"/bin/true"}})
					if err != nil {
						b.Error(err)
						return
					}
					<-p.Done()
				})
			}
			all.Wait()
			if size > 0 && ballast[0] == 0 {
				b.Fatal()
			}
		})
	}
}

func BenchmarkStopSession(b *testing.B) {
	s := supervise(b)
	for range b.N {
		if _, err := s.Start(b.Context(), inSession(Command{Argv: []string{"/bin/sleep", "100"}}, "a")); err != nil {
			b.Fatal(err)
		}
		s.StopSession("a", unix.SIGTERM, time.Second)
	}
}
