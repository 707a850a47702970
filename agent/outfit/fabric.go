package outfit

import (
	"errors"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology"
)

// chooseFabric looks at the host's HCAs for a job of several hosts, or one that asks for RDMA or an interface; none
// are known where TCP is to be used. A host without a usable one is an error where RDMA was asked for.
func (o *Outfit) chooseFabric() error {
	l, needs := o.job.Launch, o.job.Launch.Needs()
	if l.idle() {
		return nil
	}
	o.noFabric = needs.NoFabric && o.speaks(apiv1.Pmi_PMI_PMIX) && o.host.NoFabric
	if !needs.HCAs {
		return nil
	}
	o.hcas = o.host.HCAs
	if len(o.hcas.HCAs) > 0 {
		o.near = o.host.FileGPUs.Units()
	}
	return o.judgeFabric()
}

// judgeFabric says what is missing: an error where RDMA was asked for, else a warning where one expects it, on a
// host of GPUs, with InfiniBand, or that was given a device. Many machines have an adapter of that kind as their
// Ethernet card.
func (o *Outfit) judgeFabric() error {
	missing := o.hcas.Missing(o.host.Locked)
	if o.job.Launch.wishes.fabric == rdma.RDMA && len(o.hcas.Usable()) == 0 {
		if len(missing) == 0 {
			missing = []string{"this machine has no RDMA device"}
		}
		return errors.New("--fabric rdma: " + strings.Join(missing, "; "))
	}
	if len(missing) > 0 {
		o.notice(len(o.near) > 0 || o.hcas.Wanted(), "%s", strings.Join(missing, "; "))
	}
	return nil
}

// fabricVariables are a rank's. What its program's own environment says stays.
func (o *Outfit) fabricVariables(p *apiv1.Proc) (given []rdma.Variable) {
	l, program := o.job.Launch, o.job.Programs[p.App]
	set := o.given(program.App)
	rank := rdma.Rank{
		Number: int(p.LocalRank),
		Alone:  len(l.Procs) == 1,
		NCCL:   program.NCCL,
		GPUs:   len(o.near) > 0,
		GPU:    o.ownGPU(p),
		CPUs:   o.job.Bound.cpus[p.Rank],
	}
	list := append(o.hcas.Variables(l.wishes.fabric, rank), l.wishes.nccl.Variables()...)
	if o.noFabric && program.Protocol == apiv1.Pmi_PMI_PMIX {
		list = append(list, rdma.OpenMPIHints(set, o.host.MCAFiles)...)
	}
	for _, v := range list {
		if !set(v.Name) {
			given = append(given, v)
		}
	}
	return given
}

// ownGPU is where the GPU of a rank hangs, the first of those that it was given, else the one that goes with
// its local rank; the zero path without one.
func (o *Outfit) ownGPU(p *apiv1.Proc) topology.PCIPath {
	if u, ok := o.gpus.first[p.Rank]; ok {
		return u.GPU.Path
	}
	if u, ok := gpu.UnitOf(o.near, int(p.LocalRank)); ok {
		return u.GPU.Path
	}
	return topology.PCIPath{}
}
