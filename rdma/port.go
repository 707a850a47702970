package rdma

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/topology/sysfs"
)

// Address is one of this pod's, and the interface that has it.
type Address struct {
	Interface string
	IP        netip.Addr
}

func portDir(hca string, number int) string { return class + hca + "/ports/" + strconv.Itoa(number) }

func readPort(fsys sysfs.FS, hca string, number int) Port {
	dir := portDir(hca, number)
	p := Port{Number: number}
	// "4: ACTIVE", drivers/infiniband/core/sysfs.c state_show.
	if text, err := fsys.Text(dir + "/state"); err == nil {
		if _, p.State, _ = strings.Cut(text, ": "); p.State == "" {
			fsys.Note(dir+"/state", "%.40q is not the state of a port", text)
		}
	}
	if text, err := fsys.Text(dir + "/link_layer"); err == nil {
		p.Layer, p.Ethernet = text, text == "Ethernet"
	}
	// "400 Gb/sec (4X NDR)"
	if text, err := fsys.Text(dir + "/rate"); err == nil {
		number, unit, _ := strings.Cut(text, " ")
		if rate, err := strconv.ParseFloat(number, 64); err == nil && rate > 0 && rate < 1e6 && strings.HasPrefix(unit, "Gb/sec") {
			p.Rate, p.Speed = rate, text
		} else {
			fsys.Note(dir+"/rate", "%.40q is not the rate of a port", text)
		}
	}
	return p
}
