package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mpiup/mpiup/topology"
)

const (
	nvidiaGPUs = "proc/driver/nvidia/gpus"         // a directory by PCI address
	nvidiaCaps = "proc/driver/nvidia/capabilities" // gpuMINOR/mig/giN/ciM/access
)

// nvidia finds the GPUs that the driver tells of and those whose /dev/nvidiaN is here; nvidiactl,
// nvidia-uvm and the like are others. What each is, /proc/driver/nvidia/gpus/ADDRESS/information says. It
// may be hidden, and in a pod it may show GPUs of others.
func (r reader) nvidia(env LookupEnv) (gpus []Seen) {
	names, _ := r.fs.Names("dev")
	minors := map[int]bool{}
	for _, name := range names {
		if n, ok := numbered(name, "nvidia"); ok && len(minors) < maxGPUs {
			minors[n] = true
		}
	}
	known, _ := r.fs.Names(nvidiaGPUs)
	for _, name := range known[:min(len(known), maxGPUs)] {
		at, err := topology.ParsePCIAddr(name)
		if err != nil {
			continue
		}
		g := r.nvidiaGPU(at, name)
		if g.Missing == "" && !r.bare && !minors[g.Minor] {
			g.Missing = fmt.Sprintf("/dev/nvidia%d", g.Minor)
		}
		gpus = append(gpus, g)
		delete(minors, g.Minor)
	}
	for _, n := range slices.Sorted(maps.Keys(minors)) {
		gpus = append(gpus, Seen{GPU: GPU{Minor: n}, Vendor: NVIDIA})
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

// nvidiaDriver is the version of the loaded kernel module.
func (r reader) nvidiaDriver() string {
	version, err := r.fs.Text("sys/module/nvidia/version")
	if err != nil {
		return ""
	}
	return clean(version)
}

// instances are the MIG devices of a GPU whose capability files are here. A compute instance and its GPU instance
// each have an access file that names a /dev/nvidia-caps/nvidia-capN. A process may use the compute instance if it
// can open both (NVIDIA's MIG user guide, Device Nodes and Capabilities).
func (r reader) instances(minor int) (found []MIG) {
	dir := fmt.Sprintf("%s/gpu%d/mig", nvidiaCaps, minor)
	outer, err := r.fs.Names(dir)
	if err != nil {
		return nil
	}
	for _, gi := range outer[:min(len(outer), maxGPUs)] {
		instance, ok := numbered(gi, "gi")
		if !ok || !r.granted(dir+"/"+gi) {
			continue
		}
		inner, _ := r.fs.Names(dir + "/" + gi)
		for _, ci := range inner[:min(len(inner), maxGPUs)] {
			if compute, ok := numbered(ci, "ci"); ok && r.granted(dir+"/"+gi+"/"+ci) && len(found) < maxGPUs {
				found = append(found, MIG{Instance: instance, Compute: compute})
			}
		}
	}
	sortMIG(found)
	return found
}

// granted says that the device file that dir's access file names is here.
func (r reader) granted(dir string) bool {
	text, err := r.fs.Text(dir + "/access")
	if err != nil {
		return false
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "DeviceFileMinor:"); ok {
			n := decimal(strings.TrimSpace(value), maxMinor)
			return n >= 0 && r.fs.Exists(fmt.Sprintf("dev/nvidia-caps/nvidia-cap%d", n))
		}
	}
	return false
}

// maxMinor bounds device numbers; the kernel has 20 bits for them.
const maxMinor = 1<<20 - 1

// numbered is N of a name that is prefix and N.
func numbered(name, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	n := decimal(digits, maxMinor)
	return n, n >= 0
}

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
