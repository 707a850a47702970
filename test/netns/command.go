package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Cmd is a command on a host. It is used as its exec.Cmd is; Process.Pid is the pid outside,
// so signals of the test reach the very process. Dir is / and Env a container's unless set.
type Cmd struct {
	*exec.Cmd
	// UID is the user, without a passwd entry and with itself as only group; 0 is root.
	UID int
	// NoCaps takes every capability away for good, with no_new_privs, as a pod of the
	// "restricted" standard has it.
	NoCaps bool

	host *host
	init bool
	err  error // of Command, told at Start

	waited  sync.Once
	waitErr error
}

// Command prepares argv to run on the host; when ctx ends it is killed. An unknown host shows
// at Start.
func (c *Cluster) Command(ctx context.Context, hostName string, argv ...string) *Cmd {
	h, err := c.host(hostName)
	if len(argv) == 0 {
		argv, err = []string{""}, errors.Join(err, errors.New("no command"))
	}
	cmd := &Cmd{Cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), host: h, err: err}
	cmd.Dir = "/"
	return cmd
}

// RunInit prepares argv to be PID 1 of the host, as a container's entrypoint is: at its Start
// the present PID 1 and everything under it is killed. When it has ended the
// host has no PID 1 and takes no commands until [Cluster.Boot] or the next RunInit.
func (c *Cluster) RunInit(ctx context.Context, hostName string, argv ...string) *Cmd {
	cmd := c.Command(ctx, hostName, argv...)
	cmd.init = true
	return cmd
}

// environ is a container's environment.
func (h *host) environ(uid int) []string {
	home := "/root"
	if uid != 0 {
		home = "/" // as container runtimes have it without a passwd entry
	}
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + home, "HOSTNAME=" + h.name, "LANG=C.UTF-8"}
}

// Start starts the command on its host.
func (c *Cmd) Start() error {
	if c.err != nil {
		return c.err
	}
	if c.Env == nil {
		c.Env = c.host.environ(c.UID)
	}
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	start := c.startBeside
	if c.init {
		start = c.startInit
	}
	if err := start(); err != nil {
		return fmt.Errorf("host %s: start %s: %w", c.host.name, c.Path, err)
	}
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	c.host.cmds = append(c.host.cmds, c)
	return nil
}

// Wait waits for a started command. Close does so for those that the test left.
func (c *Cmd) Wait() error {
	err := c.wait()
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	c.host.cmds = slices.DeleteFunc(c.host.cmds, func(o *Cmd) bool { return o == c })
	return err
}

func (c *Cmd) wait() error {
	c.waited.Do(func() { c.waitErr = c.Cmd.Wait() })
	return c.waitErr
}

// startBeside starts the command in the pid namespace of the host's PID 1.
func (c *Cmd) startBeside() error {
	h := c.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errClosed
	}
	in := h.alive()
	if in == nil {
		return errors.New("the host has no PID 1, boot it first")
	}
	if c.UID != 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.UID), Groups: []uint32{}}
	}
	ns := h.ns
	ns.mnt, ns.pid = in.ns.mnt, in.ns.pid
	return onThread(func() error {
		return h.inCgroup(c.Cmd, func() error { // before the host's view of /sys hides it
			if err := ns.enter(); err != nil {
				return err
			}
			if c.NoCaps {
				if err := dropCapabilities(); err != nil {
					return err
				}
			}
			return c.Cmd.Start()
		})
	})
}

// dropCapabilities empties the calling thread's bounding set and sets no_new_privs, so that
// what it executes next has no capability; its own ones, still there, allow a last setuid.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the last capability of this kernel
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}

// startInit starts the command as PID 1. Only a process inside a new pid namespace can mount
// its /proc, so sh does that and becomes the command, with setpriv(1) between them for a user.
func (c *Cmd) startInit() error {
	argv := append([]string{c.Path}, c.Args[1:]...)
	if c.UID != 0 || c.NoCaps {
		priv := []string{"setpriv"}
		if c.UID != 0 {
			id := strconv.Itoa(c.UID)
			priv = append(priv, "--reuid", id, "--regid", id, "--clear-groups")
		}
		if c.NoCaps {
			priv = append(priv, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
		}
		argv = append(priv, append([]string{"--"}, argv...)...)
	}
	// The pipe's end says that /proc is there, lest a command beside it see this machine's.
	fd := 3 + len(c.ExtraFiles)
	if fd > 9 {
		return errors.New("more than 6 extra files for PID 1: sh knows descriptors up to 9")
	}
	mounted, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer mounted.Close()
	script := fmt.Sprintf(`mount -n -t proc -o nosuid,nodev,noexec proc /proc && exec %d>&- && exec "$@"`, fd)
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", script, "sh"}, argv...)
	c.ExtraFiles = append(c.ExtraFiles, w)
	err = c.host.startInit(c.Cmd)
	w.Close()
	if err == nil {
		_, _ = mounted.Read(make([]byte, 1)) // EOF, also when sh failed
	}
	return err
}

// Run starts the command and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output; standard error, if not set, is in
// the error's text.
func (c *Cmd) Output() ([]byte, error) {
	var stdout, stderr bytes.Buffer
	c.Stdout = &stdout
	if c.Stderr == nil {
		c.Stderr = &stderr
	}
	err := c.Run()
	if err != nil && stderr.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns what it wrote to both streams.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}
