package checkup

import (
	"fmt"

	"github.com/Mellanox/rdmamap"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/rdma"
)

// errorCounters are those of /sys/class/infiniband/HCA/ports/N/counters that stay 0 on a healthy link
// (Documentation/ABI/stable/sysfs-class-infiniband).
var errorCounters = []string{"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
	"local_link_integrity_errors", "excessive_buffer_overrun_errors"}

// readErrors is the error counters of usable HCAs' active ports that are not 0, as "mlx5_0:1 link_downed 3". It also
// gives the ports that have no counters, like those of virtual functions.
func readErrors(inv *rdma.Inventory) (list, silent []string) {
	for _, h := range inv.Usable() {
		for _, p := range h.Active() {
			stats, err := rdmamap.GetRdmaSysfsAllStats(h.Name, p.Number)
			if err != nil || len(stats.Stats) == 0 {
				silent = append(silent, fmt.Sprintf("%s:%d", h.Name, p.Number))
				continue
			}
			values := map[string]uint64{}
			for _, s := range stats.Stats {
				values[s.Name] = s.Value
			}
			for _, name := range errorCounters {
				if n := values[name]; n > 0 {
					list = append(list, fmt.Sprintf("%s:%d %s %d", h.Name, p.Number, name, n))
				}
			}
		}
	}
	return list, silent
}

// linkErrors: counters since the node was started, so some are old news.
func linkErrors(h *Host) Finding {
	const name, most = "RDMA link errors", 4
	switch n := len(h.LinkErrors); {
	case len(h.HCAs.Usable()) == 0:
		return Finding{Name: name, Text: "no usable device"}
	case n == 0 && len(h.Uncounted) > 0:
		return Finding{Name: name, Verdict: Unknown, Text: "no counters can be read of " + visible.Few(h.Uncounted, most, ", ")}
	case n == 0:
		return Finding{Name: name, Text: "none counted"}
	default:
		return Finding{name, Warn, visible.Few(h.LinkErrors, most, ", ") + " since the node started", "look whether they " +
			"grow during a job (ethtool -S, perfquery); if so change the cable or the port"}
	}
}
