package agent

import (
	"os"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/mpinet"
	"github.com/mpiup/mpiup/agent/outfit"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// binding says where the bound ranks lie on this host.
func (st *step) binding() *outfit.Bound {
	if !st.launch.Needs().Layout {
		return st.launch.Bind(nil, nil)
	}
	l, m, err := st.s.agent.host.Layout()
	if err != nil {
		st.s.log.Info("bound ranks are not told where they are", "cause", err)
	}
	return st.launch.Bind(l, m)
}

// dress decides what the job's processes are started with.
func (st *step) dress() error {
	o, notices, err := outfit.New(outfit.Job{Launch: st.launch, Session: st.s.id, Programs: st.programs, Bound: st.bound(),
		Hint: st.hint.path, Files: st.files}, st.facts())
	for _, n := range notices {
		st.s.notice(n.Warning, "%s", n.Text)
	}
	st.outfit = o
	return err
}

// facts is what the job's outfit needs to know of this host.
func (st *step) facts() outfit.Host {
	a, needs := st.s.agent, st.launch.Needs()
	h := outfit.Host{Name: a.cfg.Name, Env: a.cfg.Env, FileGPUs: a.cfg.GPUs, Account: st.user, Expand: os.Expand}
	pmix := st.speaks(apiv1.Pmi_PMI_PMIX)
	if needs.NoFabric && pmix {
		h.NoFabric = a.cfg.Inventory.GPUs == 0 && !rdma.HasFabric(sysfs.Host())
	}
	if needs.HCAs {
		h.HCAs, h.Locked = a.host.HCAs(), checkup.LockedMemory()
	}
	if needs.Interfaces {
		var links []mpinet.Link
		if links, h.InterfacesErr = mpinet.Links(); h.InterfacesErr == nil {
			h.Interfaces = mpinet.Read(sysfs.Host(), links, h.HCAs)
		} else {
			st.s.log.Info("no interface is chosen for MPI", "cause", h.InterfacesErr)
		}
	}
	if needs.MCAFiles && pmix {
		h.MCAFiles = mpinet.MCAFiles(sysfs.Host(), st.s.userVariable)
	}
	if needs.GPUs {
		h.GPUs = a.host.GPUs(st.may)
	}
	h.OldTorchrun = needs.Torch && oldTorchrun()
	return h
}

// verifyBinding says when a rank that was just started runs on CPUs that it was not bound to.
func (p *proc) verifyBinding() {
	want := p.step.bound().CPUs(p.spec.Rank)
	if want.Empty() {
		return
	}
	got, err := p.process.CPUs()
	if err != nil || len(got) == 0 { // it has ended
		return
	}
	if now := idset.Of(got...); !want.Covers(now) {
		p.step.s.notice(true, "rank %d runs on CPUs %s, and was bound to %s: its program or a tool around it has bound it anew", p.spec.Rank, now, want)
	}
}

// oldTorchrun says that Debian's torch is here, which Debian 12 has in version 1.13.
func oldTorchrun() bool {
	_, err := os.Stat("/usr/lib/python3/dist-packages/torch/version.py")
	return err == nil
}
