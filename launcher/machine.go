package launcher

import (
	"log/slog"
	"net"
	"net/netip"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
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
	case b.Map.Object != layout.None:
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

// maxUnits bounds what an agent tells of its GPUs.
const maxUnits = 1 << 10

// nearGPUs is the CPUs near the GPUs of each local rank of a host, of those that it was wished to see;
// without a wish near one each. nil: there is no GPU, or where one is is not known.
func nearGPUs(units []*apiv1.GpuUnit, wish gpu.Wish) (near []idset.Set) {
	units = units[:min(len(units), maxUnits)]
	all := make([]idset.Set, len(units))
	for i, u := range units {
		cpus, err := idset.Within(u.GetNearCpus(), layout.MaxThreads)
		if err != nil || cpus.Empty() {
			return nil
		}
		all[i] = cpus
	}
	var sets []idset.Set
	switch {
	case len(wish.Sets) > 0 && len(all) > 0:
		sets = wish.Sets
	case wish.PerRank > 1:
		for first := 0; first+wish.PerRank <= len(all); first += wish.PerRank {
			sets = append(sets, idset.Range(first, first+wish.PerRank-1))
		}
	default:
		return all
	}
	for _, set := range sets {
		var cpus idset.Set
		for n := range set.All() {
			if n < len(all) { // else the agent says that it has no such GPU
				cpus = cpus.Union(all[n])
			}
		}
		near = append(near, cpus)
	}
	return near
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
