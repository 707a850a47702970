package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/netns"
)

// Five hundred ssh at once, from one container to one host: all run, none is refused or given up, and
// agent and clients need no more memory than is said here. Not beside other tests, which it would
// leave no CPU.
func TestFiveHundredSSH(t *testing.T) {
	n := room(t, 500)
	const (
		patient = 8 * time.Minute // on a machine that is ten times slower than a busy one
		code    = 3
	)
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0"}})
	agent := l.agent(t, "w0", container{})
	quiet := pss(t, agent.Cmd.Process.Pid)
	fifo := filepath.Join(l.folder(t), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	hold, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	loop := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); (ssh -o ConnectTimeout=600 w0 'echo up; read x <%s; exit %d'; echo code $?) & done; wait`, n, fifo, code)
	many := l.command(t, l.outfit(t), "sh", "-c", loop)
	count := func(line string, want int) {
		t.Helper()
		end := time.After(patient)
		for {
			more := many.Stdout.More()
			if strings.Count(many.Stdout.String(), line) >= want {
				return
			}
			select {
			case <-more:
			case <-many.Done:
				if got := strings.Count(many.Stdout.String(), line); got < want {
					t.Fatalf("%d of %d say %q: %.4000s", got, want, line, many.Stderr)
				}
			case <-end:
				t.Fatalf("%d of %d say %q after %v: %.4000s", strings.Count(many.Stdout.String(), line), want, line, patient, many.Stderr)
			}
		}
	}
	count("up\n", n)
	busy, clients, found := pss(t, agent.Cmd.Process.Pid), 0, 0
	for _, pid := range l.matching(t, netns.Launcher, "ssh -o ConnectTimeout=600 w0") {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(exe) == filepath.Base(l.bin) {
			clients, found = clients+pss(t, pid), found+1
		}
	}
	t.Logf("%d open: agent %d kB, %d before; %d clients %d kB", n, busy, quiet, found, clients)
	if found != n || clients > n*10_000 || busy > quiet+n*500 {
		t.Errorf("that is too much, or not all")
	}
	if _, err := hold.WriteString(strings.Repeat("\n", n)); err != nil {
		t.Fatal(err)
	}
	count("code "+strconv.Itoa(code)+"\n", n)
	many.Wait(t)
}

// room is how many of most clients this machine takes: 10 MB of memory each, and 16 threads with their shells'.
func room(t *testing.T, most int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	n := most
	for line := range strings.Lines(string(b)) {
		var kb int
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kb); err == nil {
			n = min(n, kb/10_000)
		}
	}
	for _, file := range []string{"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the other version of cgroups, or none
		}
		if pids, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil { // else "max"
			n = min(n, pids/16)
		}
	}
	if n < most {
		t.Logf("%d of %d, for want of memory or processes", n, most)
	}
	return n
}

// pss is a process's share of memory in kB.
func pss(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "Pss:" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatalf("no Pss of process %d", pid)
	return 0
}
