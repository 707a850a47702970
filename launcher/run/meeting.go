package run

import (
	"net/netip"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
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
	case j.number > 0 || r.cfg.Exec != nil || r.cfg.Linger:
		return nil
	case set == frameworks.None:
		return &apiv1.Meeting{Watch: true}
	}
	perHost := make([]int, len(j.hosts))
	for _, p := range j.plan.Placements {
		perHost[p.Host]++
	}
	m := &apiv1.Meeting{Frameworks: uint32(set), OnePerHost: len(perHost) == j.size(), Watch: true, Nodes: uint32(r.cfg.Nodes), Node: uint32(r.cfg.Node)}
	first := j.hosts[j.plan.Placements[0].Host]
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

// sayUnmet tells which frameworks' ranks cannot meet.
func (r *briefing) sayUnmet(j *jobRun, m *apiv1.Meeting) {
	set := r.cfg.Frameworks
	host := r.hosts[j.hosts[j.plan.Placements[0].Host]].Name
	from := "no port is free there"
	if !r.cfg.MPIPorts.IsZero() {
		from = "no port of --mpi-ports " + r.cfg.MPIPorts.String() + " is free there; widen it by two"
	}
	switch {
	case m.Host == "":
		r.say("ranks of torch and JAX get no address to meet at: that of host %s is unknown; give it with -x MASTER_ADDR=", host)
	case set&frameworks.Torch != 0 && m.Torch == 0:
		r.say("ranks of torch get no MASTER_PORT on host %s: %s, or give one with -x MASTER_PORT=", host, from)
	case set&frameworks.JAX != 0 && m.Jax == 0:
		r.say("ranks of JAX get no port to meet at on host %s: %s, or give one with -x JAX_COORDINATOR_ADDRESS=", host, from)
	}
	if set&frameworks.TensorFlow != 0 && len(m.Tf) == 0 {
		r.say("ranks get no TF_CONFIG: a host has fewer than one free port for each of its ranks (at most %d)", tensorFlowRanks)
	}
}

// tensorFlow is the address and port of each rank, of ports that follow the first ones; nil where a host has
// too few.
func (r *briefing) tensorFlow(j *jobRun) []string {
	list := make([]string, j.size())
	skip := r.cfg.Frameworks.Ports()
	for i, p := range j.plan.Placements {
		h := j.hosts[p.Host]
		ports, addr := r.hosts[h].Ports, r.hosts[h].Meets
		if skip+p.LocalRank >= len(ports) || !addr.IsValid() {
			return nil
		}
		list[i] = netip.AddrPortFrom(addr, uint16(ports[skip+p.LocalRank])).String()
	}
	return list
}

// cross is where a process stands among those of its local rank on other hosts, as Horovod counts.
type cross struct{ rank, size uint32 }

// crossRanks is that of each placement.
func crossRanks(plan *job.Plan) []cross {
	hosts := map[int][]int{} // of a local rank, in the order of the job's
	for _, p := range plan.Placements {
		hosts[p.LocalRank] = append(hosts[p.LocalRank], p.Host)
	}
	for _, list := range hosts {
		slices.Sort(list)
	}
	out := make([]cross, len(plan.Placements))
	for i, p := range plan.Placements {
		list := hosts[p.LocalRank]
		at, _ := slices.BinarySearch(list, p.Host)
		out[i] = cross{uint32(at), uint32(len(list))}
	}
	return out
}
