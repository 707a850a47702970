package pmi

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// SocketUID says whose process holds the other end of an accepted TCP connection on this host.
// proc is /proc (os.DirFS): net/tcp and net/tcp6 list every socket of this network namespace
// with its owner's uid (Linux net/ipv4/tcp_ipv4.c, get_tcp4_sock).
func SocketUID(proc fs.FS, conn net.Conn) (uint32, error) {
	ours, theirs := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
	if !ours.IsValid() || !theirs.IsValid() {
		return 0, fmt.Errorf("PMI connection from %s is not TCP", conn.RemoteAddr())
	}
	var missing error
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		f, err := proc.Open(name)
		if err != nil {
			missing = err
			continue
		}
		uid, found := findSocket(bufio.NewScanner(f), theirs, ours)
		f.Close()
		if found {
			return uid, nil
		}
	}
	if missing != nil {
		return 0, fmt.Errorf("owner of the PMI connection from %s: %w", theirs, missing)
	}
	return 0, fmt.Errorf("PMI connection from %s: its other end is not on this host, or closed", theirs)
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// findSocket looks for the socket from local to remote:
//
//	sl  local_address rem_address   st tx_queue:rx_queue tr:tm->when retrnsmt   uid  timeout inode
//	 0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 12345
func findSocket(lines *bufio.Scanner, local, remote netip.AddrPort) (uid uint32, found bool) {
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 8 {
			continue
		}
		from, err1 := parseProcAddr(f[1])
		to, err2 := parseProcAddr(f[2])
		if err1 != nil || err2 != nil || from != local || to != remote {
			continue
		}
		n, err := strconv.ParseUint(f[7], 10, 32)
		if err == nil {
			return uint32(n), true
		}
	}
	return 0, false
}

// parseProcAddr reads an address as the kernel prints it: 32-bit words in host order, which on
// every machine that mpiup is built for is little-endian, then the port.
func parseProcAddr(s string) (netip.AddrPort, error) {
	words, port, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(words)
	if err != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, errors.New("not an address of 32 or 128 bits")
	}
	for i := 0; i < len(raw); i += 4 {
		raw[i], raw[i+1], raw[i+2], raw[i+3] = raw[i+3], raw[i+2], raw[i+1], raw[i]
	}
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port: %w", err)
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(p)), nil
}
