package run

import (
	"fmt"
	"net/netip"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
)

// tensorFlowRanks is how many ranks of one host may have a port of TensorFlow's.
const tensorFlowRanks = 64

// MeetingPorts is how many ports agents are asked to reserve before it is known where rank 0 will be.
func MeetingPorts(set frameworks.Set) uint32 {
	n := uint32(set.Ports())
	if set&frameworks.TensorFlow != 0 {
		n += tensorFlowRanks
	}
	return n
}

// meeting is where the ranks of the run's first job find each other; nil where frameworks are told
// nothing. Spawned jobs are MPI's own.
func (r *briefing) meeting(j *jobRun) *apiv1.Meeting {
	set := r.cfg.Frameworks
	switch {
	case j.Number > 0 || r.cfg.Exec != nil || r.cfg.Linger:
		return nil
	case set == frameworks.None, r.cfg.Adopted: // whose ranks have been told
		return &apiv1.Meeting{Watch: true}
	}
	m := &apiv1.Meeting{Frameworks: uint32(set), OnePerHost: len(j.Hosts) == j.Size(), Watch: true, Nodes: uint32(r.cfg.Nodes), Node: uint32(r.cfg.Node),
		World: uint32(r.cfg.Shares.World), FirstRank: uint32(r.cfg.Shares.FirstRank),
		RoleWorld: uint32(r.cfg.Shares.RoleWorld), FirstRoleRank: uint32(r.cfg.Shares.FirstRoleRank)}
	first := j.Hosts[j.Plan.Placements[0].Host]
	if host := r.hosts[first].Meets; host.IsValid() {
		m.Host = host.String()
	}
	free := r.hosts[first].Ports
	take := func(one frameworks.Set) (p uint32) {
		if set&one != 0 && len(free) > 0 {
			p, free = free[0], free[1:]
		}
		return p
	}
	m.Torch, m.Jax = take(frameworks.Torch), take(frameworks.JAX)
	if set&frameworks.TensorFlow != 0 {
		m.Tf = r.tensorFlow(j)
	}
	r.sayUnmet(j, m)
	return m
}

// sayUnmet tells which frameworks' ranks cannot meet: of those that nobody asked for by name, once ranks have loaded them.
func (r *briefing) sayUnmet(j *jobRun, m *apiv1.Meeting) {
	set := r.cfg.Frameworks
	host := r.hosts[j.Hosts[j.Plan.Placements[0].Host]].Name
	from := "no port is free there"
	if !r.cfg.MPIPorts.IsZero() {
		from = "no port of --mpi-ports " + r.cfg.MPIPorts.String() + " is free there; widen it by two"
	}
	r.unmet = map[string]string{}
	lack := func(framework string, asked bool, text string) {
		if r.unmet[framework] = text; asked {
			r.loaded(framework)
		}
	}
	for _, f := range []struct {
		name, what, variable string
		wanted, asked        bool
		port                 uint32
	}{
		{"torch", "MASTER_PORT", "MASTER_PORT", set&frameworks.Torch != 0, set&frameworks.Torchrun != 0 || set&frameworks.Auto != frameworks.Auto, m.Torch},
		{"JAX", "port to meet at", "JAX_COORDINATOR_ADDRESS", set&frameworks.JAX != 0, set&frameworks.JAXAlways != 0, m.Jax},
	} {
		switch {
		case f.wanted && m.Host == "":
			lack(f.name, f.asked, fmt.Sprintf("ranks of %s get no address to meet at: that of host %s is unknown; give it with -x MASTER_ADDR=", f.name, host))
		case f.wanted && f.port == 0:
			lack(f.name, f.asked, fmt.Sprintf("ranks of %s get no %s on host %s: %s, or give one with -x %s=", f.name, f.what, host, from, f.variable))
		}
	}
	if set&frameworks.TensorFlow != 0 && len(m.Tf) == 0 {
		r.say("ranks get no TF_CONFIG: a host has fewer than one free port for each of its ranks (at most %d)", tensorFlowRanks)
	}
}

// loaded says, once, that ranks of a framework which some have loaded cannot meet.
func (r *briefing) loaded(framework string) {
	if text := r.unmet[framework]; text != "" {
		delete(r.unmet, framework)
		r.say("%s", text)
	}
}

// tensorFlow is the address and port of each rank, of ports that follow the first ones; nil where a host has
// too few.
func (r *briefing) tensorFlow(j *jobRun) []string {
	list, skip := make([]string, j.Size()), r.cfg.Frameworks.Ports()
	for i, p := range j.Plan.Placements {
		h := j.Hosts[p.Host]
		ports, addr := r.hosts[h].Ports, r.hosts[h].Meets
		if skip+p.LocalRank >= len(ports) || !addr.IsValid() {
			return nil
		}
		list[i] = netip.AddrPortFrom(addr, uint16(ports[skip+p.LocalRank])).String()
	}
	return list
}
