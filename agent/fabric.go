package agent

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// fabric is what the libraries of one job's ranks are told of RDMA here; the zero value tells nothing.
type fabric struct {
	use  rdma.Fabric
	nccl rdma.NCCL
	hcas rdma.Inventory
	gpus []gpu.Unit
	none bool // no fabric device is here, and ranks may be told so
}

// chooseFabric reads the host's HCAs for a job of several hosts, or one that asks for RDMA or an interface; none
// are known where TCP is to be used. A host without a usable one is an error where RDMA was asked for.
func (st *step) chooseFabric() (f fabric, err error) {
	l := st.launch
	if l.Exec != nil || len(l.Procs) == 0 {
		return f, nil
	}
	if f.use, err = rdma.ParseFabric(l.Job.Fabric.GetUse()); err != nil {
		return f, fmt.Errorf("--fabric: %w", err)
	}
	if f.nccl, err = rdma.ParseNCCL(l.Job.Fabric.GetNccl()); err != nil {
		return f, fmt.Errorf("--nccl: %w", err)
	}
	fsys := sysfs.Host()
	f.none = !l.Job.Fabric.GetNoHints() && st.speaks(apiv1.Pmi_PMI_PMIX) && st.s.agent.cfg.Inventory.GPUs == 0 && !rdma.HasFabric(fsys)
	if f.use == rdma.TCP || l.Job.Hosts < 2 && f.use != rdma.RDMA && l.Job.Net == "" {
		return f, nil
	}
	f.hcas = st.s.agent.host.HCAs()
	if len(f.hcas.HCAs) > 0 {
		f.gpus = st.s.agent.cfg.GPUs.Units()
	}
	return f, st.judgeFabric(&f)
}

// judgeFabric says what is missing: an error where RDMA was asked for, else a warning where one expects it, on a
// host of GPUs, with InfiniBand, or that was given a device. Many machines have an adapter of that kind as their
// Ethernet card.
func (st *step) judgeFabric(f *fabric) error {
	missing := f.hcas.Missing(checkup.LockedMemory())
	if f.use == rdma.RDMA && len(f.hcas.Usable()) == 0 {
		if len(missing) == 0 {
			missing = []string{"this machine has no RDMA device"}
		}
		return &missingFabric{missing}
	}
	if len(missing) > 0 {
		st.s.notice(len(f.gpus) > 0 || f.hcas.Wanted(), "%s", strings.Join(missing, "; "))
	}
	return nil
}

// missingFabric is the error of a host that lacks what was asked for.
type missingFabric struct{ sentences []string }

func (e *missingFabric) Error() string { return "--fabric rdma: " + strings.Join(e.sentences, "; ") }

// fabricVariables are a rank's. What its program's own environment says stays.
func (p *proc) fabricVariables(app *apiv1.App) (given []rdma.Variable) {
	f := &p.step.fabric
	set := func(name string) bool { return p.has(app, name) }
	rank := rdma.Rank{Number: int(p.spec.LocalRank), Alone: len(p.step.launch.Procs) == 1, NCCL: p.step.nccl[p.spec.App], GPUs: len(f.gpus) > 0, GPU: p.ownGPU(), CPUs: p.step.bound().cpus[p.spec.Rank]}
	list := append(f.hcas.Variables(f.use, rank), f.nccl...)
	if f.none && p.step.protocolOf(p.spec.App) == apiv1.Pmi_PMI_PMIX {
		list = append(list, rdma.OpenMPIHints(set, p.step.mcaFiles())...)
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
func (p *proc) ownGPU() topology.PCIPath {
	if u, ok := p.step.gpus.first[p.spec.Rank]; ok {
		return u.GPU.Path
	}
	if u, ok := gpu.UnitOf(p.step.fabric.gpus, int(p.spec.LocalRank)); ok {
		return u.GPU.Path
	}
	return topology.PCIPath{}
}
