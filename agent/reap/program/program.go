// Package program says whether a program can be started here, and why not.
//
//	name, directory, PATH ──Find──▶ file: found, regular, executable; its interpreters touched
//	errno of an exec ──Explain──▶ Error: what is wrong with which file, what to do
//	first 4 KiB ──▶ image: script, ELF of an architecture, empty, unknown; interpreter or loader
//
// Every look may meet a file system that does not answer. Find therefore looks in goroutines of its own, at most
// maxLooks, and gives up after a while; Explain is for who has just tried the same files. A Finder may be used by
// several goroutines.
//
// It starts nothing. The kernel has the last word: binfmt_misc may run what looks foreign.
package program

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Phase is the part of a start that failed; the protocol's StartPhase has the same values.
type Phase int

const (
	PhaseExec    Phase = iota // the program: not found, not executable, wrong architecture
	PhaseDir                  // the working directory
	PhaseInit                 // descriptors, terminal, affinity, the fork itself
	PhaseTimeout              // the file system did not answer
)

// Error says why a process could not be started: what, and what to do. It names neither
// host nor rank, which the caller knows.
type Error struct {
	Phase Phase
	Path  string        // the program or directory
	Errno syscall.Errno // 0 when no system call failed
	Cause string        // "" means Errno's text
	Hint  string        // what to do next

	NoProgram bool // the file is a program for no processor at all
	Text      bool // besides, it is text, which a shell may run
}

func (e *Error) Error() string {
	text := cmp.Or(e.Cause, e.Errno.Error())
	if e.Path != "" {
		text = e.Path + ": " + text
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// lookPath finds prog as execvp(3) does, for a process whose directory is dir. It takes prog as it stands if that
// holds a slash, else the first executable file of that name in pathEnv. Empty elements of pathEnv mean dir. The
// result is absolute when dir is. It says before each directory of pathEnv which it is.
func lookPath(prog, dir, pathEnv string, asks func(entry string)) (string, error) {
	if prog == "" {
		return "", &Error{Phase: PhaseExec, Errno: syscall.ENOENT, Cause: "no program is named"}
	}
	if strings.Contains(prog, "/") {
		return under(dir, prog), nil
	}
	var denied string
	for _, d := range filepath.SplitList(pathEnv) {
		if d == "" {
			d = "."
		}
		file := under(dir, filepath.Join(d, prog))
		asks(filepath.Dir(file))
		st, err := os.Stat(file)
		if err != nil || st.IsDir() {
			continue
		}
		if executable(file) == nil {
			return file, nil
		}
		denied = file
	}
	if denied != "" {
		return "", checkAccess(denied)
	}
	return "", notFound(prog, dir, pathEnv)
}

// alsoDir ends a search path whose last place is the working directory.
const alsoDir = ":."

// SearchPath is where Finder.Find looks a program up: first in look, then on path, and last in its working directory,
// if dir says so.
func SearchPath(look, path string, dir bool) string {
	if look != "" {
		path = look + ":" + path
	}
	if dir {
		path += alsoDir
	}
	return path
}

func notFound(prog, dir, pathEnv string) *Error {
	path, also := strings.CutSuffix(pathEnv, alsoDir)
	e := &Error{Phase: PhaseExec, Path: prog, Errno: syscall.ENOENT, Cause: "program not found on PATH (" + shortPath(path) + ")",
		Hint: "check the image and the spelling, or give its full path"}
	if also {
		e.Cause += " or in " + dir
	} else if here := under(dir, prog); checkAccess(here) == nil {
		e.Hint = "the working directory has it: write ./" + prog
	}
	return e
}

// shortPath is a PATH for a sentence: its first elements, and how many more there are.
func shortPath(pathEnv string) string {
	const most = 100
	if len(pathEnv) <= most {
		return pathEnv
	}
	dirs := filepath.SplitList(pathEnv)
	n, length := 0, 0
	for n < len(dirs) && (length+len(dirs[n]) < most-20) {
		length += len(dirs[n]) + 1
		n++
	}
	return fmt.Sprintf("%s and %d more directories", strings.Join(dirs[:n], ":"), len(dirs)-n)
}

func under(dir, path string) string {
	if filepath.IsAbs(path) || dir == "" {
		return path
	}
	return filepath.Join(dir, path)
}

func executable(path string) error {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}

// TimedOut is the error of a file system that did not answer within d.
func TimedOut(path string, d time.Duration) *Error {
	return &Error{
		Phase: PhaseTimeout,
		Path:  path,
		Errno: syscall.ETIMEDOUT,
		Cause: fmt.Sprintf("the file system did not answer within %v", d.Round(time.Millisecond)),
		Hint:  "check the mount (a dead NFS, Lustre or FUSE server?)",
	}
}

const notExecutable = "not executable"

// checkAccess reports what makes an exec fail for sure.
func checkAccess(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return execError(path, Errno(err))
	}
	if st.IsDir() {
		return &Error{Phase: PhaseExec, Path: path, Errno: syscall.EACCES, Cause: "is a directory", Hint: "name the program inside it"}
	}
	if !st.Mode().IsRegular() {
		return &Error{Phase: PhaseExec, Path: path, Errno: syscall.EACCES, Cause: "is not a regular file"}
	}
	if err := executable(path); err != nil {
		e := execError(path, Errno(err))
		if e.Errno == syscall.EACCES {
			e.Cause, e.Hint = notExecutable, "set its x bit (chmod +x)"
			if st.Mode().Perm()&0o111 != 0 {
				e.Hint = fmt.Sprintf("its mode is %v: check its owner, the directories above it, and whether the volume is mounted noexec", st.Mode().Perm())
			}
		}
		return e
	}
	return nil
}

// maxInterpreters is how many interpreters Linux follows, one of another (BINPRM rewrites).
const maxInterpreters = 5

// Image reports what the first bytes of a program, and of the interpreters that they name, make likely to fail: an *Error, or nil. head
// reads them, or says that a file is not there (fs.ErrNotExist) or may not be executed (fs.ErrPermission). What else cannot be read is
// nothing against it. binfmt_misc may run what looks foreign, so who can try an exec asks after that has failed.
func Image(path string, head func(path string) ([]byte, error)) error {
	var by image
	whose := "its"
	for n, file := 0, path; n <= maxInterpreters; n++ {
		b, err := head(file)
		switch {
		case n > 0 && errors.Is(err, fs.ErrNotExist):
			return missing(path, whose, by)
		case n > 0 && errors.Is(err, fs.ErrPermission):
			return &Error{
				Phase: PhaseExec,
				Path:  path,
				Errno: syscall.EACCES,
				Cause: fmt.Sprintf("%s %s may not be executed", whose, by.interpreter()),
				Hint:  "set its x bit (chmod +x)",
			}
		case err != nil:
			return nil // may be executed, may not be read
		}
		img := readImage(b)
		if cause, hint := img.unfit(n > 0); cause != "" {
			if n > 0 {
				cause = whose + " " + by.interpreter() + " " + cause
			}
			return &Error{Phase: PhaseExec, Path: path, Errno: syscall.ENOEXEC, Cause: cause, Hint: hint,
				NoProgram: img.kind != imageELF, Text: n == 0 && img.kind == imageUnknown && isText(b)}
		}
		if img.interp == "" {
			return nil
		}
		if n > 0 {
			whose = file + "'s"
		}
		by, file = img, img.interp
	}
	return nil
}

// isText says that a file may be a script of a shell: its beginning has no zero byte.
func isText(head []byte) bool { return bytes.IndexByte(head, 0) < 0 }

// interpreter is what a file names to run it.
func (img image) interpreter() string {
	if img.kind == imageELF {
		return "loader " + img.interp
	}
	return fmt.Sprintf("interpreter %q", img.interp)
}

// unfit is why the kernel runs no such file, and what to do; "": it may. A loader or interpreter was not written by who runs the program.
func (img image) unfit(named bool) (cause, hint string) {
	switch {
	case img.kind == imageEmpty:
		return "is an empty file", "check how it got into the image or onto the volume"
	case img.kind == imageUnknown && named:
		return "is neither a program (ELF) nor a script with a #! line", "install it anew in the image"
	case img.kind == imageUnknown:
		return "is neither a program (ELF) nor a script with a #! line", "if it is a shell script, make #!/bin/sh its first line"
	case img.kind == imageELF && foreign(img.arch):
		return "is built for " + img.arch + ", this host is " + runtime.GOARCH, "use an image for " + runtime.GOARCH + " or a node selector for " + img.arch
	}
	return "", ""
}

// missing is the error of a file whose interpreter is not there.
func missing(path, whose string, img image) *Error {
	e := &Error{
		Phase: PhaseExec,
		Path:  path,
		Errno: syscall.ENOENT,
		Cause: fmt.Sprintf("%s %s is missing", whose, img.interpreter()),
		Hint:  "install it in the image, or correct the #! line",
	}
	switch {
	case strings.HasSuffix(img.interp, "\r"):
		e.Hint = "the file has Windows line endings: convert it with dos2unix"
	case img.kind == imageELF:
		e.Hint = "the program was linked for another C library than the image has (glibc or musl), or the image has none"
	}
	return e
}

// here reads what may be executed here. What may be executed and not read is no error of its own.
func here(path string) ([]byte, error) {
	if err := executable(path); err != nil {
		return nil, err
	}
	head, err := readHead(path)
	if err != nil {
		err = errUnread
	}
	return head, err
}

var errUnread = errors.New("it cannot be read")

func readHead(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, HeadBytes)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// checkDir reports a working directory that cannot be entered.
func checkDir(dir string) error {
	st, err := os.Stat(dir)
	if err == nil && !st.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		err = executable(dir)
	}
	if err == nil {
		return nil
	}
	e := &Error{Phase: PhaseDir, Path: dir, Errno: Errno(err), Hint: "create it on this host, mount it, or give another working directory"}
	if e.Errno == syscall.ENOENT {
		e.Cause = "the working directory does not exist"
	}
	return e
}

// execError gives an exec's errno its sentence.
func execError(path string, errno syscall.Errno) *Error {
	e := &Error{Phase: PhaseExec, Path: path, Errno: errno}
	switch errno {
	case syscall.ENOENT:
		e.Cause, e.Hint = "program not found", "check the image, the mount and the spelling"
	case syscall.EACCES:
		e.Hint = "check its mode, its owner and the directories above it"
	case syscall.E2BIG:
		e.Cause, e.Hint = "its arguments and environment are too long for the kernel", "pass less with -x, or raise the stack limit of the container"
	case syscall.ETXTBSY:
		e.Cause, e.Hint = "is open for writing", "wait until it is copied"
	case syscall.EAGAIN:
		e.Phase, e.Path, e.Cause = PhaseInit, "", "the limit of processes is reached"
		e.Hint = "raise RLIMIT_NPROC, or pids.max of its container"
	case syscall.ENOMEM:
		e.Phase, e.Path, e.Hint = PhaseInit, "", "the host or the container has no memory left for a process"
	case syscall.EPERM:
		e.Phase, e.Hint = PhaseInit, "the container's security context or seccomp profile forbids it"
	}
	return e
}

// Errno is the system call's error within err, EIO where there is none.
func Errno(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	if errors.Is(err, fs.ErrNotExist) {
		return syscall.ENOENT
	}
	return syscall.EIO
}
