package usable

import (
	"io/fs"
	"strconv"
	"strings"
)

// gpus counts the GPUs this container was given, by their device files.
//
// NVIDIA_VISIBLE_DEVICES set to nothing, as MPI Operator sets it in the launcher (v0.8.2,
// newLauncherPodTemplate), or to "none" means no GPU even where a privileged container sees
// the files. "void" does not: specifications for CDI set it in containers that get GPUs, to
// keep NVIDIA's older hook away (NVIDIA/nvidia-container-toolkit#395).
func gpus(fsys fs.FS, env LookupEnv) (int, string) {
	visible, set := env("NVIDIA_VISIBLE_DEVICES")
	if !set || visible != "" && visible != "none" {
		if n := nvidia(fsys); n > 0 {
			return n, "nvidia"
		}
	}
	if n := amd(fsys); n > 0 {
		return n, "amd"
	}
	return 0, ""
}

// nvidia counts /dev/nvidia0, /dev/nvidia1 ...; nvidiactl, nvidia-uvm and the like are others.
func nvidia(fsys fs.FS) int {
	entries, err := fs.ReadDir(fsys, "dev")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e.Name(), "nvidia"); ok && digits(number) {
			n++
		}
	}
	return n
}

// amd counts the nodes of the kernel's compute driver that are GPUs (simd_count above 0; CPUs
// are nodes too) and whose render device was given to the container: /sys shows all GPUs of
// the machine, /dev/dri only the container's.
func amd(fsys fs.FS) int {
	if _, err := fs.Stat(fsys, "dev/kfd"); err != nil {
		return 0
	}
	const nodes = "sys/class/kfd/kfd/topology/nodes"
	entries, err := fs.ReadDir(fsys, nodes)
	if err != nil {
		return 0
	}
	minors := map[string]bool{}
	for _, e := range entries {
		text, err := readFile(fsys, nodes+"/"+e.Name()+"/properties")
		if err != nil {
			continue // another container's: the kernel answers EPERM (kfd_topology.c, device cgroup)
		}
		simds, _ := field(text, "simd_count ")
		minor, _ := field(text, "drm_render_minor ")
		if n, err := strconv.Atoi(simds); err != nil || n == 0 || !digits(minor) {
			continue
		}
		if _, err := fs.Stat(fsys, "dev/dri/renderD"+minor); err == nil {
			minors[minor] = true
		}
	}
	return len(minors)
}

func digits(s string) bool {
	return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}
