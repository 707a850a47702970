package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoCgroup is the answer of Throttle where no cpu controller can be used.
var ErrNoCgroup = errors.New("no cpu cgroup controller that can be used here")

// Where cpu cgroups are: version 1's own hierarchy, or version 2's only one.
const (
	cgroupV1 = "/sys/fs/cgroup/cpu"
	cgroupV2 = "/sys/fs/cgroup"
)

func cgroupRoots() []string { return []string{cgroupV1, cgroupV2} }

// throttlePeriod in microseconds: short, so that a starved process starves evenly.
const throttlePeriod = 50_000

// Throttle limits the host's processes, present and future, to a part of one core together,
// such as 0.1; 0 lifts the limit.
func (c *Cluster) Throttle(hostName string, cores float64) error {
	return c.on(hostName, func(h *host) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		in := h.alive()
		if in == nil {
			return errors.New("no PID 1 to throttle")
		}
		name := fmt.Sprintf("%s.%d", c.state.name, h.index)
		if err := limitCPU(name, cores); err != nil {
			return err
		}
		h.cgroup = name
		pids, err := inPidNamespaceOf(in.pid)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			err := writeCgroup(name, "cgroup.procs", strconv.Itoa(pid))
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		return nil
	})
}

// inCgroup runs start, which starts cmd, on the calling thread so that the process begins in
// the host's cgroup, if it has one. mu is held.
func (h *host) inCgroup(cmd *exec.Cmd, start func() error) error {
	if h.cgroup == "" {
		return start()
	}
	root, v1 := cgroupRoot()
	if v1 { // a process is born where the thread that forks it is
		if err := writeCgroup(h.cgroup, "tasks", strconv.Itoa(unix.Gettid())); err != nil {
			return err
		}
		return start()
	}
	dir, err := os.Open(filepath.Join(root, h.cgroup))
	if err != nil {
		return err
	}
	defer dir.Close()
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return start()
}

// limitCPU makes the cgroup if need be and sets its quota.
func limitCPU(name string, cores float64) error {
	quota := int(cores * throttlePeriod)
	if quota <= 0 {
		quota = -1
	} else if quota < 1000 {
		quota = 1000 // the kernel's least: 1 ms
	}
	root, v1 := cgroupRoot()
	switch {
	case root == "":
		return ErrNoCgroup
	case v1:
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !os.IsExist(err) {
			return fmt.Errorf("%w: %w", ErrNoCgroup, err)
		}
		return errors.Join(writeCgroup(name, "cpu.cfs_period_us", strconv.Itoa(throttlePeriod)),
			writeCgroup(name, "cpu.cfs_quota_us", strconv.Itoa(quota)))
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
		return fmt.Errorf("%w: %w", ErrNoCgroup, err)
	}
	if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !os.IsExist(err) {
		return fmt.Errorf("%w: %w", ErrNoCgroup, err)
	}
	max := "max"
	if quota > 0 {
		max = strconv.Itoa(quota)
	}
	return writeCgroup(name, "cpu.max", fmt.Sprintf("%s %d", max, throttlePeriod))
}

// cgroupRoot is where cpu cgroups can be made, "" when nowhere.
func cgroupRoot() (root string, v1 bool) {
	if _, err := os.Stat(filepath.Join(cgroupV1, "cpu.shares")); err == nil {
		return cgroupV1, true
	}
	b, err := os.ReadFile(filepath.Join(cgroupV2, "cgroup.controllers"))
	if err == nil && strings.Contains(" "+strings.TrimSpace(string(b))+" ", " cpu ") {
		return cgroupV2, false
	}
	return "", false
}

func writeCgroup(name, file, value string) error {
	root, _ := cgroupRoot()
	return os.WriteFile(filepath.Join(root, name, file), []byte(value), 0)
}

// removeCgroups removes all cgroups of a cluster; its processes are gone by then.
func removeCgroups(cluster string) error {
	root, _ := cgroupRoot()
	if root == "" {
		return nil
	}
	dirs, err := filepath.Glob(filepath.Join(root, cluster+".*"))
	if err != nil {
		return err
	}
	for _, d := range dirs {
		err = errors.Join(err, os.Remove(d))
	}
	return err
}
