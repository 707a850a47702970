package discover

import (
	"strings"

	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// identity is what the machine calls itself.
type identity struct {
	cpu   []topology.Info
	board []topology.Info
	power bool // an IBM POWER processor
}

// readIdentity reads the first processor of /proc/cpuinfo, and the board's names. The kernel makes
// cpuinfo's text as it is read, so no more is asked for than needed.
func readIdentity(f sysfs.FS) (id identity) {
	text, _ := f.Prefix("proc/cpuinfo", 4<<10)
	names := map[string]string{
		"vendor_id": "CPUVendor", "cpu family": "CPUFamilyNumber", "model": "CPUModelNumber", // x86
		"model name": "CPUModel", "stepping": "CPUStepping",
		"cpu": "CPUModel", "revision": "CPURevision", // POWER
		"CPU implementer": "CPUImplementer", "CPU architecture": "CPUArchitecture", // ARM
		"CPU variant": "CPUVariant", "CPU part": "CPUPart", "CPU revision": "CPURevision",
	}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			break // the empty line after a processor
		}
		value = strings.TrimSpace(value)
		if name := names[strings.TrimSpace(key)]; name != "" && value != "" {
			id.cpu = append(id.cpu, topology.Info{Name: name, Value: value})
			id.power = id.power || name == "CPUModel" && strings.HasPrefix(value, "POWER")
		}
	}
	for _, d := range []struct{ file, name string }{
		{"product_name", "DMIProductName"}, {"board_vendor", "DMIBoardVendor"}, {"board_name", "DMIBoardName"},
		{"chassis_type", "DMIChassisType"}, {"sys_vendor", "DMISysVendor"},
	} {
		if value, err := f.Text("sys/class/dmi/id/" + d.file); err == nil && value != "" {
			id.board = append(id.board, topology.Info{Name: d.name, Value: value})
		}
	}
	return id
}

// moduleOfCores: AMD families 15h and 16h have modules of two cores.
func (id identity) moduleOfCores() bool {
	var vendor, family string
	for _, i := range id.cpu {
		switch i.Name {
		case "CPUVendor":
			vendor = i.Value
		case "CPUFamilyNumber":
			family = i.Value
		}
	}
	return vendor == "AuthenticAMD" && (family == "21" || family == "22")
}
