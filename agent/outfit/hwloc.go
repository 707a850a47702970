package outfit

import "slices"

// hwlocNames are the variables by which hwloc is told where to look, ours first.
var hwlocNames = []string{"HWLOC_XMLFILE", "HWLOC_THISSYSTEM", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES",
	"HWLOC_FSROOT", "HWLOC_SYNTHETIC", "HWLOC_CPUID_PATH", "HWLOC_COMPONENTS"}

// hwlocVariables tell a rank of the file at path, unless a variable of hwlocNames is set already.
func hwlocVariables(path string, set func(name string) bool) []string {
	if path == "" || slices.ContainsFunc(hwlocNames, set) {
		return nil
	}
	return []string{"HWLOC_XMLFILE=" + path, "HWLOC_THISSYSTEM=1", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1"}
}

// LooksElsewhere says that a variable of the user's or the container's tells hwloc where to look.
func LooksElsewhere(value func(name string) string) bool {
	return slices.ContainsFunc(hwlocNames, func(name string) bool { return value(name) != "" })
}
