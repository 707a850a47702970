package gpu

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

const (
	nvidiaGPUs = "proc/driver/nvidia/gpus"         // a directory by PCI address
	nvidiaCaps = "proc/driver/nvidia/capabilities" // gpuMINOR/mig/giN/ciM/access
)

// nvidia finds the GPUs that the driver tells of and those whose /dev/nvidiaN is here; nvidiactl,
// nvidia-uvm and the like are others. What each is, /proc/driver/nvidia/gpus/ADDRESS/information says. It
// may be hidden, and in a pod it may show GPUs of others.
func (r reader) nvidia(env LookupEnv) (gpus []Seen) {
	minors := r.fs.Numbers("dev", "nvidia", maxMinor)
	var told idset.Set // of minors
	known, _ := r.fs.Names(nvidiaGPUs)
	for _, name := range known[:min(len(known), maxGPUs)] {
		at, err := topology.ParsePCIAddr(name)
		if err != nil {
			continue
		}
		g := r.nvidiaGPU(at, name)
		if g.Missing == "" && !r.bare && !minors.Contains(g.Minor) {
			g.Missing = fmt.Sprintf("/dev/nvidia%d", g.Minor)
		}
		gpus = append(gpus, g)
		if g.Minor >= 0 {
			told.Add(g.Minor)
		}
	}
	for n := range minors.Sub(told).All() {
		if len(gpus) < 2*maxGPUs {
			gpus = append(gpus, Seen{GPU: GPU{Minor: n}, Vendor: NVIDIA})
		}
	}
	for i := range gpus {
		gpus[i].MIG = r.instances(gpus[i].Minor)
		if withheld(env) && gpus[i].Usable() {
			gpus[i].Missing = "GPU in NVIDIA_VISIBLE_DEVICES"
		}
	}
	return gpus
}

// nvidiaGPU reads lines such as "Device Minor: \t 0" of NVIDIA's driver (nv-procfs.c). One that an
// administrator excluded (module parameter NVreg_ExcludedGpus) may be there, and works for nobody.
func (r reader) nvidiaGPU(at topology.PCIAddr, name string) Seen {
	g := Seen{GPU: GPU{At: at, Minor: -1}, Vendor: NVIDIA}
	text, err := r.fs.Text(nvidiaGPUs + "/" + name + "/information")
	excluded := false
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Model":
			g.Model = clean(value)
		case "GPU UUID":
			g.UUID = nvidiaName(value, "GPU-")
		case "Device Minor":
			g.Minor = decimal(value, maxMinor)
		case "GPU Excluded", "Blacklisted":
			excluded = value == "Yes"
		}
	}
	if err == nil && g.Minor < 0 {
		r.fs.Note(nvidiaGPUs+"/"+name+"/information", "no Device Minor from 0 to %d", maxMinor)
	}
	switch {
	case excluded:
		g.Missing = "driver for it: an administrator excluded it"
	case g.Minor < 0 && !r.bare:
		g.Missing = "/" + nvidiaGPUs + "/" + name + "/information"
	}
	return g
}

// instances are the MIG devices of a GPU whose capability files are here. A compute instance and its GPU instance
// each have an access file that names a /dev/nvidia-caps/nvidia-capN. A process may use the compute instance if it
// can open both (NVIDIA's MIG user guide, Device Nodes and Capabilities).
func (r reader) instances(minor int) (found []MIG) {
	dir := fmt.Sprintf("%s/gpu%d/mig", nvidiaCaps, minor)
	for instance := range r.fs.Numbers(dir, "gi", maxGPUs).All() {
		outer := fmt.Sprintf("%s/gi%d", dir, instance)
		if !r.granted(outer) {
			continue
		}
		for compute := range r.fs.Numbers(outer, "ci", maxGPUs).All() {
			if r.granted(fmt.Sprintf("%s/ci%d", outer, compute)) && len(found) < maxGPUs {
				found = append(found, MIG{Instance: instance, Compute: compute})
			}
		}
	}
	return found
}

// granted says that the device file that dir's access file names is here.
func (r reader) granted(dir string) bool {
	text, err := r.fs.Text(dir + "/access")
	if err != nil {
		return false
	}
	value, _ := sysfs.Field(text, "DeviceFileMinor:")
	n := decimal(value, maxMinor)
	return n >= 0 && r.fs.Exists(fmt.Sprintf("dev/nvidia-caps/nvidia-cap%d", n))
}

// maxMinor bounds device numbers; the kernel has 20 bits for them.
const maxMinor = 1<<20 - 1

// decimal is a number from 0 to limit, -1 of all else.
func decimal(text string, limit int) int {
	if text == "" || len(text) > 9 || strings.Trim(text, "0123456789") != "" {
		return -1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > limit {
		return -1
	}
	return n
}

// maxName bounds a model's name or a version.
const maxName = 128

// clean is a text as it may be shown and put into a variable: one line of printable characters.
func clean(text string) string {
	text = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) || c == '\uFFFD' {
			return -1
		}
		return c
	}, strings.TrimSpace(text))
	return text[:min(len(text), maxName)]
}

// nvidiaName is a UUID with its prefix, "" of all else. ("GPU-????????-…" stands where the driver
// has not woken the GPU yet.)
func nvidiaName(text, prefix string) string {
	id, ok := strings.CutPrefix(text, prefix)
	if !ok || id == "" || len(id) > maxName || strings.Trim(id, "0123456789abcdefABCDEF-/GPU") != "" {
		return ""
	}
	return text
}
