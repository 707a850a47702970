package stdio

import (
	"fmt"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Files are the descriptors of a process's standard streams, the child's and ours. Ours are
// non-blocking and close-on-exec; the child's block, as programs expect.
type Files struct {
	Child [3]*os.File // stdin, stdout, stderr of the process; CloseChild after its start

	In  *os.File // write end of its stdin; nil: it has /dev/null
	Out *os.File // read end of its stdout
	Err *os.File // read end of its stderr; nil on a terminal

	Terminal bool // In and Out are the terminal's master, one file

	// sized says that Out is a terminal's master, which has a size.
	sized bool
}

// pipeSize is asked for a rank's pipes: room to write on while the agent is busy. The kernel
// refuses when the user's pipes have too many pages (/proc/sys/fs/pipe-user-pages-soft), and
// they keep 64 KiB.
const pipeSize = 256 << 10

// Pipes makes pipes for the standard streams, with stdin only if something will be written.
func Pipes(stdin bool) (*Files, error) { return filesWith(stdin, pipe) }

// filesWith is pipes, with stdout by a maker of its own.
func filesWith(stdin bool, stdout maker) (*Files, error) {
	f := &Files{}
	err := f.pipes(stdin, stdout)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("pipes for the standard streams: %w", err)
	}
	return f, nil
}

// maker makes two ends, of which ours (0: the read end) does not block.
type maker func(name string, ours int) (r, w *os.File, err error)

func (f *Files) pipes(stdin bool, stdout maker) (err error) {
	if stdin {
		f.Child[0], f.In, err = pipe("stdin", 1)
	} else {
		f.Child[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return err
	}
	if f.Out, f.Child[1], err = stdout("stdout", 0); err != nil {
		return err
	}
	f.Err, f.Child[2], err = pipe("stderr", 0)
	return err
}

// pipe makes one pipe whose end ours (0: read, 1: write) does not block.
func pipe(name string, ours int) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if ours == 0 {
		unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize)
	}
	err = unix.SetNonblock(fds[ours], true)
	r, w = os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name)
	return r, w, os.NewSyscallError("fcntl", err)
}

// Pty makes a pseudo terminal of that size for all three streams. The process must become
// leader of a session and take Child[0] as its controlling terminal.
func Pty(rows, columns uint16) (*Files, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("pseudo terminal: %w (is /dev/pts mounted in the container?)", err)
	}
	defer master.Close()
	f := &Files{Child: [3]*os.File{slave, slave, slave}, Terminal: true, sized: true}
	f.Out, err = nonblocking(master)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("pseudo terminal: %w", err)
	}
	f.In = f.Out
	if err := f.Resize(rows, columns); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// nonblocking returns a second descriptor of f that has deadlines.
func nonblocking(f *os.File) (*os.File, error) {
	fd := -1
	err := control(f, func(old int) (err error) {
		if fd, err = unix.FcntlInt(uintptr(old), unix.F_DUPFD_CLOEXEC, 3); err == nil {
			err = unix.SetNonblock(fd, true)
		}
		return os.NewSyscallError("fcntl", err)
	})
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// control calls do with a file's descriptor, which stays open meanwhile.
func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return err
	}
	return done
}

// Resize sets the terminal's size; its foreground processes get SIGWINCH, where it is the controlling terminal of any. 0 x 0 and pipes
// are left alone.
func (f *Files) Resize(rows, columns uint16) error {
	if !f.sized || rows == 0 && columns == 0 {
		return nil
	}
	err := control(f.Out, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
	if err != nil {
		return fmt.Errorf("terminal size: %w", err)
	}
	return nil
}

// CloseChild closes the child's ends once it has them, or if it could not be started. Without
// it the streams never come to their end.
func (f *Files) CloseChild() {
	for i, c := range f.Child {
		if c != nil {
			c.Close()
			f.Child[i] = nil
		}
	}
}

// Close closes everything, for when no Pump and no Input has taken it over.
func (f *Files) Close() {
	f.CloseChild()
	for _, o := range []*os.File{f.In, f.Out, f.Err} {
		if o != nil {
			o.Close()
		}
	}
}
