package jobdata

import (
	"slices"
	"strconv"
	"strings"
)

// serverVersion is what clients take the server for: 4.2.9 was run with every libpmix from 3.1 to
// 7; without one, those of 3.x look other namespaces up by old rules and 7 refuses v3.
const serverVersion = "4.2.9"

// Environment is what a rank needs in order to find and understand the server: variables as NAME=VALUE, to be set over
// what it has. PMIX_* and OMPI_MCA_ess*, OMPI_MCA_orte_* that were inherited from another launcher must not be among
// the rest. It is empty for a job without ranks here.
//
// Open MPI before 5 believes to be started alone unless it finds one of the launchers it knows
// (orte/mca/schizo). Flux is the one whose variable nothing else reads; Open MPI 4.0 would then
// look for Flux's own PMI, which the exclusion of its component prevents.
func (j *Job) Environment(m Machine, rank int) []string {
	if j.Here < 0 {
		return nil
	}
	uri := "mpiup-agent." + strconv.Itoa(j.Here) + ";tcp4://" + m.Address
	env := []string{
		"PMIX_NAMESPACE=" + j.Namespace,
		"PMIX_RANK=" + strconv.Itoa(rank),
		"PMIX_SERVER_URI41=" + uri, // a client takes the newest it knows
		"PMIX_SERVER_URI4=" + uri,
		"PMIX_SERVER_URI3=" + uri,
		"PMIX_SERVER_URI21=" + uri,
		"PMIX_VERSION=" + serverVersion,
		"PMIX_GDS_MODULE=hash", // libpmix 5 and later would want shared memory of a layout of its own
		"PMIX_SECURITY_MODE=native",
		"PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_NON_DESC",
		"PMIX_HOSTNAME=" + j.Hosts[j.Here].Name,
		"FLUX_JOB_ID=1",
		"OMPI_MCA_pmix=" + componentsWithout(j.UserHas(rank, "OMPI_MCA_pmix")),
	}
	if m.SessionDir != "" {
		env = append(env, "PMIX_SERVER_TMPDIR="+m.SessionDir)
	}
	for _, name := range sharedMemory {
		if m.Shared != "" && j.UserHas(rank, name) == "" {
			env = append(env, name+"="+m.Shared)
		}
	}
	if j.Crowded && j.UserHas(rank, "OMPI_MCA_mpi_oversubscribe") == "" {
		env = append(env, "OMPI_MCA_mpi_oversubscribe=1")
	}
	return env
}

// sharedMemory are the parameters of Open MPI before 5 for where its segments lie whose names do not tell two agents' hosts apart.
var sharedMemory = []string{"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_osc_sm_backing_directory", "OMPI_MCA_osc_rdma_backing_directory"}

// componentsWithout excludes Open MPI's other ways to a launcher from what the user selects. A
// list of components to take stays as it is.
func componentsWithout(user string) string {
	list, excludes := strings.CutPrefix(user, "^")
	if user != "" && !excludes {
		return user
	}
	var names []string
	if list != "" {
		names = strings.Split(list, ",")
	}
	for _, name := range []string{"flux", "s1", "s2", "cray"} {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return "^" + strings.Join(names, ",")
}
