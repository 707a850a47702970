package rdma

import (
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/topology/sysfs"
)

// GDR is what can be seen of GPUDirect RDMA, HCAs that read and write a GPU's memory themselves. Whether it
// works only a transfer tells.
type GDR struct {
	PeerMemory string // version of nvidia_peermem or nv_peer_mem; "": not loaded
	DMABuf     bool   // the kernel is new enough for DMA-BUF (5.12)
	GDRCopy    bool   // /dev/gdrdrv is in this container
	kernel     string // its release; "": unknown
}

func readGDR(fsys sysfs.FS) (g GDR) {
	for _, name := range []string{
		"sys/module/nvidia_peermem/version",
		"sys/kernel/mm/memory_peers/nv_mem/version",
		"sys/kernel/mm/memory_peers/nv_mem_nc/version",
	} {
		if text, err := fsys.Text(name); err == nil && g.PeerMemory == "" {
			g.PeerMemory = text
		}
	}
	if text, err := fsys.Text("proc/sys/kernel/osrelease"); err == nil {
		g.kernel, g.DMABuf = text, atLeast(text, 5, 12)
	}
	g.GDRCopy = fsys.Exists("dev/gdrdrv")
	return g
}

// atLeast compares a kernel's release, "5.15.0-1041-azure".
func atLeast(release string, major, minor int) bool {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	end := strings.IndexFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(parts[1])
	}
	b, err := strconv.Atoi(parts[1][:end])
	return err == nil && (a > major || a == major && b >= minor)
}

// String is a short sentence for tables.
func (g GDR) String() string {
	var have []string
	if g.PeerMemory != "" {
		have = append(have, "peer memory module "+g.PeerMemory)
	}
	if g.DMABuf {
		have = append(have, "kernel with DMA-BUF")
	}
	if g.GDRCopy {
		have = append(have, "GDRCopy")
	}
	switch {
	case len(have) > 0:
	case g.kernel == "":
		return "no peer memory module; the kernel's release is unknown"
	default:
		return "none: no peer memory module, and the kernel is older than 5.12"
	}
	return strings.Join(have, ", ")
}
