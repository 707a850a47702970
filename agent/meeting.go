package agent

import (
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/agent/ports"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/network"
)

// maxMeetingPorts bounds what one session may have reserved: two for the job, and one a rank of TensorFlow's.
const maxMeetingPorts = 256

// reservePorts keeps ports of this host for a new session's ranks, as its Open wants them.
func (a *Agent) reservePorts(o *apiv1.Open) (list []uint32) {
	n := int(min(o.MeetingPorts, maxMeetingPorts))
	within, err := network.ParsePorts(o.MpiPorts)
	if n == 0 || err != nil { // a range that is none fails the launch, with its reason
		return nil
	}
	own := !within.IsZero()
	if !own {
		within = ports.Usual(os.DirFS("/"))
	}
	for _, p := range a.ports.Reserve(o.Session, n, within, own) {
		list = append(list, uint32(p))
	}
	return list
}

// meetingVariables are those by which frameworks find the other ranks.
func (p *proc) meetingVariables(app *apiv1.App) []frameworks.Variable {
	l := p.step.launch
	m := l.Meeting
	if m == nil || l.Exec {
		return nil
	}
	host, _ := netip.ParseAddr(m.Host) // none: nobody can be met
	set := frameworks.Set(m.Frameworks)
	// Open MPI 4 takes JAX's variable for a launcher's: to come to no server, and where there is one to be of another
	// job than those that it spawns (ompi_dpm_connect_accept of 4.1.4).
	if l.Pmi == apiv1.Pmi_PMI_NONE || p.step.usesOpenMPI(p.spec.App) {
		set &^= frameworks.JAX
	}
	gpus, narrowed := p.visibleGPUs(app)
	return frameworks.Variables(set, frameworks.Rank{
		Rank: int(p.spec.Rank), Size: int(l.Size), Local: int(p.spec.LocalRank), LocalSize: len(l.Procs),
		Node: int(p.spec.NodeRank), OnePerHost: m.OnePerHost, GPUs: gpus, Narrowed: narrowed,
	}, frameworks.Meeting{Host: host, Torch: uint16(m.Torch), JAX: uint16(m.Jax), TF: m.Tf}, frameworks.Given{
		User:      func(name string) bool { return names(app.Env, name) },
		Container: func(name string) bool { return names(p.step.s.agent.cfg.Env, name) },
	})
}

// usesOpenMPI says that ranks of a program here load Open MPI, as far as files show.
func (st *step) usesOpenMPI(app uint32) bool { return int(app) < len(st.openMPI) && st.openMPI[app] }

// names says that a list of NAME=value has a name.
func names(env []string, name string) bool {
	return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}
