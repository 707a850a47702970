package gpu

import (
	"fmt"
	"path"

	"github.com/mpiup/mpiup/topology"
)

const drm = "sys/class/drm"

// intel finds Intel's GPUs; this process must be able to open their render devices. One inside a processor is none
// for us, but Level Zero counts it. All of those are at device 2 of bus 0 (virtual functions too), where Intel puts
// nothing else.
func (r reader) intel() (discrete []Seen) {
	var all []Seen
	for minor := range r.fs.Numbers(drm, "renderD", maxMinor).All() {
		if len(all) == maxGPUs {
			break
		}
		link, err := r.fs.Link(fmt.Sprintf("%s/renderD%d", drm, minor))
		if err != nil {
			continue
		}
		// ../../devices/pci0000:00/0000:00:01.0/0000:03:00.0/drm/renderD128
		path, err := topology.ParsePCIPath(link, topology.NoIndex)
		if err != nil || !r.intelDriver(path.At()) {
			continue
		}
		all = append(all, Seen{GPU: GPU{At: path.At(), Minor: minor}, Vendor: Intel, Missing: r.missing(fmt.Sprintf("dev/dri/renderD%d", minor))})
	}
	next := 0
	for _, g := range order(all, ofSeen) {
		if g.Usable() {
			g.Number = next
			next++
		}
		if g.At.Domain == 0 && g.At.Bus == 0 && g.At.Device == 2 {
			continue
		}
		discrete = append(discrete, g)
	}
	return discrete
}

// intelDriver says that the function is Intel's, and that a driver has it that Level Zero can use.
func (r reader) intelDriver(at topology.PCIAddr) bool {
	dir := "sys/bus/pci/devices/" + at.String()
	if vendor, err := r.fs.Text(dir + "/vendor"); err != nil || vendor != "0x8086" {
		return false
	}
	driver, err := r.fs.Link(dir + "/driver")
	name := path.Base(driver)
	return err == nil && (name == "xe" || name == "i915")
}
