package look

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
)

// Bounds of a look at sockets.
const (
	maxTraffic = 1 << 16 // TCP sockets of this network namespace
	maxReply   = 64 << 10
)

// inet_diag_req_v2 and inet_diag_msg (include/uapi/linux/inet_diag.h), each with an inet_diag_sockid of 48 bytes in it.
const (
	requestLen = 8 + 48
	messageLen = 4 + 48 + 20
	inodeAt    = messageLen - 4
	infoType   = 2 // INET_DIAG_INFO
	// connected are the states in which bytes come or go: ESTABLISHED, FIN_WAIT1 and 2, CLOSE_WAIT, LAST_ACK.
	connected = 1<<1 | 1<<4 | 1<<5 | 1<<8 | 1<<9
)

// Socket is what a TCP socket has done.
type Socket struct {
	Moved        uint64 // bytes that it received, and sent to a peer that has acknowledged them
	Sent, Resent uint32 // segments, and those that were sent again
}

// Traffic is what each TCP socket of this network namespace has done, by its inode. recv(2) and send(2) count nowhere else. The kernel is
// asked by sock_diag(7), which needs no privilege.
func Traffic() (map[uint64]Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	out := map[uint64]Socket{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if err := dump(fd, family, out); err != nil && (family == unix.AF_INET || !errors.Is(err, unix.ENOENT)) { // a kernel may have no IPv6
			return nil, fmt.Errorf("sock_diag: %w", err)
		}
	}
	return out, nil
}

// dump adds the sockets of a family.
func dump(fd int, family uint8, out map[uint64]Socket) error {
	request := make([]byte, unix.NLMSG_HDRLEN+requestLen)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := request[unix.NLMSG_HDRLEN:]
	body[0], body[1], body[2] = family, unix.IPPROTO_TCP, 1<<(infoType-1)
	binary.NativeEndian.PutUint32(body[4:], connected)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, maxReply)
	for {
		n, _, err := unix.Recvfrom(fd, reply, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if done, err := parseTraffic(reply[:n], out); done || err != nil {
			return err
		}
	}
}

var errReply = errors.New("malformed answer")

// parseTraffic adds what one answer tells. done: it was the last.
func parseTraffic(b []byte, out map[uint64]Socket) (done bool, err error) {
	for len(b) >= unix.NLMSG_HDRLEN {
		size, kind := int(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint16(b[4:])
		if size < unix.NLMSG_HDRLEN || size > len(b) {
			return false, errReply
		}
		body := b[unix.NLMSG_HDRLEN:size]
		b = b[min((size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(b)):]
		switch {
		case kind == unix.NLMSG_DONE:
			return true, nil
		case kind == unix.NLMSG_ERROR && len(body) >= 4:
			return true, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
		case kind != unix.SOCK_DIAG_BY_FAMILY || len(body) < messageLen:
			continue
		}
		if len(out) >= maxTraffic {
			return false, fmt.Errorf("more than %d TCP sockets", maxTraffic)
		}
		if inode := uint64(binary.NativeEndian.Uint32(body[inodeAt:])); inode != 0 { // else no process has it any more
			out[inode] = socketOf(body[messageLen:])
		}
	}
	return false, nil
}

// socketOf is what the attributes of a socket say of it; zero where the kernel has no tcp_info that is as long.
func socketOf(attributes []byte) (s Socket) {
	// tcpi_total_retrans, tcpi_bytes_acked, tcpi_bytes_received, tcpi_segs_out (include/uapi/linux/tcp.h)
	const head, resent, acked, received, sent = 4, 100, 120, 128, 136
	for len(attributes) >= head {
		size := int(binary.NativeEndian.Uint16(attributes))
		if size < head || size > len(attributes) {
			return s
		}
		if value := attributes[head:size]; binary.NativeEndian.Uint16(attributes[2:]) == infoType && len(value) >= received+8 {
			s.Moved = binary.NativeEndian.Uint64(value[acked:]) + binary.NativeEndian.Uint64(value[received:])
			if len(value) >= sent+4 {
				s.Resent, s.Sent = binary.NativeEndian.Uint32(value[resent:]), binary.NativeEndian.Uint32(value[sent:])
			}
			return s
		}
		attributes = attributes[min((size+3)&^3, len(attributes)):]
	}
	return s
}

// Own is what the sockets have done that these processes have open, by inode. An error says that not all of them show.
func Own(proc proctree.Proc, pids []int, traffic map[uint64]Socket) (map[uint64]Socket, error) {
	own := map[uint64]Socket{}
	for _, pid := range pids {
		if err := proc.EachSocket(pid, func(_ string, inode uint64) bool {
			if s, tcp := traffic[inode]; tcp {
				own[inode] = s
			}
			return true
		}); err != nil && !errors.Is(err, os.ErrNotExist) {
			return own, err
		}
	}
	return own, nil
}
