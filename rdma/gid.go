package rdma

import (
	"net/netip"
	"strconv"

	"github.com/mpiup/mpiup/topology/sysfs"
)

// readGIDs is the entries of a port's table that are this pod's. In a pod the table is the machine's, and an
// entry belongs to the network namespace of its interface: others' cannot be used. The kernel answers EINVAL
// for the type and the interface of an unused index.
func readGIDs(fsys sysfs.FS, dir string, ethernet bool, addrs []Address) (gids []GID) {
	for n := range fsys.Numbers(dir+"/gids", "", maxGIDs-1).All() {
		index := strconv.Itoa(n)
		text, err := fsys.Text(dir + "/gids/" + index)
		if err != nil {
			continue
		}
		addr, err := netip.ParseAddr(text)
		if err != nil || !addr.Is6() || addr.IsUnspecified() || addr.Zone() != "" {
			continue
		}
		g := GID{Index: n, Addr: addr.Unmap()}
		kind, err := fsys.Text(dir + "/gid_attrs/types/" + index)
		if err != nil && ethernet {
			continue
		}
		g.V2 = kind == "RoCE v2"
		if ethernet {
			ndev, err := fsys.Text(dir + "/gid_attrs/ndevs/" + index)
			if err != nil || !plain(ndev) {
				continue
			}
			if g.Interface = owner(fsys, ndev, g.Addr, addrs); g.Interface == "" {
				continue
			}
		}
		gids = append(gids, g)
	}
	return gids
}

// owner is this pod's interface that an entry belongs to, "" when it is another's.
func owner(fsys sysfs.FS, ndev string, gid netip.Addr, addrs []Address) string {
	if fsys.Exists("sys/class/net/" + ndev) {
		return ndev
	}
	for _, a := range addrs {
		if a.IP.Unmap() == gid {
			return a.Interface
		}
	}
	return ""
}

// RoCE is the GID that RoCE traffic of a port should use, false without one. It prefers version 2 to 1, and IPv4 to
// global IPv6 to link-local, as UCX does (uct_ib_device_select_gid). InfiniBand needs none.
func (p *Port) RoCE() (GID, bool) {
	best, rank := GID{}, 0
	for _, g := range p.GIDs {
		if r := preference(g); p.Ethernet && r > rank {
			best, rank = g, r
		}
	}
	return best, rank > 0
}

// preference is 0 for what is never taken.
func preference(g GID) int {
	r := 1
	switch {
	case g.Addr.Is4():
		r = 3
	case !g.Addr.IsLinkLocalUnicast():
		r = 2
	}
	if g.V2 {
		r += 3
	}
	return r
}
