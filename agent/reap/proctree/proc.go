package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Proc is /proc, or a copy of it, by its directory.
type Proc struct{ Root string }

// Stat is what /proc/PID/stat tells of one process (proc_pid_stat(5)).
type Stat struct {
	PID, PPID  int
	Group, SID int    // process group and process session
	State      byte   // 'S': sleeping
	Start      uint64 // starttime, clock ticks since boot: with PID, the process and no later one
	Name       string // by the kernel
	Dying      bool   // it is about to end, and may have closed its descriptors

	Own time.Duration // user and system time
	CPU time.Duration // that of children that were waited for included
	RSS uint64        // bytes

	Faults   uint64        // pages that were not there, or not yet, its own
	ReadBack uint64        // those of Faults that came from storage
	Delay    time.Duration // it waited for block devices that have answered; 0 where the kernel does not count that (task_delayacct)

	// image is startcode and env_end, which an exec changes. Both are 0 between fork and the end of
	// exec, and at the exit, when the kernel shows no environment yet or any more; 1 and 0 mean not
	// permitted.
	image [2]uint64
	// unsettled: image was all 0.
	unsettled bool
}

// Alive is false for a zombie.
func (s Stat) Alive() bool { return s.State != 'Z' && s.State != 'X' && s.State != 'x' }

// dying is the flags of a process that ends: PF_EXITING, and PF_SIGNALED, which a fatal signal sets (include/linux/sched.h).
const dying = 0x4 | 0x400

var errStat = errors.New("malformed /proc/PID/stat")

// parse reads the line of /proc/PID/stat. The name (field 2) may hold anything, so fields
// are counted from the last parenthesis.
func parse(b []byte) (Stat, error) {
	var s Stat
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return s, errStat
	}
	var all [statFields][]byte // on the stack: a look parses as many as the host has processes
	f := fields(all[:0], b[end+1:])
	if len(f) < 20 || len(f[0]) != 1 || f[0][0] < 'A' || f[0][0] > 'z' { // a state is a letter
		return s, errStat
	}
	s.State = f[0][0]
	var err error
	number := func(b []byte) int {
		n, e := strconv.Atoi(string(b))
		if e != nil || n < 0 {
			err = errStat
		}
		return n
	}
	used := func(field int) uint64 { // by its number in proc_pid_stat(5); what is no number counts nothing
		n, _ := strconv.ParseUint(string(f[field-3]), 10, 63)
		return n
	}
	s.Dying = used(9)&dying != 0
	s.PID = number(bytes.TrimSpace(b[:open]))
	s.PPID, s.Group, s.SID = number(f[1]), number(f[2]), number(f[3])
	start, e := strconv.ParseUint(string(f[19]), 10, 64)
	if err != nil || e != nil {
		return Stat{}, errStat
	}
	s.Start, s.Name = start, string(b[open+1:end])
	const minflt, majflt, utime, stime, cutime, cstime, rss, blkio = 10, 12, 14, 15, 16, 17, 24, 42
	s.ReadBack = used(majflt)
	s.Faults = used(minflt) + s.ReadBack
	s.Own = ticks(used(utime) + used(stime))
	s.CPU = s.Own + ticks(used(cutime)+used(cstime))
	if len(f) > rss-3 {
		s.RSS = min(used(rss), 1<<44) * pageSize
	}
	if len(f) > blkio-3 {
		s.Delay = ticks(used(blkio))
	}
	if len(f) >= 49 {
		for i, field := range [][]byte{f[23], f[48]} {
			s.image[i], _ = strconv.ParseUint(string(field), 10, 64) // what is no number is no image
		}
		s.unsettled = s.image == [2]uint64{}
	}
	return s, nil
}

// statFields is how many of the fields after the name are looked at: up to env_end, the 51st of all.
const statFields = 49

// fields appends the words of a line to f, up to f's capacity.
func fields(f [][]byte, line []byte) [][]byte {
	for from, i := -1, 0; i <= len(line) && len(f) < cap(f); i++ {
		switch gap := i == len(line) || line[i] == ' ' || line[i] == '\n'; {
		case !gap && from < 0:
			from = i
		case gap && from >= 0:
			f, from = append(f, line[from:i]), -1
		}
	}
	return f
}

var pageSize = uint64(os.Getpagesize())

// ticks is a time in hundredths of a second (USER_HZ).
func ticks(n uint64) time.Duration {
	const most = 1 << 38 // 87 years: twice as much is a Duration too
	return time.Duration(min(n, most)) * (time.Second / 100)
}

// Unsettled says whether a process that was seen was about to become another program, or is now. Its environment may
// have been read in the middle of the exec.
func (p Proc) Unsettled(seen Stat) bool {
	if seen.unsettled {
		return true
	}
	now, err := p.Stat(seen.PID)
	return err == nil && now.Start == seen.Start && (now.unsettled || now.image != seen.image)
}

// Stat looks at one process.
func (p Proc) Stat(pid int) (Stat, error) { return statAt(unix.AT_FDCWD, p.Root+"/", pid) }

// statAt opens dir + PID/stat below the directory at. The kernel gives the line in one read, whose end need not be read too.
func statAt(at int, dir string, pid int) (Stat, error) {
	var room [1024]byte // the line has some 300 bytes
	path := append(strconv.AppendInt(append(room[:0], dir...), int64(pid), 10), "/stat"...)
	fd, err := unix.Openat(at, string(path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Stat{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		n, err := unix.Read(fd, room[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Stat{}, err
		}
		return parse(room[:n])
	}
}

// Snapshot is every process that can be seen; with hidepid those of this uid.
func (p Proc) Snapshot() ([]Stat, error) {
	all, _, err := p.Census()
	return all, err
}

// Census is Snapshot, and says whether it is whole: no process ended between being listed and being looked at, which may
// have left one that was not listed yet.
func (p Proc) Census() (all []Stat, whole bool, err error) {
	d, err := os.Open(p.Root)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, false, err
	}
	at := int(d.Fd())
	all, whole = make([]Stat, 0, len(names)), true
	for _, n := range names {
		if n[0] < '1' || n[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		st, err := statAt(at, "", pid)
		if err != nil { // it is gone
			whole = false
			continue
		}
		all = append(all, st)
	}
	return all, whole, nil
}

// Verify says whether this is the /proc of our own process numbers. It may be absent, or belong to another PID
// namespace, whose numbers nobody here may signal.
func (p Proc) Verify() error {
	self, err := os.Readlink(filepath.Join(p.Root, "self"))
	if err != nil {
		return err
	}
	if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("%s is of another PID namespace: there this process is %q, here %d", p.Root, self, os.Getpid())
	}
	return nil
}

// MaxSession bounds a session's name, in bytes.
const MaxSession = 96

// maxEnviron bounds what is read of a process's environment; the kernel's own bound is a
// quarter of the stack limit.
const maxEnviron = 8 << 20

// Session is the MPIUP_SESSION that a process was started with, "" when it has none or may not
// be read. A program can overwrite its environment's memory; then parentage has to do.
func (p Proc) Session(pid int) string {
	b, err := ReadSome(filepath.Join(p.Root, strconv.Itoa(pid), "environ"), maxEnviron)
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
		if bytes.HasPrefix(kv, []byte(name)) && len(kv) <= len(name)+MaxSession {
			return string(kv[len(name):])
		}
		environ = rest
	}
	return ""
}

// ReadSome reads a small file of /proc with few system calls, up to limit bytes.
func ReadSome(path string, limit int) ([]byte, error) {
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
