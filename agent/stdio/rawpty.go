package stdio

import (
	"fmt"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// PipesAndPty is Pipes with a pseudo terminal as standard output. To a terminal a program's C library flushes each
// line (C11 7.21.3), so what the program wrote before a signal ended it is not lost. The terminal is raw: the bytes
// that arrive are those that were written. It is nobody's controlling terminal, and no input comes from it.
//
// A process that writes to it after our end was closed gets EIO, where a pipe gives SIGPIPE. A session leader without
// a terminal that opens it by name (/dev/stdout, without O_NOCTTY) makes it its own; what then is left in its process
// group gets SIGHUP at its end (tty_ioctl(4)), as under Open MPI's mpirun.
func PipesAndPty(stdin bool, rows, columns uint16) (*Files, error) {
	f, err := filesWith(stdin, rawPty)
	if err != nil {
		return nil, err
	}
	f.sized = true
	if err := f.Resize(rows, columns); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func rawPty(string, int) (ours, theirs *os.File, err error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("pseudo terminal: %w (is /dev/pts mounted in the container?)", err)
	}
	defer master.Close()
	err = makeRaw(slave)
	if err == nil {
		ours, err = nonblocking(master)
	}
	if err != nil {
		slave.Close()
		return nil, nil, fmt.Errorf("pseudo terminal: %w", err)
	}
	return ours, slave, nil
}

// makeRaw is cfmakeraw(3): no echo, no signals, no line editing, and no line end becomes two.
func makeRaw(tty *os.File) error {
	return control(tty, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return os.NewSyscallError("TCGETS", err)
		}
		t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		t.Oflag &^= unix.OPOST
		t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
		return os.NewSyscallError("TCSETS", unix.IoctlSetTermios(fd, unix.TCSETS, t))
	})
}
