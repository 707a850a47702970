package agent

import (
	"slices"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// Most of a rank's MPI_Init is hwloc reading /sys, the same on every rank. So the agent reads the
// machine once and hands its ranks hwloc's XML of it:
//
//	HWLOC_XMLFILE                        a file in the agent's memory, /proc/PID/fd/N
//	HWLOC_THISSYSTEM=1                   it describes this machine: binding works as without
//	HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1 what the rank's cpuset allows is still asked of the kernel
//	pmix.hwlocxml2, PMI_hwloc_xmlfile    the same by PMIx (the text) and PMI (the file)
//
// It is a hint: where it cannot be made, ranks find out themselves.

// hint is what ranks of one job are told of the machine; empty fields: nothing.
type hint struct {
	path string // of a file with xml
	xml  string
}

// topologyHint makes a job's hint. A rank that looks for the machine elsewhere, by the user's or the
// container's will, gets none.
func (st *step) topologyHint() hint {
	s, l := st.s, st.launch
	if l.Exec != nil || l.Job.NoTopologyHint || len(l.Procs) == 0 || s.userLooksElsewhere() {
		return hint{}
	}
	xml, err := s.agent.host.XML()
	if err != nil {
		s.notice(false, "ranks find the host's topology themselves: %v", err)
		return hint{}
	}
	path, err := s.hints.Path(xml)
	if err != nil {
		s.notice(false, "ranks get no file of the host's topology, and find it themselves: %v", err)
	}
	return hint{path, xml}
}

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

// userLooksElsewhere: the command line's programs are told by the user where hwloc looks.
func (s *session) userLooksElsewhere() bool {
	return slices.ContainsFunc(hwlocNames, func(name string) bool { return s.userVariable(name) != "" })
}

// hwlocVariables are a rank's, by its program's own environment. hwloc 1 ends a rank's hwloc_topology_load
// with an error over our file (1.11.9, Ubuntu 18.04's, was tried). PMI and PMIx are asked by hwloc 2's users only.
func (p *proc) hwlocVariables(app *apiv1.App) []string {
	if p.step.oldHwloc[p.spec.App] {
		return nil
	}
	return hwlocVariables(p.step.hint.path, p.step.given(app))
}

// given says that the user or the container gives ranks of a program a variable.
func (st *step) given(app *apiv1.App) func(name string) bool {
	return func(name string) bool {
		is := func(kv string) bool { return strings.HasPrefix(kv, name+"=") }
		return slices.ContainsFunc(app.Env, is) || slices.ContainsFunc(st.s.agent.cfg.Env, is)
	}
}

func (p *proc) has(app *apiv1.App, name string) bool { return p.step.given(app)(name) }
