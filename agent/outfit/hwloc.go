package outfit

import "slices"

// hwlocNames are the variables by which hwloc is told where to look, ours first.
var hwlocNames = []string{"HWLOC_XMLFILE", "HWLOC_THISSYSTEM", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES",
	"HWLOC_FSROOT", "HWLOC_SYNTHETIC", "HWLOC_CPUID_PATH", "HWLOC_COMPONENTS"}

// hwlocVariables tell a rank of the file at path, unless a variable of hwlocNames is set already. old: its program has hwloc 1, which ends
// a rank's hwloc_topology_load with an error over our file (1.11.9, Ubuntu 18.04's, was tried). PMI and PMIx are asked by hwloc 2's users only.
func hwlocVariables(path string, old bool, set func(name string) bool) []string {
	if path == "" || old || slices.ContainsFunc(hwlocNames, set) {
		return nil
	}
	return []string{"HWLOC_XMLFILE=" + path, "HWLOC_THISSYSTEM=1", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1"}
}

// LooksElsewhere says that a variable of the user's or the container's tells hwloc where to look.
func LooksElsewhere(value func(name string) string) bool {
	return slices.ContainsFunc(hwlocNames, func(name string) bool { return value(name) != "" })
}
