package gpu

import (
	"fmt"

	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// LookupEnv is os.LookupEnv or a test's: the container's environment.
type LookupEnv func(name string) (string, bool)

// Read is the inventory as files tell it. Without a GPU it tries to open five directories.
func Read(fsys sysfs.FS, env LookupEnv) Inventory {
	r := reader{fs: fsys}
	inv := Inventory{Vendor: NVIDIA, Source: "/proc/driver/nvidia"}
	if inv.GPUs = usable(r.nvidia(env)); len(inv.GPUs) > 0 {
		version, _ := fsys.Text("sys/module/nvidia/version")
		inv.Driver = clean(version)
	} else if inv.GPUs = usable(r.amd()); len(inv.GPUs) > 0 {
		inv.Vendor, inv.Source = AMD, "/sys/class/kfd"
		inv.Driver, _ = fsys.Text("sys/module/amdgpu/version") // of AMD's own package only
	} else if inv.GPUs = usable(r.intel()); len(inv.GPUs) > 0 {
		inv.Vendor, inv.Source = Intel, "/sys/class/drm"
	}
	if len(inv.GPUs) == 0 {
		return Inventory{}
	}
	if inv.Vendor == NVIDIA {
		number(inv.GPUs)
	}
	for i := range inv.GPUs {
		r.place(&inv.GPUs[i])
	}
	return inv
}

// usable is those of a list that this container may use, in their order.
func usable(all []Seen) (gpus []GPU) {
	for _, s := range order(all, ofSeen) {
		if s.Usable() {
			gpus = append(gpus, s.GPU)
		}
	}
	return gpus
}

// withheld: NVIDIA's GPUs are not for this container, even where a privileged one sees the files.
// So it is with NVIDIA_VISIBLE_DEVICES set to nothing, as MPI Operator sets it in the launcher
// (v0.8.2, newLauncherPodTemplate), or to "none". "void" is no such word: specifications for CDI set
// it in containers that get GPUs, to keep NVIDIA's older hook away
// (NVIDIA/nvidia-container-toolkit#395).
func withheld(env LookupEnv) bool {
	visible, set := env("NVIDIA_VISIBLE_DEVICES")
	return set && (visible == "" || visible == "none")
}

type reader struct {
	fs   sysfs.FS
	bare bool // no device files can be seen, so none is missed
}

// missing is a device file that this process cannot use; "": it can.
func (r reader) missing(name string) string {
	if r.bare || r.fs.Writable(name) {
		return ""
	}
	return "/" + name
}

// number counts GPUs in their order, as NVML does, and CUDA with CUDA_DEVICE_ORDER=PCI_BUS_ID.
func number(gpus []GPU) {
	for i := range gpus {
		gpus[i].Number = i
	}
}

// place finds where a GPU hangs and the CPUs near it (Documentation/ABI/testing/sysfs-bus-pci:
// numa_node, local_cpulist, local_cpus). Where /sys/bus/pci gives no path, it is at a host bridge of its own.
func (r reader) place(g *GPU) {
	if !g.Located() {
		return
	}
	dir := "sys/bus/pci/devices/" + g.At.String()
	node, err := r.fs.Int(dir + "/numa_node")
	if err != nil {
		node = topology.NoIndex
	}
	g.Near, _ = r.fs.List(dir + "/local_cpulist")
	if g.Near.Empty() {
		g.Near, _ = r.fs.Mask(dir + "/local_cpus")
	}
	if g.Near.Empty() && node >= 0 {
		g.Near, _ = r.fs.List(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", node))
	}
	link, err := r.fs.Link(dir)
	if err != nil {
		link = g.At.String()
	}
	if path, err := topology.ParsePCIPath(link, node); err == nil && path.At() == g.At {
		g.Path = path
	}
}
