package ranks

import (
	"os"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/watch"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// bindingOf says where the bound ranks of a job lie on this host.
func bindingOf(st *Job) *outfit.Bound {
	if !st.Launch.Needs().Layout {
		return st.Launch.Bind(nil, nil)
	}
	l, m, err := st.s.Host.Layout()
	if err != nil {
		st.s.Log.Info("bound ranks are not told where they are", "cause", err)
	}
	return st.Launch.Bind(l, m)
}

// dress decides what a job's processes are started with.
func dress(st *Job) error {
	st.flight = newFlight(st)
	if m := st.Launch.Job; m.WatchMs > 0 && len(st.Launch.Procs) > 0 {
		of := make([]watch.Program, len(st.programs))
		for i, p := range st.programs {
			of[i] = watch.Program{Name: p.App.Argv[0], First: p.First}
		}
		st.Waits = watch.NewJob(st.s.Host, st.s.ID, m.Number, st.s.WatchLibrary, of, st.s.Notice)
	}
	if st.Launch.Job.Progress && len(st.Launch.Procs) > 0 {
		st.trails = watch.NewTrails(st.s.Host, st.s.ID, st.Launch.Job.Number, st.s.Notice)
	}
	if st.Launch.Exec == nil {
		st.Devices = checkup.WatchDevices(st.ctx, st.s.GPUs.GPUs, st.s.Host.Health, st.wg.Go)
	}
	o, notices, err := outfit.New(outfit.Job{Launch: st.Launch, Session: st.s.ID, Programs: st.programs, Bound: st.bound(),
		Hint: st.hint.path, Files: st.files, Recorder: st.recorder(),
		Inspects: st.s.Metrics.Inspect(st.s.ID, st.Launch.Job.Number, st.Launch.Inspected(st.s.Env))}, factsFor(st))
	for _, n := range notices {
		st.s.Notice(n.Warning, "%s", n.Text)
	}
	if st.outfit = o; err == nil && st.Launch.Job.Seats && len(st.Launch.Procs) > 0 {
		st.wg.Go(func() {
			on, _, _ := st.s.Host.Layout() // nil where it is not known
			st.send(o.Seats(on, st.s.Host.HCAs()).Frame())
		})
	}
	return err
}

// factsFor is what a job's outfit needs to know of this host.
func factsFor(st *Job) outfit.Host {
	s, needs := st.s, st.Launch.Needs()
	h := outfit.Host{Name: s.Name, Env: s.Env, FileGPUs: s.GPUs, Account: st.user}
	pmix := st.speaks(apiv1.Pmi_PMI_PMIX)
	if needs.NoFabric && pmix {
		h.NoFabric = s.Inventory.GPUs == 0 && !rdma.HasFabric(sysfs.Host())
	}
	if needs.HCAs {
		h.HCAs, h.Locked = s.Host.HCAs(), checkup.LockedMemory()
	}
	if needs.Interfaces {
		if h.Interfaces, h.InterfacesErr = host.Interfaces(h.HCAs); h.InterfacesErr != nil {
			st.s.Log.Info("no interface is chosen for MPI", "cause", h.InterfacesErr)
		}
	}
	if needs.MCAFiles && pmix {
		h.MCAFiles = st.mcaFiles()
	}
	if needs.GPUs {
		h.GPUs = s.Host.GPUs(st.may)
	}
	_, err := os.Stat("/usr/lib/python3/dist-packages/torch/version.py") // which Debian 12 has in version 1.13
	h.OldTorchrun = needs.Torch && err == nil
	return h
}

// mcaTime is how long Open MPI's files of parameters may take to be read, which lie where users name.
const mcaTime = 2 * time.Second

// mcaFiles are what they set.
func (st *Job) mcaFiles() map[string]rdma.Param {
	found, answered := awake.Call(mcaTime, func() map[string]rdma.Param { return host.MCAFiles(sysfs.Host(), st.s.Variable) })
	if !answered {
		st.s.Notice(true, "Open MPI's own files of parameters are left out: where $HOME, $OPAL_PREFIX, $PATH or OMPI_MCA_mca_base_param_files lead, a file system "+
			"does not answer; see to its mount")
	}
	return found
}

// verifyBinding says when a rank that was just started runs on CPUs that it was not bound to.
func verifyBinding(p *Process) {
	want := p.Job.bound().CPUs(p.Spec.Rank)
	if want.Empty() {
		return
	}
	got, err := p.process.CPUs()
	if err != nil || len(got) == 0 { // it has ended
		return
	}
	if now := idset.Of(got...); !want.Covers(now) {
		p.Job.s.Notice(true, "%v runs on CPUs %s, and was bound to %s: its program or a tool around it has bound it anew", p, now, want)
	}
}

// Most of a rank's MPI_Init is hwloc reading /sys, the same on every rank. So the agent reads the
// machine once and hands its ranks hwloc's XML of it:
//
//	HWLOC_XMLFILE                        a file in the agent's memory, /proc/PID/fd/N
//	HWLOC_THISSYSTEM=1                   it describes this machine: binding works as without
//	HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1 what the rank's cpuset allows is still asked of the kernel
//	pmix.hwlocxml2, PMI_hwloc_xmlfile    the same by PMIx (the text) and PMI (the file)
//
// It is a hint: where it cannot be made, ranks find out themselves.

// hintFor makes a job's hint. A rank that looks for the machine elsewhere, by the user's or the
// container's will, gets none.
func hintFor(st *Job) hint {
	l := st.Launch
	if l.Exec != nil || l.Job.NoTopologyHint || len(l.Procs) == 0 || outfit.LooksElsewhere(st.s.Variable) {
		return hint{}
	}
	xml, err := st.s.Host.XML()
	if err != nil {
		st.s.Notice(false, "ranks find the host's topology themselves: %v", err)
		return hint{}
	}
	path, err := st.s.Hints.Path(xml)
	if err != nil {
		st.s.Notice(false, "ranks get no file of the host's topology, and find it themselves: %v", err)
	}
	return hint{path, xml}
}
