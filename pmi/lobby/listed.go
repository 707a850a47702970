package lobby

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// findSocket looks for the socket from local to remote in /proc/net/tcp or tcp6 (Linux
// net/ipv4/tcp_ipv4.c, get_tcp4_sock):
//
//	sl  local_address rem_address   st tx_queue:rx_queue tr:tm->when retrnsmt   uid  timeout inode
//	 0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 12345
//
// One that no process has open any more has the inode 0 and does not count.
func findSocket(list io.Reader, local, remote netip.AddrPort) (p Peer, found bool) {
	for lines := bufio.NewScanner(list); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 10 {
			continue
		}
		from, err1 := parseProcAddr(f[1])
		to, err2 := parseProcAddr(f[2])
		if err1 != nil || err2 != nil || from != local || to != remote {
			continue
		}
		uid, err1 := strconv.ParseUint(f[7], 10, 32)
		inode, err2 := strconv.ParseUint(f[9], 10, 64)
		if err1 == nil && err2 == nil && inode != 0 {
			return Peer{UID: uint32(uid), Inode: inode}, true
		}
	}
	return Peer{}, false
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
