package reap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// procfs is /proc, or a copy of it.
type procfs struct{ root string }

// stat is what /proc/PID/stat tells of one process (proc_pid_stat(5)).
type stat struct {
	pid, ppid int
	pgrp, sid int
	state     byte
	start     uint64 // starttime, clock ticks since boot

	// image is startcode and env_end, which an exec changes. Both are 0 between fork and the end of
	// exec, and at the exit, when the kernel shows no environment yet or any more; 1 and 0 mean not
	// permitted.
	image [2]uint64
	// unsettled: image was all 0.
	unsettled bool
}

func (s stat) alive() bool { return s.state != 'Z' && s.state != 'X' && s.state != 'x' }

var errStat = errors.New("malformed /proc/PID/stat")

// parseStat reads the line of /proc/PID/stat. The name (field 2) may hold anything, so fields
// are counted from the last parenthesis.
func parseStat(b []byte) (stat, error) {
	var s stat
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return s, errStat
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 20 || len(f[0]) != 1 || f[0][0] < 'A' || f[0][0] > 'z' { // a state is a letter
		return s, errStat
	}
	s.state = f[0][0]
	var err error
	number := func(b []byte) int {
		n, e := strconv.Atoi(string(b))
		if e != nil || n < 0 {
			err = errStat
		}
		return n
	}
	s.pid = number(bytes.TrimSpace(b[:open]))
	s.ppid, s.pgrp, s.sid = number(f[1]), number(f[2]), number(f[3])
	start, e := strconv.ParseUint(string(f[19]), 10, 64)
	if err != nil || e != nil {
		return stat{}, errStat
	}
	s.start = start
	if len(f) >= 49 {
		for i, field := range [][]byte{f[23], f[48]} {
			s.image[i], _ = strconv.ParseUint(string(field), 10, 64) // what is no number is no image
		}
		s.unsettled = s.image == [2]uint64{}
	}
	return s, nil
}

// changes says whether a process is another program than when it was looked at, or is about to be
// one: its environment may have been asked for in the middle of the exec.
func (p procfs) changes(seen stat) bool {
	now, err := p.stat(seen.pid)
	return err == nil && now.start == seen.start && (now.unsettled || now.image != seen.image)
}

func (p procfs) stat(pid int) (stat, error) {
	b, err := readSome(filepath.Join(p.root, strconv.Itoa(pid), "stat"), 4096)
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// snapshot is every process that can be seen; with hidepid those of this uid.
func (p procfs) snapshot() ([]stat, error) {
	names, err := readNames(p.root)
	if err != nil {
		return nil, err
	}
	all := make([]stat, 0, 64)
	for _, n := range names {
		if n[0] < '1' || n[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if st, err := p.stat(pid); err == nil { // else it is gone
			all = append(all, st)
		}
	}
	return all, nil
}

// verify says whether this is the /proc of our own process numbers: it may be absent, or belong
// to another PID namespace, whose numbers must never be signalled.
func (p procfs) verify() error {
	self, err := os.Readlink(filepath.Join(p.root, "self"))
	if err != nil {
		return err
	}
	if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("%s is of another PID namespace: there this process is %q, here %d", p.root, self, os.Getpid())
	}
	return nil
}

// maxEnviron bounds what is read of a process's environment; the kernel's own bound is a
// quarter of the stack limit.
const maxEnviron = 8 << 20

// session is the MPIUP_SESSION that a process was started with, "" when it has none or may not
// be read. A program can overwrite its environment's memory; then parentage has to do.
func (p procfs) session(pid int) string {
	b, err := readSome(filepath.Join(p.root, strconv.Itoa(pid), "environ"), maxEnviron)
	if err != nil {
		return ""
	}
	return sessionOf(b)
}

// sessionOf finds MPIUP_SESSION among strings that end in NUL.
func sessionOf(environ []byte) string {
	const name = "MPIUP_SESSION="
	for len(environ) > 0 {
		kv, rest, _ := bytes.Cut(environ, []byte{0})
		if bytes.HasPrefix(kv, []byte(name)) && len(kv) <= len(name)+maxSession {
			return string(kv[len(name):])
		}
		environ = rest
	}
	return ""
}

// readSome reads a small file of /proc with few system calls, up to limit bytes.
func readSome(path string, limit int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, 0, 1024)
	for len(buf) < limit {
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, cap(buf))...)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	return d.Readdirnames(-1)
}
