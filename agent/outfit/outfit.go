// Package outfit is PURE: what a job's processes on one host are started with, made of the launch and of what is known
// of the host.
//
//	apiv1.Launch ──Parse──▶ Launch ──Needs──▶ (who reads the host) ──▶ Host
//	Job{Launch, programs, Bound} + Host ──New──▶ Outfit, Notices, or why the job cannot be started
//	Outfit + rank + Way ──Of──▶ Rank: argv, variables with their reasons, CPUs, memory
//
// A variable comes from the container, from the user, or from mpiup, in this order. A later one of a name replaces an
// earlier one in its place. What mpiup gives is a list of sources, each with its reason, which `mpiup env` shows. Where a
// library's behaviour is at stake, what the user or the container says stays.
//
// Concurrency: a Launch and an Outfit do not change once they are made, so Of may be called by several goroutines.
//
// It reads nothing, starts nothing and knows no session.
package outfit

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/rdma"
)

// Program is one of a launch's programs, and what was found out of it here.
type Program struct {
	App      *apiv1.App // with copied files in their places
	Dir      string     // where its ranks run
	Protocol apiv1.Pmi  // of its ranks; PMI_NONE: they do not speak with us
	NCCL     string     // its NCCL's version, "" unknown
	Torch    string     // its torch's version, "" none
	OldHwloc bool       // it cannot read what Job.Hint has
	OpenMPI  bool       // it loads Open MPI
	First    string     // it is linked with this runtime of ASan, which bears no library before it; "": none
}

// Job is one job's part on this host.
type Job struct {
	*Launch
	Session  string
	Programs []Program // by the launch's apps
	Bound    *Bound
	Hint     string // hwloc's XML of the machine; "": none
	Files    string // where the launcher's files are; "": nowhere
	Recorder frameworks.Recorder
	Inspects string // a rank's number behind it is the folder that NCCL's Inspector may write to; "": none
}

// Host is what is known of this host. What Launch.Needs does not name may be missing.
type Host struct {
	Name          string
	Env           []string      // the container's
	FileGPUs      gpu.Inventory // as files tell
	GPUs          gpu.Inventory // by the best source
	HCAs          rdma.Inventory
	NoFabric      bool // no fabric device is here, and no GPU
	Locked        rdma.Locked
	Interfaces    host.Network
	InterfacesErr error                 // why they are not known
	MCAFiles      map[string]rdma.Param // what Open MPI's own files set
	OldTorchrun   bool                  // Debian 12's
	Account       func() host.Account   // whose shell runs what Exec.shell hands over
}

// Notice is a line for the user.
type Notice struct {
	Warning bool
	Text    string
}

// Outfit is what all ranks of a job here share.
type Outfit struct {
	job      Job
	host     Host
	notices  []Notice
	near     []gpu.Unit // GPUs that ranks' RDMA devices are to be near to
	noFabric bool       // no fabric device is here, and ranks may be told so
	hcas     rdma.Inventory
	net      Choice
	mcaFiles map[string]rdma.Param // that set what the network's variables say
	gpus     gpuChoice
}

// New makes the choices for a job. What users are to be told comes with an error too.
func New(j Job, h Host) (*Outfit, []Notice, error) {
	o := &Outfit{job: j, host: h}
	err := j.unfit
	for _, choose := range []func() error{o.chooseFabric, o.chooseNet, o.chooseGPUs} {
		if err == nil {
			err = choose()
		}
	}
	return o, o.notices, err
}

func (o *Outfit) notice(warning bool, format string, args ...any) {
	o.notices = append(o.notices, Notice{warning, fmt.Sprintf(format, args...)})
}

// speaks says that ranks of a program here use the protocol.
func (o *Outfit) speaks(which apiv1.Pmi) bool {
	return slices.ContainsFunc(o.job.Procs, func(p *apiv1.Proc) bool { return o.job.Programs[p.App].Protocol == which })
}

// GPUs is the variables by which a rank sees some of the host's GPUs; nil: it sees all.
func (o *Outfit) GPUs(rank uint32) []string { return o.gpus.variables[rank] }

// Way is what a rank is told by who serves it.
type Way struct {
	Wire []string // variables of its PMI
	Gloo uint16   // where Horovod's ranks meet; 0: nowhere
}

// Rank is what a process is started with.
type Rank struct {
	Argv   []string
	Path   string // the program, where that is not the first word; "": it is
	Env    []string
	CPUs   idset.Set // empty: it is not bound
	Memory *int      // the NUMA node whose memory it gets first; nil: any
}

// Of is a process's outfit.
func (o *Outfit) Of(p *apiv1.Proc, w Way) Rank {
	l, app := o.job.Launch, o.job.Programs[p.App].App
	sources := o.sources(p, w)
	var computed []string
	for _, s := range sources {
		computed = append(computed, s.vars...)
	}
	r := Rank{CPUs: o.job.Bound.cpus[p.Rank]}
	r.Memory = o.job.Bound.memory(r.CPUs)
	r.Argv, r.Path = l.commandLine(app, p)
	if l.Exec.GetShell() {
		user := o.host.Account()
		r.Argv, r.Path = user.Argv(app.Argv[0]), user.Shell
		computed = append(computed, user.Variables(o.host.Env)...)
	}
	given := app.Env
	if l.Job.Expand {
		given = expanded(given, Environment(o.host.Env, taken(l.Launch), nil, computed))
	}
	r.Env = Environment(o.host.Env, taken(l.Launch), given, computed)
	if l.Job.Explain > 0 {
		r.explain(p.Rank+1 == l.Job.Explain, given, sources)
	}
	return r
}

// sources are what mpiup computes for a rank. Later ones win over earlier ones.
func (o *Outfit) sources(p *apiv1.Proc, w Way) []source {
	program := o.job.Programs[p.App]
	network := "--mpi-ports"
	if o.net.Name != "" {
		network = "MPI uses interface " + o.net.Name + ", since " + o.net.Why
	}
	list := []source{
		{"which rank of which job this is", computed(o.job.Session, program.Dir, o.job.Launch.Launch, p)},
		{"a program that saves when its hosts are taken away, and resumes (mpiup help preemption)", saving(o.job.Launch.Launch)},
		{"a program that records what it does below the run's trace (W3C Trace Context)", tracing(o.job.Launch.Launch, p)},
		{"how the rank's MPI library reaches its agent", w.Wire},
		{"the host's topology, so that libraries need not read /sys", hwlocVariables(o.job.Hint, program.OldHwloc, o.given(program.App))},
		{network, o.networkVariables(p)},
		{"what NCCL's Inspector measures is shown by the agent's /metrics", o.inspecting(p, program.App)},
		{"what a Python program has printed is not lost when it is ended", o.unbuffered(program.App)},
	}
	for _, v := range o.fabricVariables(p) {
		list = append(list, source{v.Why, []string{v.Name + "=" + v.Value}})
	}
	for _, v := range o.meetingVariables(p, w.Gloo) {
		list = append(list, source{v.Why, []string{v.Name + "=" + v.Value}})
	}
	return append(list,
		source{"the GPUs that the rank is given", o.gpuVariables(p)},
		source{"the CPUs that the rank is bound to", o.job.Bound.variables(p.Rank, program.Protocol, o.given(program.App))},
		source{"where the launcher's files were copied to", o.fileVariables()})
}

// unbuffered is for Python, which keeps what it prints to a pipe until there are 8 KiB of it. horovodrun sets the same.
func (o *Outfit) unbuffered(app *apiv1.App) []string {
	if o.job.Exec != nil || o.given(app)("PYTHONUNBUFFERED") {
		return nil
	}
	return []string{"PYTHONUNBUFFERED=1"}
}

// inspecting is for a rank whose user has switched NCCL's Inspector on and has not said where it writes to (agent/metrics).
func (o *Outfit) inspecting(p *apiv1.Proc, app *apiv1.App) []string {
	given := o.given(app)
	if o.job.Inspects == "" || !inspects(app.Env, o.host.Env) || given("NCCL_INSPECTOR_DUMP_DIR") || given("NCCL_INSPECTOR_PROM_DUMP") {
		return nil
	}
	const interval = "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"
	list := []string{"NCCL_INSPECTOR_PROM_DUMP=1", "NCCL_INSPECTOR_DUMP_DIR=" + o.job.Inspects + utoa(p.Rank)}
	if !given(interval) {
		list = append(list, interval+"=30000000") // the least that it takes
	}
	return list
}

func inspects(envs ...[]string) bool {
	on, _ := host.Lookup("NCCL_INSPECTOR_ENABLE", envs...)
	return on == "1"
}

// Inspected are the ranks here whose user has switched NCCL's Inspector on.
func (l *Launch) Inspected(container []string) (ranks []uint32) {
	for _, p := range l.Procs {
		if l.Exec == nil && l.Job.Explain == 0 && inspects(l.Apps[p.App].Env, container) {
			ranks = append(ranks, p.Rank)
		}
	}
	return ranks
}

// fileVariables tell ranks where the files of relative names are, as Open MPI does.
func (o *Outfit) fileVariables() []string {
	if o.job.Files == "" {
		return nil
	}
	return []string{"OMPI_FILE_LOCATION=" + o.job.Files, "MPIUP_FILES=" + o.job.Files}
}

// given says that the user or the container gives ranks of a program a variable.
func (o *Outfit) given(app *apiv1.App) func(name string) bool {
	return func(name string) bool { return names(app.Env, name) || names(o.host.Env, name) }
}
