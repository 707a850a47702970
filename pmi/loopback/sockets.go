package loopback

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
)

// EachSocket reads the TCP sockets of this network namespace from /proc/net/tcp and /proc/net/tcp6
// (proc_net(5)):
//
//	sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
//	 0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 ...
//
// An address is 32-bit words in the machine's byte order, the port is a number. A connection whose processes have
// closed it is listed for another minute by the side that closed first (TimeWait, without an inode), so a look can
// see what happened between two looks.
//
// It keeps nothing, may be called by any number of goroutines, and does not know whose a socket is.

// SocketState is a connection's, by the kernel's numbers (include/net/tcp_states.h).
type SocketState uint8

// The states that are told apart here.
const (
	Established SocketState = 1
	TimeWait    SocketState = 6
	Listen      SocketState = 10
)

// Socket is one line of the lists.
type Socket struct {
	Local, Remote netip.AddrPort // IPv4 addresses in their own form, also where the socket is IPv6's
	State         SocketState
	UID           uint32 // of the process that made it, as this process's user namespace has it
	Inode         uint64 // 0: no process has it any more
}

// maxLines bounds what is read of one list.
const maxLines = 1 << 16

// EachSocket calls f with every socket. An error says that the lists cannot be read, or are longer than what is read.
func EachSocket(host fs.FS, f func(Socket)) error {
	if err := each(host, "proc/net/tcp", f); err != nil {
		return err
	}
	if err := each(host, "proc/net/tcp6", f); !errors.Is(err, fs.ErrNotExist) { // a kernel may have no IPv6
		return err
	}
	return nil
}

var errTooLong = errors.New("more TCP sockets than are looked at")

func each(host fs.FS, name string, f func(Socket)) error {
	file, err := host.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 0; lines.Scan(); n++ {
		if n > maxLines {
			return errTooLong
		}
		if s, ok := parse(lines.Text()); ok {
			f(s)
		}
	}
	return lines.Err()
}

// parse reads one line; the heading is none.
func parse(line string) (s Socket, ok bool) {
	words := strings.Fields(line)
	if len(words) < 10 {
		return s, false
	}
	var here, there bool
	s.Local, here = address(words[1])
	s.Remote, there = address(words[2])
	state, err := strconv.ParseUint(words[3], 16, 8)
	if err != nil || !here || !there {
		return s, false
	}
	s.State = SocketState(state)
	uid, err := strconv.ParseUint(words[7], 10, 32)
	if err != nil {
		return s, false
	}
	s.UID = uint32(uid)
	s.Inode, err = strconv.ParseUint(words[9], 10, 64)
	return s, err == nil
}

// address reads "0100007F:1F90" and the longer form of IPv6.
func address(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	n, perr := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || perr != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), true
}
