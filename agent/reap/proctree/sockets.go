package proctree

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrTooMany: the process has more open than is looked at.
var ErrTooMany = errors.New("more descriptors than are looked at")

// maxDescriptors bounds the look at one process.
const maxDescriptors = 1 << 14

// EachSocket calls f with the descriptor and inode of every socket that a process has open, until f returns false.
// The names in /proc/PID/fd are read as links ("socket:[12345]", proc_pid_fd(5)) and not followed:
// a file system behind one may not answer. The error is os.ErrPermission where the kernel does not
// show them, and nil for a process that has ended.
func (p Proc) EachSocket(pid int, f func(fd string, inode uint64) bool) error {
	d, err := os.Open(filepath.Join(p.Root, strconv.Itoa(pid), "fd"))
	if err != nil {
		return notGone(err)
	}
	defer func() { _ = d.Close() }()
	var link [64]byte
	for seen := 0; seen < maxDescriptors; {
		names, err := d.Readdirnames(256)
		for _, name := range slices.Backward(names) { // the newest is often the last
			n, err := unix.Readlinkat(int(d.Fd()), name, link[:])
			if err != nil && notGone(err) != nil {
				return err
			}
			if inode, ok := socketLink(link[:max(n, 0)]); ok && !f(name, inode) {
				return nil
			}
		}
		seen += len(names)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return notGone(err)
		}
	}
	return ErrTooMany
}

// ahead is how many descriptors SocketNear looks at.
const ahead = 4

// SocketNear says under which descriptor a process has a socket open, if it is one of a few from a number on. A
// process that makes one connection after the other gets the lowest free descriptor: the last one's, or one of the
// next. ok is false if the socket is under none of them, or does not show.
func (p Proc) SocketNear(pid, from int, inode uint64) (fd int, ok bool) {
	dir := filepath.Join(p.Root, strconv.Itoa(pid), "fd") + "/"
	var link [64]byte
	for fd := from; fd < from+ahead; fd++ {
		n, err := unix.Readlink(dir+strconv.Itoa(fd), link[:])
		if err != nil {
			continue
		}
		if i, is := socketLink(link[:n]); is && i == inode {
			return fd, true
		}
	}
	return 0, false
}

// maxBranch bounds the look at a process's descendants.
const maxBranch = 64

// BranchHolder is the first of a process and its nearest descendants that shows that it has a socket open; 0: none. fd is
// the process's own descriptor of it, 0 where a descendant has it.
func (p Proc) BranchHolder(pid int, inode uint64) (holder, fd int) {
	_ = p.EachOfBranch(pid, func(of int, name string, n uint64) bool { // what does not show, the caller sees to
		if n != inode {
			return true
		}
		holder = of
		if of == pid {
			fd, _ = strconv.Atoi(name)
		}
		return false
	})
	return holder, fd
}

// EachOfBranch is EachSocket of a process and its nearest descendants, of whom each call of f names one. Those that a
// process forked on threads other than its first are not seen, nor any where the kernel lacks
// /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN). The error is the first one.
func (p Proc) EachOfBranch(pid int, f func(of int, name string, inode uint64) bool) (first error) {
	todo := []int{pid}
	for i := 0; i < len(todo) && i < maxBranch; i++ {
		goOn := true
		err := p.EachSocket(todo[i], func(name string, n uint64) bool {
			goOn = f(todo[i], name, n)
			return goOn
		})
		if first == nil {
			first = err
		}
		if !goOn {
			return first
		}
		at := strconv.Itoa(todo[i])
		b, _ := ReadSome(filepath.Join(p.Root, at, "task", at, "children"), 16*maxBranch)
		for _, f := range bytes.Fields(b[:bytes.LastIndexByte(b, ' ')+1]) { // each number ends in a space
			if n, err := strconv.Atoi(string(f)); err == nil && n > 0 {
				todo = append(todo, n)
			}
		}
	}
	return first
}

func notGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// socketLink reads "socket:[12345]".
func socketLink(b []byte) (inode uint64, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte("socket:["))
	if !ok {
		return 0, false
	}
	b, ok = bytes.CutSuffix(b, []byte("]"))
	n, err := strconv.ParseUint(string(b), 10, 64)
	return n, ok && err == nil
}

// UIDs are a process's user ids, real, effective, saved and of the file system: a socket has one of
// them. What cannot be read is this process's own.
func (p Proc) UIDs(pid int) []uint32 {
	b, _ := ReadSome(filepath.Join(p.Root, strconv.Itoa(pid), "status"), 4096)
	ids := IDs(string(b), "Uid:")
	if ids == nil {
		ids = []uint32{uint32(os.Getuid())}
	}
	return ids
}

// IDs are the numbers of a line of /proc/PID/status, "Uid:" or "Gid:"; nil: there is none, or one of them is no id.
func IDs(status, name string) (ids []uint32) {
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		for f := range strings.FieldsSeq(rest) {
			n, err := strconv.ParseUint(f, 10, 32)
			if err != nil || n == math.MaxUint32 {
				return nil
			}
			ids = append(ids, uint32(n))
		}
		break
	}
	return ids
}
