package launcher

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
)

// tensorFlowRanks is how many ranks of one host may have a port of TensorFlow's.
const tensorFlowRanks = 64

// meetingPorts is how many ports agents are asked to reserve before it is known where rank 0 will be.
func (r *run) meetingPorts() uint32 {
	n := uint32(r.cfg.Frameworks.Ports())
	if r.cfg.Frameworks&frameworks.TensorFlow != 0 {
		n += tensorFlowRanks
	}
	return n
}

// meeting is where the ranks of the run's first job find each other; nil where frameworks are told
// nothing. Spawned jobs are MPI's own.
func (r *run) meeting(j *jobRun) *apiv1.Meeting {
	set := r.cfg.Frameworks
	switch {
	case j.number > 0 || r.exec != nil || r.cfg.Linger:
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
	if host := r.meetingAddress(first, len(j.hosts)); host.IsValid() {
		m.Host = host.String()
	}
	free := r.host(first).First.Opened.MeetingPorts
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
func (r *run) sayUnmet(j *jobRun, m *apiv1.Meeting) {
	set := r.cfg.Frameworks
	host := r.host(j.hosts[j.plan.Placements[0].Host]).Name
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
func (r *run) tensorFlow(j *jobRun) []string {
	list := make([]string, j.size())
	skip := r.cfg.Frameworks.Ports()
	for i, p := range j.plan.Placements {
		h := j.hosts[p.Host]
		ports, addr := r.host(h).First.Opened.MeetingPorts, r.meetingAddress(h, len(j.hosts))
		if skip+p.LocalRank >= len(ports) || !addr.IsValid() {
			return nil
		}
		list[i] = net.JoinHostPort(addr.String(), strconv.Itoa(int(ports[skip+p.LocalRank])))
	}
	return list
}

// meetingAddress is a host's as the others reach it: where we reached its agent, since names may resolve here
// only. The agent in this process has the address from which we reach another host.
func (r *run) meetingAddress(h, hosts int) netip.Addr {
	if at := r.host(h).First.Addr; at.IsValid() {
		return at.Addr().Unmap().WithZone("")
	}
	if hosts == 1 {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	for _, other := range r.places.hosts() {
		if at := other.First.Addr; at.IsValid() {
			return towards(at)
		}
	}
	return netip.Addr{}
}

// towards is this host's address on the way to another. A UDP socket that is connected sends nothing.
func towards(at netip.AddrPort) netip.Addr {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	own, ok := netip.AddrFromSlice(c.LocalAddr().(*net.UDPAddr).IP)
	if !ok {
		return netip.Addr{}
	}
	return own.Unmap()
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

// rendezvous passes what Horovod's ranks on one host put on to the job's other hosts, which check it.
func (r *run) rendezvous(from int, m *apiv1.Rendezvous) {
	if int(m.Job) >= len(r.jobs) {
		return
	}
	r.live(func(h int) {
		if h != from && slices.Contains(r.jobs[m.Job].hosts, h) {
			r.send(h, m.Frame())
		}
	})
}
