package chaos

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/identity"
)

// things are all that a job could leave on a host: processes, files, shared memory, sockets.
func (k *cell) things(host string) map[string]bool {
	found := map[string]bool{}
	init := k.c.Pid(host)
	if init == 0 {
		return found
	}
	proc := fmt.Sprintf("/proc/%d", init)
	all, err := k.c.Processes(host)
	if err != nil {
		return found // it ended meanwhile
	}
	for _, p := range all {
		if p.Argv != "mpiup-guard" {
			found["process "+p.Argv] = true
		}
	}
	for _, top := range []string{"tmp", "run", "dev/shm"} {
		root := filepath.Join(proc, "root", top)
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(path, filepath.Join(proc, "root"))
			switch {
			case err != nil || path == root:
				return nil
			case name == "/tmp/mpiup-0", name == "/tmp/mpiup-0/agent.json":
				return nil // what the agent says of itself
			case name == "/tmp/mpiup-reports-0":
				return fs.SkipDir // what is kept of failed runs, by the launcher
			case name == k.dir || name == world.dir || name == filepath.Dir(world.mpiup):
				return fs.SkipDir
			case strings.HasPrefix(k.dir, name+"/") || strings.HasPrefix(world.dir, name+"/") || strings.HasPrefix(world.mpiup, name+"/"):
				return nil
			}
			found["file "+name] = true
			return nil
		})
	}
	sockets(proc, host != launcherHost, found)
	// The file shows the reader's namespace. A host without PID 1 has none who could read.
	shm, _ := k.c.Command(k.t.Context(), host, "cat", "/proc/sysvipc/shm").Output()
	for i, line := range strings.Split(strings.TrimSpace(string(shm)), "\n") {
		if i > 0 {
			found["System V segment "+line] = true
		}
	}
	return found
}

// Ports of an agent: where it listens, and launchers and other agents may still be connected; its metrics'.
const (
	agentPort = identity.DefaultPort
	httpPort  = 7612
)

// sockets adds a network namespace's listening and connected sockets (proc_pid_net(5)), but those of its agent, which is connected to
// other agents too. A closed connection's last states are the kernel's alone.
func sockets(proc string, agent bool, found map[string]bool) {
	own := func(local, remote string) bool {
		at := func(address string, port int) bool { return strings.HasSuffix(address, fmt.Sprintf(":%04X", port)) }
		return at(local, agentPort) || agent && (at(remote, agentPort) || at(local, httpPort))
	}
	const listening, established = "0A", "01"
	for _, kind := range []string{"tcp", "tcp6"} {
		b, _ := os.ReadFile(filepath.Join(proc, "net", kind))
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 3 && (f[3] == listening || f[3] == established) && !own(f[1], f[2]) {
				found[fmt.Sprintf("socket %s %s %s %s", kind, f[1], f[2], f[3])] = true
			}
		}
	}
	b, _ := os.ReadFile(filepath.Join(proc, "net", "unix"))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 7 && f[0] != "Num" {
			found["socket unix "+f[7]] = true
		}
	}
}

// left waits until a host has nothing that it did not have before.
func (k *cell) left(host string, before map[string]bool) {
	k.t.Helper()
	var more []string
	late := time.After(limit / 4)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		more = more[:0]
		for thing := range k.things(host) {
			if !before[thing] {
				more = append(more, thing)
			}
		}
		if len(more) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			slices.Sort(more)
			k.fault("left on %s:\n%s", host, strings.Join(more, "\n"))
			return
		}
	}
}
