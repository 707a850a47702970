package outfit

import (
	"net/netip"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
)

// meetingVariables are those by which frameworks find the other ranks.
func (o *Outfit) meetingVariables(p *apiv1.Proc, gloo uint16) []frameworks.Variable {
	l, program := o.job.Launch, o.job.Programs[p.App]
	m := l.Job.Meeting
	if m == nil || l.Exec != nil {
		return nil
	}
	host, _ := netip.ParseAddr(m.Host) // none: nobody can be met
	set := frameworks.Set(m.Frameworks)
	// Open MPI 4 takes JAX's variable for a launcher's: to come to no server, and where there is one to be of another
	// job than those that it spawns (ompi_dpm_connect_accept of 4.1.4).
	if set&frameworks.JAXAlways == 0 && (l.Job.Pmi == apiv1.Pmi_PMI_NONE || program.OpenMPI) {
		set &^= frameworks.JAX
	}
	gpus, narrowed := o.visibleGPUs(p)
	nodes, node := max(m.Nodes, 1), m.Node
	first, world := node*l.Job.Size, nodes*l.Job.Size
	var group frameworks.Group
	if m.World > 0 { // nodes that may be of several sizes, which told each other
		first, world = m.FirstRank, m.World
		group = frameworks.Group{Hosts: int(nodes), RoleRank: int(m.FirstRoleRank + p.Rank), RoleSize: int(m.RoleWorld)}
	}
	return frameworks.Variables(set, frameworks.Rank{
		Rank:        int(first + p.Rank),
		Size:        int(world),
		Torchrun:    group,
		Local:       int(p.LocalRank),
		LocalSize:   len(l.Procs),
		Node:        int(node + p.NodeRank),
		OnePerHost:  m.OnePerHost,
		OldTorchrun: m.OnePerHost && o.host.OldTorchrun,
		GPUs:        gpus,
		Narrowed:    narrowed,
		Cross:       int(p.CrossRank),
		CrossSize:   int(p.CrossSize),
		Host:        o.host.Name,
		Restarts:    int(l.Job.Failures),
		MaxRestarts: int(l.Job.MaxRestarts),
		Torch:       program.Torch,
		Recorder:    o.job.Recorder,
	}, frameworks.Meeting{Gloo: gloo, Host: host, Torch: uint16(m.Torch), JAX: uint16(m.Jax), TF: m.Tf}, frameworks.Given{
		User:      func(name string) bool { return names(program.App.Env, name) },
		Container: func(name string) bool { return names(o.host.Env, name) },
	})
}
