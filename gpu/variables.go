package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// visibility names the variables that tell a vendor's runtime which devices it has; the first is ours. Where the user
// or the container has set any of them, we set none: AMD's others and Intel's selector count among what the first
// leaves.
var visibility = map[Vendor][]string{
	NVIDIA: {"CUDA_VISIBLE_DEVICES"},
	AMD:    {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES"},
	Intel:  {"ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"},
}

// SetAlready is the variable by which the user already says which GPUs of a vendor a rank has; "" if there is none.
func SetAlready(v Vendor, set func(name string) bool) string {
	for _, name := range visibility[v] {
		if set(name) {
			return name
		}
	}
	return ""
}

// Variables make a rank see the chosen units and no others, "NAME=value". Units are named, where
// their names are known: numbers change meaning with CUDA_DEVICE_ORDER, and MIG devices have
// none. It is empty when nothing was chosen.
func Variables(v Vendor, units []Unit, chosen []int) ([]string, error) {
	if len(chosen) == 0 {
		return nil, nil
	}
	names := make([]string, len(chosen))
	numbers := make([]string, len(chosen))
	named := v != Intel // Level Zero knows numbers only
	for i, n := range chosen {
		u := units[n]
		names[i], numbers[i] = u.Name(), strconv.Itoa(u.GPU.Number)
		if names[i] == "" && u.MIG != nil {
			return nil, errors.New("MIG devices are known here, but not their names; put mpiup-nvml beside mpiup, or nvidia-smi on PATH")
		}
		named = named && names[i] != ""
	}
	list := names
	if !named {
		if slices.ContainsFunc(chosen, func(n int) bool { return units[n].MIG != nil }) {
			return nil, fmt.Errorf("GPUs with MIG devices and GPUs without names cannot be given to one rank")
		}
		list = numbers
	}
	vars := []string{visibility[v][0] + "=" + strings.Join(list, ",")}
	switch {
	case named:
	case v == NVIDIA:
		vars = append(vars, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	case v == Intel:
		vars = append(vars, "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1")
	}
	return vars, nil
}
