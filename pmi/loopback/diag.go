package loopback

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Sizes and kinds of Linux include/uapi/linux/inet_diag.h and sock_diag.h.
const (
	sockDiagByFamily = 20
	diagRequestSize  = 16 + 56 // nlmsghdr, inet_diag_req_v2
	diagAnswerSize   = 16 + 72 // nlmsghdr, inet_diag_msg
)

var errNoSocket = errors.New("there is no such socket")

// diagnose asks the kernel for the socket from local to remote in this network namespace.
func diagnose(local, remote netip.AddrPort) (Peer, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return Peer{}, fmt.Errorf("sock_diag: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return Peer{}, fmt.Errorf("sock_diag: %w", err)
	}
	var answer [512]byte
	// The kernel answers before the send returns; anything else is no answer.
	n, from, err := unix.Recvfrom(fd, answer[:], unix.MSG_DONTWAIT)
	if err != nil {
		return Peer{}, fmt.Errorf("sock_diag: %w", err)
	}
	if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
		return Peer{}, errors.New("sock_diag: the answer is not the kernel's")
	}
	return diagAnswer(answer[:n], local, remote)
}

// diagRequest is one message, in host order but for ports and addresses:
//
//	nlmsghdr           u32 length, u16 type, u16 flags, u32 sequence, u32 port
//	inet_diag_req_v2   u8 family, u8 protocol, u8 extensions, u8 pad, u32 states
//	  inet_diag_sockid u16 sport, u16 dport, u8 src[16], u8 dst[16], u32 interface, u32 cookie[2]
func diagRequest(local, remote netip.AddrPort) []byte {
	h := binary.NativeEndian
	b := make([]byte, 0, diagRequestSize)
	b = h.AppendUint32(b, diagRequestSize)
	b = h.AppendUint16(b, sockDiagByFamily)
	b = h.AppendUint16(b, unix.NLM_F_REQUEST)
	b = h.AppendUint32(b, 1)
	b = h.AppendUint32(b, 0)
	family := byte(unix.AF_INET)
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = h.AppendUint32(b, ^uint32(0))
	b = binary.BigEndian.AppendUint16(b, local.Port())
	b = binary.BigEndian.AppendUint16(b, remote.Port())
	for _, a := range []netip.Addr{local.Addr(), remote.Addr()} {
		var field [16]byte
		copy(field[:], a.AsSlice())
		b = append(b, field[:]...)
	}
	b = h.AppendUint32(b, 0)          // any interface
	b = h.AppendUint32(b, ^uint32(0)) // INET_DIAG_NOCOOKIE
	return h.AppendUint32(b, ^uint32(0))
}

// diagAnswer reads an nlmsghdr and an inet_diag_msg, whose fields are u8 family, state, timer, retransmits, an
// inet_diag_sockid of 48 bytes, u32 expires, rqueue, wqueue, uid, inode. Where it has no connected socket, the kernel
// answers with a listening one of that local address, or with one that waits out its end and has no inode.
func diagAnswer(b []byte, local, remote netip.AddrPort) (Peer, error) {
	h := binary.NativeEndian
	if len(b) >= 20 && h.Uint16(b[4:]) == unix.NLMSG_ERROR {
		return Peer{}, fmt.Errorf("sock_diag: %w", unix.Errno(-int32(h.Uint32(b[16:]))))
	}
	if len(b) < diagAnswerSize || h.Uint16(b[4:]) != sockDiagByFamily {
		return Peer{}, errors.New("sock_diag: malformed answer")
	}
	msg := b[16:]
	p := Peer{UID: h.Uint32(msg[64:]), Inode: uint64(h.Uint32(msg[68:]))}
	if endpoint(msg[0], msg[4:], msg[8:]) != local || endpoint(msg[0], msg[6:], msg[24:]) != remote || p.Inode == 0 {
		return Peer{}, errNoSocket
	}
	return p, nil
}

// endpoint is one half of an inet_diag_sockid. An IPv6 socket may be the end of an IPv4 connection.
func endpoint(family byte, port, addr []byte) netip.AddrPort {
	size := 4
	if family == unix.AF_INET6 {
		size = 16
	}
	a, _ := netip.AddrFromSlice(addr[:size])
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
}
