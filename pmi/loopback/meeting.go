package loopback

import (
	"io/fs"
	"net/netip"
)

// Meeting is what one look shows of who meets at some ports. The zero value has seen nobody.
type Meeting struct {
	Visited bool            // somebody is there, or was a moment ago
	There   map[uint64]bool // inodes of listeners there, and of connections with there
	Other   map[uint64]bool // of listeners elsewhere that other hosts reach
	inside  []Socket        // connections of this host with itself
}

// FindMeeting takes one look. Errors are those of Each.
func FindMeeting(host fs.FS, ports map[uint16]bool) (m Meeting, err error) {
	m.There, m.Other = map[uint64]bool{}, map[uint64]bool{}
	err = EachSocket(host, func(s Socket) {
		listens, here := s.State == Listen, ports[s.Local.Port()]
		switch {
		case listens && here:
			m.There[s.Inode], m.Visited = true, true
		case listens && !usualLoopback(s.Local.Addr()):
			m.Other[s.Inode] = true
		case !listens && (here || ports[s.Remote.Port()]):
			m.Visited = m.Visited || s.State == Established || s.State == TimeWait
			if s.State == Established && s.Inode > 0 {
				m.There[s.Inode] = true
			}
		case s.State == Established && s.Inode > 0 && s.Local.Addr() == s.Remote.Addr():
			m.inside = append(m.inside, s)
		}
	})
	return m, err
}

// usualLoopback is where services of a process's own listen (wandb, debuggers). Gloo may listen at another one, that
// of the host's name (127.0.1.1).
func usualLoopback(a netip.Addr) bool {
	return a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a == netip.IPv6Loopback()
}

// Inside says that processes of this host are connected with each other, or one with itself.
func (m Meeting) Inside() bool { return len(m.inside) > 0 }

// Pairs are those of the holders of sockets, by inode, that are connected with another one.
func (m Meeting) Pairs(holder map[uint64]int) (ids []int) {
	ends := map[[2]netip.AddrPort]int{}
	for _, s := range m.inside {
		if id, ok := holder[s.Inode]; ok {
			ends[[2]netip.AddrPort{s.Local, s.Remote}] = id
		}
	}
	for way, id := range ends {
		if other, ok := ends[[2]netip.AddrPort{way[1], way[0]}]; ok && other != id {
			ids = append(ids, id)
		}
	}
	return ids
}
