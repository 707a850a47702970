package rdma

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/topology/sysfs"
)

// Fabric devices besides those of verbs: Omni-Path, its predecessor, HPE's Slingshot.
var otherFabrics = []string{"hfi1", "ipath", "cxi"}

// HasFabric reports whether the container has a device file of any fabric, whatever its state: who has one may
// want it tried.
func HasFabric(fsys sysfs.FS) bool {
	names, _ := fsys.Names("dev/infiniband")
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "uverbs") }) {
		return true
	}
	names, _ = fsys.Names("dev")
	return slices.ContainsFunc(names, func(n string) bool { // hfi1_0, ipath0, cxi0
		head, _ := cutNumber(n)
		return slices.Contains(otherFabrics, strings.TrimSuffix(head, "_"))
	})
}

// Param is an MCA parameter that one of Open MPI's own files sets.
type Param struct{ File, Value string }

// OpenMPIHints keep Open MPI from trying transports that cannot work on a host without a fabric. It ends with
// the same choice either way (pml ob1 over shared memory and TCP); MPI_Init of two ranks on one host took
//
//	Open MPI 4.1.4 (Debian 12)    245 ms, with OMPI_MCA_pml=ob1                        34 ms
//	Open MPI 5.0 (Python wheel)  1105 ms, with OMPI_MCA_pml=ob1, OMPI_MCA_btl=^ofi     24 ms
//
// since libpsm2 and libpsm_infinipath wait 100 ms each when pml/cm opens them, and Open MPI 5's btl/ofi waits a
// second. No such hint made a measurable difference to MPICH (UCX and OFI) and Intel MPI. set says what the user or the container has given;
// params what Open MPI's files set, by the name of the variable.
func OpenMPIHints(set func(name string) bool, params map[string]Param) (list []Variable) {
	const why = "no fabric device is in this container, so Open MPI need not look for one"
	own := []string{"OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_opal_common_ucx_tls", "OMPI_MCA_opal_common_ucx_devices"}
	if !slices.ContainsFunc(own, set) && leaves(params["OMPI_MCA_pml"], "ob1") && excludes(params["OMPI_MCA_mtl"]) {
		list = append(list, Variable{"OMPI_MCA_pml", "ob1", why})
	}
	if !set("OMPI_MCA_btl") && excludes(params["OMPI_MCA_btl"]) {
		list = append(list, Variable{"OMPI_MCA_btl", without(params["OMPI_MCA_btl"], "ofi"), why})
	}
	return list
}

// leaves says that a parameter lets a component be chosen: it is not set, or excludes others only.
func leaves(p Param, component string) bool {
	list, exclusion := strings.CutPrefix(strings.TrimSpace(p.Value), "^")
	return p.Value == "" || exclusion && !slices.Contains(strings.Split(list, ","), component)
}

// without is a parameter that excludes what it did, and a component. Its file may be another Open MPI's, which the
// ranks' library does not read.
func without(p Param, component string) string {
	value := strings.TrimSpace(p.Value)
	switch {
	case value == "":
		return "^" + component
	case leaves(p, component):
		return value + "," + component
	}
	return value
}

// excludes says that a parameter is not set or excludes, so that nobody asks for one of them.
func excludes(p Param) bool {
	return p.Value == "" || strings.HasPrefix(strings.TrimSpace(p.Value), "^")
}
