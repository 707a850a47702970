package loopback

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/mpiup/mpiup/internal/bounded"
)

// Peer is the socket at the other end of a connection on this host.
type Peer struct {
	UID   uint32 // of the process that made it, as this process's user namespace has it
	Inode uint64 // its number, which /proc/PID/fd shows with those who have it open
}

// PeerOf finds the other end of an accepted TCP connection in this network namespace. It asks the kernel's socket
// diagnosis for exactly that socket (sock_diag(7)). Where that is not allowed or not there, it reads /proc/net/tcp
// and tcp6. A socket that its process has closed is an error.
func PeerOf(conn net.Conn) (Peer, error) {
	ours, theirs := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
	if !ours.IsValid() || !theirs.IsValid() {
		return Peer{}, fmt.Errorf("a connection from %s is not TCP", conn.RemoteAddr())
	}
	if p, err := diagnose(theirs, ours); err == nil {
		return p, nil
	}
	return listed(bounded.Tree("/"), theirs, ours)
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// listed looks through the kernel's lists of sockets below host's /proc. A socket that no process has open any more has
// no inode and does not count.
func listed(host fs.FS, local, remote netip.AddrPort) (p Peer, err error) {
	err = EachSocket(host, func(s Socket) {
		if s.Local == local && s.Remote == remote && s.Inode != 0 {
			p = Peer{UID: s.UID, Inode: s.Inode}
		}
	})
	switch {
	case p.Inode != 0:
		return p, nil
	case err != nil:
		return p, fmt.Errorf("whose the connection from %s is: %w", local, err)
	}
	return p, fmt.Errorf("the other end of the connection from %s is not on this host, or closed", local)
}
