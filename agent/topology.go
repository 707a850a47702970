package agent

import (
	"github.com/mpiup/mpiup/agent/outfit"
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
	if l.Exec != nil || l.Job.NoTopologyHint || len(l.Procs) == 0 || outfit.LooksElsewhere(s.userVariable) {
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
