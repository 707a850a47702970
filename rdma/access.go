package rdma

import (
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// missing is what an HCA wants for this process to open it, "" if nothing.
func missing(fsys sysfs.FS, h *HCA) string {
	name := granted + h.Verbs
	switch _, number := cutNumber(h.Name); {
	case h.Kind == OmniPath:
		name = "dev/hfi1_" + strconv.Itoa(number)
	case h.Verbs == "":
		return "/" + strings.TrimSuffix(verbs, "/")
	}
	switch {
	case fsys.Writable(name):
		return ""
	case fsys.Exists(name):
		return forbidden + name
	}
	return "/" + name
}

// forbidden is before the name of a device file that is here and not for this user.
const forbidden = "right to open /"

// denied is why this container cannot use an HCA, "" when it can.
func denied(h *HCA) string {
	switch {
	case h.Missing == "":
	case strings.HasPrefix(h.Missing, forbidden):
		return "this user has no " + h.Missing
	case h.Kind == OmniPath:
		return "its device file " + h.Missing + " is not in this container"
	case h.Verbs == "":
		return "the kernel offers no verbs for it (is the module ib_uverbs loaded on the node?)"
	default:
		return "its device file " + h.Missing + " is not in this container: it was not requested of the RDMA device plugin"
	}
	if len(h.Ports) == 0 {
		return "it has no port"
	}
	if len(h.Active()) > 0 {
		return ""
	}
	var states []string
	for _, p := range h.Ports {
		if p.State == "" {
			p.State = "unknown"
		}
		states = append(states, "port "+strconv.Itoa(p.Number)+" is "+p.State)
	}
	return strings.Join(states, ", ") + ": check the cable, the switch and the subnet manager"
}

// Locked is how much memory a process may lock, which verbs need for every buffer.
type Locked struct {
	Limit uint64 // RLIMIT_MEMLOCK in bytes; Unlimited
	Any   bool   // CAP_IPC_LOCK is effective, so the limit does not count
}

// Unlimited is a limit that is none (RLIM_INFINITY).
const Unlimited = ^uint64(0)

// enoughLocked is what UCX and NCCL get along with, in bytes.
const enoughLocked = 64 << 20

// Missing is what keeps the container from using RDMA though the machine has HCAs, one sentence for each
// thing with what to do, most important first; nil when nothing is missing or there are none.
func (inv *Inventory) Missing(l Locked) (sentences []string) {
	if len(inv.HCAs) == 0 {
		return nil
	}
	if len(inv.Usable()) == 0 {
		const effect = "; communication between hosts goes through TCP, which is many times slower"
		reasons := map[string][]string{}
		var order []string
		for i := range inv.HCAs {
			h := &inv.HCAs[i]
			why := generic(h)
			if reasons[why] == nil {
				order = append(order, why)
			}
			reasons[why] = append(reasons[why], h.Name)
		}
		for _, why := range order {
			sentences = append(sentences, devices(reasons[why])+" of this machine cannot be used: "+why+effect)
		}
		return sentences
	}
	if !l.Any && l.Limit < enoughLocked {
		sentences = append(sentences, "only "+strconv.Itoa(int(l.Limit>>10))+" KiB of memory may be locked, and RDMA needs more than "+
			"64 MiB: give the container the capability IPC_LOCK and run it as root, or set LimitMEMLOCK=infinity for the node's container runtime; "+
			"until then libraries fail when they register buffers, or go through TCP")
	}
	return sentences
}

// generic is the reason without the device's own file, so that many HCAs make one sentence.
func generic(h *HCA) string {
	if h.Verbs != "" && strings.Contains(h.Denied, granted) {
		return "no device file below /dev/infiniband is in this container; request devices of the RDMA device plugin " +
			"(resources.limits, as rdma/hca_shared_devices_a or the SR-IOV resource)"
	}
	return h.Denied
}

// devices names a few of them: "RDMA devices mlx5_0, mlx5_1".
func devices(names []string) string {
	kind := "RDMA device "
	if len(names) > 1 {
		kind = "RDMA devices "
	}
	return kind + visible.Few(names, 4, ", ")
}
