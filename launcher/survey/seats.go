package survey

import (
	"context"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/rdma"
)

// Seating is a job whose ranks have a plan and are not started.
type Seating struct {
	Plan   *job.Plan
	Apps   []job.App
	GPUs   gpu.Wish
	Fabric rdma.Wish
	Net    string
}

// Seats asks the hosts of a plan, which are in its order, for their machines and which devices each rank would be given
// there.
func Seats(ctx context.Context, hosts []Host, j Seating) []placement.Machine {
	all := make([]placement.Machine, len(hosts))
	InParallel(len(hosts), func(i int) {
		if err := hosts[i].Error; err != nil || hosts[i].Agent == nil {
			all[i].Error = fmt.Sprintf("it was not asked for its machine: %v", err)
			return
		}
		ctx, cancel := awake.Within(ctx, lookTime)
		defer cancel()
		reply, err := hosts[i].Agent.Checkup(ctx, &apiv1.CheckupRequest{Ranks: uint32(hosts[i].Ranks), Argv: j.Apps[0].Argv,
			Launch: j.launch(i)})
		switch {
		case err != nil:
			all[i].Error = err.Error()
		case reply.GetSeats() == nil:
			all[i].Error = "its agent is of a version that does not tell of its machine"
		default:
			all[i] = MachineOf(reply.Seats)
			all[i].Seats = SeatsOf(reply.Seats)
		}
	})
	return all
}

// launch is what a host would be told of its ranks, as far as their seats depend on it.
func (j *Seating) launch(host int) *apiv1.Launch {
	l := &apiv1.Launch{Job: &apiv1.Job{Size: uint32(len(j.Plan.Placements)), Hosts: uint32(len(j.Plan.Hosts)),
		Net: j.Net, GpusPerRank: uint32(j.GPUs.PerRank), GpuBind: j.GPUs.Bind(),
		Fabric: &apiv1.Fabric{Use: string(j.Fabric.Fabric), NoHints: true}}}
	for _, a := range j.Apps {
		l.Apps = append(l.Apps, &apiv1.App{Argv: a.Argv, Env: a.Env})
	}
	for _, p := range j.Plan.Placements {
		if p.Host == host {
			l.Procs = append(l.Procs, &apiv1.Proc{Rank: uint32(p.Rank), App: uint32(p.App), LocalRank: uint32(p.LocalRank),
				Cpus: p.CPUs.String()})
		}
	}
	return l
}

// Bounds of what a host tells.
const (
	maxDevices = 1 << 10
	maxSeats   = apiv1.MaxProcs
)

// MachineName is the same for machines of which the same is told, whatever ranks have of them.
func MachineName(m *apiv1.Seats) string {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&apiv1.Seats{Machine: m.GetMachine(), Gpus: m.GetGpus(), Hcas: m.GetHcas()})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// MachineOf is what a host tells of its machine.
func MachineOf(m *apiv1.Seats) placement.Machine {
	out := placement.Machine{Error: m.GetError(), GPUs: devicesOf(m.GetGpus()), HCAs: devicesOf(m.GetHcas())}
	var err error
	if out.Layout, err = apiv1.UnpackMachine(m.GetMachine()); err != nil {
		out.Error = err.Error()
	}
	return out
}

// SeatsOf is which of its devices a host's ranks have, by rank.
func SeatsOf(m *apiv1.Seats) map[int]placement.Seat {
	all := map[int]placement.Seat{}
	for _, s := range m.GetSeats()[:min(len(m.GetSeats()), maxSeats)] {
		seat := placement.Seat{All: s.GetAllGpus(), HCAs: s.GetHcas()[:min(len(s.GetHcas()), maxDevices)]}
		for _, n := range s.GetGpus()[:min(len(s.GetGpus()), maxDevices)] {
			if int(n) < min(len(m.GetGpus()), maxDevices) { // else the host says that it has no such GPU
				seat.GPUs = append(seat.GPUs, int(n))
			}
		}
		all[int(s.GetRank())] = seat
	}
	return all
}

func devicesOf(list []*apiv1.SeatDevice) (all []placement.Device) {
	for _, d := range list[:min(len(list), maxDevices)] {
		near, err := idset.Within(d.GetNearCpus(), layout.MaxThreads)
		if err != nil {
			near = idset.Set{}
		}
		all = append(all, placement.Device{Name: d.GetName(), Text: d.GetText(), Missing: d.GetMissing(), Near: near})
	}
	return all
}

// NearGPUs is the CPUs near the GPUs of each local rank of a host, of those that it was wished to see;
// without a wish near one each. nil: there is no GPU, or where one is is not known.
func NearGPUs(units []*apiv1.GpuUnit, wish gpu.Wish) (near []idset.Set) {
	units = units[:min(len(units), maxDevices)]
	all := make([]idset.Set, len(units))
	for i, u := range units {
		cpus, err := idset.Within(u.GetNearCpus(), layout.MaxThreads)
		if err != nil || cpus.Empty() {
			return nil
		}
		all[i] = cpus
	}
	var sets []idset.Set
	switch {
	case len(wish.Sets) > 0 && len(all) > 0:
		sets = wish.Sets
	case wish.PerRank > 1:
		for first := 0; first+wish.PerRank <= len(all); first += wish.PerRank {
			sets = append(sets, idset.Range(first, first+wish.PerRank-1))
		}
	default:
		return all
	}
	for _, set := range sets {
		var cpus idset.Set
		for n := range set.All() {
			if n < len(all) { // else the agent says that it has no such GPU
				cpus = cpus.Union(all[n])
			}
		}
		near = append(near, cpus)
	}
	return near
}
