package client

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// Speaker is a connection that says who wrote what was read last.
type Speaker interface {
	net.Conn
	Speaker() Process
	Shared() bool // several processes may write to it, and read its answers
}

// Known is a connection of one process.
type Known struct {
	net.Conn
	Process Process
}

// Speaker is always the same.
func (k Known) Speaker() Process { return k.Process }

// Shared is false.
func (k Known) Shared() bool { return false }

// NetConn is what the kernel has of it.
func (k Known) NetConn() net.Conn { return k.Conn }

// CloseWrite ends what is said over it, and all of one that has no such half.
func (k Known) CloseWrite() error {
	if half, ok := k.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return k.Conn.Close()
}

// Credentials is the server's end of a socket that a rank inherits, and with it whatever the rank starts. The kernel
// says of each message who wrote it (unix(7), SO_PASSCRED), and gives no bytes of two processes to one read
// (net/unix/af_unix.c, unix_stream_read_generic).
type Credentials struct {
	*net.UnixConn
	identify func(pid int) Process
	control  []byte // the room for the kernel's word
	writer   int    // of what was read last; 0: not known
	speaker  Process
}

// NewCredentials asks the kernel for writers from here on; what was written before has none. identify finds a process by
// its number. An error says that the kernel does not tell.
func NewCredentials(conn *net.UnixConn, identify func(pid int) Process) (*Credentials, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return &Credentials{UnixConn: conn, identify: identify, control: make([]byte, unix.CmsgSpace(unix.SizeofUcred))}, nil
}

// Shared is true: whatever the rank starts inherits the socket.
func (c *Credentials) Shared() bool { return true }

// Speaker is who wrote what the last Read returned. It belongs to the goroutine that reads.
func (c *Credentials) Speaker() Process {
	switch c.writer {
	case 0:
		return Process{}
	case c.speaker.PID:
	default:
		c.speaker = c.identify(c.writer)
	}
	return c.speaker
}

// Read reads, and notes the writer. The kernel's word comes first, and its room is for that alone, so that no descriptor
// comes with it.
func (c *Credentials) Read(b []byte) (int, error) {
	n, controlLen, _, _, err := c.ReadMsgUnix(b, c.control)
	if n > 0 {
		c.writer = writerOf(c.control[:controlLen])
	}
	n = max(n, 0)               // of an error, ReadMsgUnix has -1
	if errors.Is(err, io.EOF) { // which ReadMsgUnix wraps, and Read of other connections does not
		return n, io.EOF
	}
	return n, err
}

// writerOf is the process that the kernel names in control messages; 0: none. Descriptors that somebody sent are closed.
func writerOf(control []byte) (pid int) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if credentials, err := unix.ParseUnixCredentials(&m); err == nil {
			pid = int(credentials.Pid)
			continue
		}
		if descriptors, err := unix.ParseUnixRights(&m); err == nil {
			for _, fd := range descriptors {
				_ = unix.Close(fd)
			}
		}
	}
	return pid
}
