package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// host is one test host: namespaces that live as long as the cluster, and a PID 1 that may
// come and go, each in a pid and a mount namespace of its own.
type host struct {
	cluster *Cluster
	index   int
	name    string
	ns      namespaces // net, uts, ipc, mnt
	forker  *thread    // inside ns, forks every PID 1
	keepers sync.WaitGroup

	mu     sync.Mutex
	number int      // guarded by mu: decides the addresses
	init   *initial // guarded by mu: nil when there is no PID 1
	cmds   []*Cmd   // guarded by mu: started and not waited for
	closed bool     // guarded by mu
	cgroup string   // guarded by mu: name of the cpu cgroup, "" when not throttled
}

// initial is a PID 1 that was started. Who started it waits for it; its pidfd tells when it
// and, because it was PID 1, all of its pid namespace has ended.
type initial struct {
	pid int        // outside
	fd  int        // pidfd
	ns  namespaces // mnt, pid
}

func newHost(c *Cluster, index int, name string) *host {
	return &host{cluster: c, index: index, name: name, number: index + 1}
}

// isolate makes the host's namespaces and its own files in them.
func (h *host) isolate() error {
	h.forker = newThread()
	return h.forker.do(func() error {
		const flags = unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNS | unix.CLONE_FS
		if err := unix.Unshare(flags); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		for kind, f := range map[string]**os.File{"net": &h.ns.net, "uts": &h.ns.uts, "ipc": &h.ns.ipc, "mnt": &h.ns.mnt} {
			var err error
			if *f, err = openNS(kind); err != nil {
				return err
			}
		}
		if err := unix.Sethostname([]byte(h.name)); err != nil {
			return os.NewSyscallError("sethostname", err)
		}
		return h.mount()
	})
}

// mount gives the host, whose thread calls it, files of its own.
func (h *host) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("make mounts private", err)
	}
	shares := append([]string{"/sys/fs/cgroup"}, h.cluster.cfg.Share...)
	trees := make([]int, len(shares))
	for i, dir := range shares { // before they are covered
		fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return &os.PathError{Op: "share", Path: dir, Err: err}
		}
		defer unix.Close(fd)
		trees[i] = fd
	}
	for _, file := range []string{"hosts", "resolv.conf"} {
		if err := bindFile(filepath.Join(h.cluster.state.dir, h.name, file), "/etc/"+file); err != nil {
			return err
		}
	}
	if h.cluster.cfg.ReadOnlyRoot && h.name != Launcher {
		if err := readOnlyRoot(); err != nil {
			return err
		}
	}
	for dir, mode := range map[string]string{"/tmp": "1777", "/run": "755", "/root": "700", "/dev/shm": "1777"} {
		data := "mode=" + mode
		if size := h.cluster.cfg.Scratch; size != "" {
			data += ",size=" + size
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID, data); err != nil {
			return &os.PathError{Op: "mount", Path: dir, Err: err}
		}
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return &os.PathError{Op: "mount", Path: "/sys", Err: err}
	}
	for i, dir := range shares {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "share", Path: dir, Err: err}
		}
	}
	return nil
}

func bindFile(from, to string) error {
	target, err := filepath.EvalSymlinks(to) // resolv.conf often is a link
	if err != nil {
		return err
	}
	if err := unix.Mount(from, target, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind", Path: to, Err: err}
	}
	return nil
}

// readOnlyRoot makes the mount at / read-only; it must be a mount of this namespace alone.
func readOnlyRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return &os.PathError{Op: "make read-only", Path: "/", Err: err}
	}
	return nil
}

// keeper is the PID 1 of a host without one of its own: it reaps what is orphaned to it. sh
// as PID 1 gets no signal from inside that it has no trap for.
const keeper = `mount -n -t proc -o nosuid,nodev,noexec proc /proc || exit
echo ready
exec </dev/null >/dev/null 2>&1
while :; do sleep 100000 & wait; done`

// boot starts the keeper and waits until the host is ready for commands.
func (h *host) boot() error {
	ready, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command("/bin/sh", "-c", keeper)
	cmd.Env = h.environ(0)
	cmd.Stdout, cmd.Stderr = w, w
	err = h.startInit(cmd)
	w.Close()
	if err != nil {
		return err
	}
	h.keepers.Go(func() { _ = cmd.Wait() })
	line := make([]byte, 200)
	if n, _ := ready.Read(line); string(line[:n]) != "ready\n" {
		return fmt.Errorf("boot: %q", line[:n])
	}
	return nil
}

// startInit ends the PID 1 there is, and everything under it, and starts cmd as the new one,
// which the caller waits for.
func (h *host) startInit(cmd *exec.Cmd) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errClosed
	}
	if err := h.endInit(); err != nil {
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.Dir = "/"
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWNS
	cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	cmd.SysProcAttr.Setsid = true
	if err := h.forker.do(func() error { return h.inCgroup(cmd, cmd.Start) }); err != nil {
		return err
	}
	in, err := openInitial(cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("PID 1: %w", err)
	}
	h.init = in
	return nil
}

// openInitial takes hold of a child that nobody has waited for yet, so pid is still its own.
func openInitial(pid int) (*initial, error) {
	in := &initial{pid: pid}
	var err error
	if in.fd, err = unix.PidfdOpen(pid, 0); err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	if in.ns.pid, err = os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil {
		in.ns.mnt, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	}
	if err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

func (in *initial) close() {
	unix.Close(in.fd)
	in.ns.close()
}

// ended says whether it has ended, after waiting for that up to timeout in ms.
func (in *initial) ended(timeout int) (bool, error) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(in.fd), Events: unix.POLLIN}}, timeout)
		if !errors.Is(err, unix.EINTR) {
			return n > 0, os.NewSyscallError("poll", err)
		}
	}
}

// alive is the PID 1 that runs, nil when there is none or it has ended. mu is held.
func (h *host) alive() *initial {
	if h.init != nil {
		if ended, err := h.init.ended(0); err == nil && !ended {
			return h.init
		}
	}
	return nil
}

// endInit kills PID 1, with which the kernel ends all of its pid namespace. mu is held.
func (h *host) endInit() error {
	if h.init == nil {
		return nil
	}
	err := unix.PidfdSendSignal(h.init.fd, unix.SIGKILL, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	for {
		ended, err := h.init.ended(10)
		if err == nil && !ended {
			ended, err = h.init.onlyZombies()
		}
		if err != nil {
			return err
		}
		if ended {
			break
		}
	}
	h.init.close()
	h.init = nil
	return nil
}

// onlyZombies says whether all but PID 1 have ended. A killed PID 1 cannot end before the
// commands beside it were waited for, which is up to the test (pid_namespaces(7)).
func (in *initial) onlyZombies() (bool, error) {
	pids, err := inPidNamespaceOf(in.pid)
	if err != nil {
		return errors.Is(err, os.ErrNotExist), nil
	}
	for _, pid := range pids {
		f, err := statFields(pid)
		if err == nil && f[0] != "Z" && pid != in.pid {
			return false, nil
		}
	}
	return true, nil
}

func (h *host) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	err := h.endInit()
	for _, c := range h.cmds {
		_ = c.wait()
	}
	h.keepers.Wait()
	if h.forker != nil {
		h.forker.end()
	}
	h.ns.close()
	return err
}

// addresses are the host's own, IPv4 first.
func (h *host) addresses() []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return addressesOf(h.cluster.cfg.Family, h.number)
}
