package launcher

import (
	"log/slog"
	"net"
	"net/netip"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
)

// machineWish is what agents are to tell of their machines: nothing where ranks are neither bound nor
// mapped to objects, and by default only what a binding that does no harm needs.
func machineWish(p placement.Policy) apiv1.MachineWish {
	b := &p.Binding
	switch {
	case b.Map.Object != layout.None, p.ByCores:
		return apiv1.MachineWish_MACHINE_ALWAYS
	case b.Bind.Said && b.Bind.To == layout.None && !b.Bind.List && !b.Listed() && b.Hydra == nil:
		return apiv1.MachineWish_MACHINE_NOT_WANTED
	case b.Asked():
		return apiv1.MachineWish_MACHINE_ALWAYS
	}
	return apiv1.MachineWish_MACHINE_IF_EXCLUSIVE
}

// layoutOf is what a host's agent tells of its machine; nil: nothing, or nothing that makes sense.
func layoutOf(f reach.Found, log *slog.Logger) *layout.Layout {
	l, err := apiv1.UnpackMachine(f.Session.Opened.Machine)
	if err != nil {
		log.Warn("a host's machine is not understood", "host", f.Entry.Name, "err", err)
		return nil
	}
	return l
}

// towards is this host's address on the way to another. A UDP socket that is connected sends nothing.
func towards(at netip.AddrPort) netip.Addr {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")
}

// meetsAt is a host's address as the others reach it: where we reached its agent, since names may resolve here
// only. The agent in this process has the address from which we reach another host.
func meetsAt(h int, all []*link.Conn) netip.Addr {
	if at := all[h].First.Addr; at.IsValid() {
		return at.Addr().Unmap().WithZone("")
	}
	if len(all) == 1 {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	for _, other := range all {
		if at := other.First.Addr; at.IsValid() {
			return towards(at)
		}
	}
	return netip.Addr{}
}
