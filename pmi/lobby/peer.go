package lobby

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
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
	return listed(os.DirFS("/proc"), theirs, ours)
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// listed reads the kernel's lists of sockets. proc is /proc.
func listed(proc fs.FS, local, remote netip.AddrPort) (Peer, error) {
	var missing error
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		f, err := proc.Open(name)
		if err != nil {
			missing = err
			continue
		}
		p, found := findSocket(f, local, remote)
		f.Close()
		if found {
			return p, nil
		}
	}
	if missing != nil {
		return Peer{}, fmt.Errorf("whose the connection from %s is: %w", local, missing)
	}
	return Peer{}, fmt.Errorf("the other end of the connection from %s is not on this host, or closed", local)
}
