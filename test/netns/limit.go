package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Where version 1 has its hierarchies of memory and of numbers of processes. Version 2's is not used: a test that needs
// a limit of memory there has the kernel's files as text.
const (
	memoryCgroups = "/sys/fs/cgroup/memory"
	pidsCgroups   = "/sys/fs/cgroup/pids"
)

func limitRoots() []string { return []string{memoryCgroups, pidsCgroups} }

// LimitMemory limits the host's processes and their future children to so many bytes together; undo lifts the limit.
func (c *Cluster) LimitMemory(hostName string, bytes int64) (undo func() error, err error) {
	return c.limit(hostName, memoryCgroups, "memory.limit_in_bytes", bytes)
}

// LimitProcesses limits the host to so many more processes and threads than it has; undo lifts the limit.
func (c *Cluster) LimitProcesses(hostName string, more int64) (undo func() error, err error) {
	undo, err = c.limit(hostName, pidsCgroups, "pids.max", 1<<20)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(pidsCgroups, c.cgroupName(hostName))
	b, err := os.ReadFile(filepath.Join(dir, "pids.current"))
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	now, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.FormatInt(now+more, 10)), 0)
	}
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

func (c *Cluster) cgroupName(hostName string) string {
	h, err := c.host(hostName)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s.%d", c.state.name, h.index)
}

// limit puts the host's processes into a cgroup of their own and writes the limit. undo sets it to "no limit": the cgroup
// itself goes with the cluster.
func (c *Cluster) limit(hostName, root, file string, value int64) (undo func() error, err error) {
	init := c.Pid(hostName)
	if init == 0 {
		return nil, fmt.Errorf("host %s has no PID 1", hostName)
	}
	dir := filepath.Join(root, c.cgroupName(hostName))
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return nil, err
	}
	set := func(value int64) error {
		text := strconv.FormatInt(value, 10)
		if value < 0 && root == pidsCgroups {
			text = "max"
		}
		return os.WriteFile(filepath.Join(dir, file), []byte(text), 0)
	}
	pids, err := inPidNamespaceOf(init)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", hostName, err)
	}
	for _, pid := range pids {
		err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, err
		}
	}
	if err := set(value); err != nil {
		return nil, err
	}
	return func() error { return set(-1) }, nil
}

// removeLimits removes the cgroups of a cluster, whose processes are gone by then.
func removeLimits(cluster string) (err error) {
	for _, root := range limitRoots() {
		dirs, _ := filepath.Glob(filepath.Join(root, cluster+".*")) // the pattern is well formed
		for _, d := range dirs {
			err = errors.Join(err, os.Remove(d))
		}
	}
	return err
}
