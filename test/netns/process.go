package netns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is a process on a host.
type Process struct {
	Pid  int    // outside
	Argv string // joined by spaces; [name] when the kernel knows no more, as for a zombie
}

// Boot restarts the host with the keeper as PID 1, ending all that ran there.
func (c *Cluster) Boot(hostName string) error {
	return c.on(hostName, (*host).boot)
}

// Kill ends everything on the host at once, as the end of its pod would; namespaces, address
// and files stay for [Cluster.Boot] or [Cluster.RunInit].
func (c *Cluster) Kill(hostName string) error {
	return c.on(hostName, func(h *host) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.endInit()
	})
}

// Readdress gives the host a new address, as a pod that is made anew gets one, and takes the
// old one away. Names are the test's to change (SetHosts, DNS).
func (c *Cluster) Readdress(hostName string) error {
	return c.on(hostName, func(h *host) error {
		old := h.addresses()
		h.mu.Lock()
		h.number += len(c.hosts)
		h.mu.Unlock()
		lines := ""
		for _, a := range old {
			lines += fmt.Sprintf("addr del %s dev eth0\n", prefixOf(a))
		}
		for _, a := range h.addresses() {
			lines += fmt.Sprintf("addr add %s dev eth0%s\n", prefixOf(a), nodad(a))
		}
		return c.ip(context.Background(), h.ns, lines)
	})
}

// Pid is the pid of the host's PID 1 as seen outside, 0 when it has none.
func (c *Cluster) Pid(hostName string) int {
	h, err := c.host(hostName)
	if err != nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.alive()
	if in == nil {
		return 0
	}
	return in.pid
}

// Processes are all processes on the host but its PID 1 and the keeper's own.
func (c *Cluster) Processes(hostName string) ([]Process, error) {
	init := c.Pid(hostName)
	if init == 0 {
		return nil, fmt.Errorf("host %s has no PID 1", hostName)
	}
	pids, err := inPidNamespaceOf(init)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", hostName, err)
	}
	var out []Process
	for _, pid := range pids {
		argv := commandLine(pid)
		if pid != init && argv != "sleep 100000" {
			out = append(out, Process{Pid: pid, Argv: argv})
		}
	}
	return out, nil
}

// Pause stops every process on the host (SIGSTOP); Resume lets them go on. To stop one process
// signal it.
func (c *Cluster) Pause(hostName string) error { return c.signalAll(hostName, unix.SIGSTOP) }

// Resume ends a Pause.
func (c *Cluster) Resume(hostName string) error { return c.signalAll(hostName, unix.SIGCONT) }

func (c *Cluster) signalAll(hostName string, sig unix.Signal) error {
	init := c.Pid(hostName)
	if init == 0 {
		return fmt.Errorf("host %s has no PID 1", hostName)
	}
	// Twice, as a process not yet stopped may have forked while the first round was on.
	for range 2 {
		pids, err := inPidNamespaceOf(init)
		if err != nil {
			return fmt.Errorf("host %s: %w", hostName, err)
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("host %s: signal pid %d: %w", hostName, pid, err)
			}
		}
	}
	return nil
}

// inPidNamespaceOf are the processes, zombies too, in the pid namespace of a process.
func inPidNamespaceOf(pid int) ([]int, error) {
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return nil, err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, d := range dirs {
		ns, err := os.Readlink(d + "/ns/pid")
		if err != nil || ns != want {
			continue
		}
		p, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			return nil, err
		}
		pids = append(pids, p)
	}
	return pids, nil
}

func commandLine(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && len(b) > 0 {
		return strings.ReplaceAll(strings.TrimRight(string(b), "\x00"), "\x00", " ")
	}
	b, err = os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return "[gone]"
	}
	return "[" + strings.TrimSpace(string(b)) + "]"
}

// on calls f for a host and names it in the error.
func (c *Cluster) on(hostName string, f func(*host) error) error {
	h, err := c.host(hostName)
	if err != nil {
		return err
	}
	if err := f(h); err != nil {
		return fmt.Errorf("host %s: %w", hostName, err)
	}
	return nil
}
