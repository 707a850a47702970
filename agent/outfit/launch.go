package outfit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/rdma"
)

// Launch is an apiv1.Launch of which everything is parsed that is text in it.
type Launch struct {
	*apiv1.Launch
	cpus   map[uint32]idset.Set // of bound ranks, by rank in the job
	tools  [][]idset.Set        // the ranks of tools, by program
	wishes wishes
	unfit  error // why wishes could not be read
}

// wishes is what the user asks of the ranks' outfit.
type wishes struct {
	fabric rdma.Fabric
	nccl   rdma.NCCL
	net    job.Network
	ports  job.Ports
	gpus   gpu.Wish
}

// maxTools bounds the tools of one program.
const maxTools = 256

// Parse reads a launch. What a launcher cannot have meant is an error; what its user may have meant wrongly is New's.
func Parse(m *apiv1.Launch) (*Launch, error) {
	l := &Launch{Launch: m, cpus: map[uint32]idset.Set{}, tools: make([][]idset.Set, len(m.Apps))}
	if err := checkSaving(m.Job); err != nil {
		return nil, err
	}
	for _, p := range m.Procs {
		if p.Cpus == "" {
			continue
		}
		cpus, err := idset.Within(p.Cpus, layout.MaxThreads)
		if err != nil {
			return nil, fmt.Errorf("launch: rank %d with CPUs %.60q", p.Rank, p.Cpus)
		}
		if m.Exec != nil || cpus.Empty() {
			continue
		}
		l.cpus[p.Rank] = cpus
	}
	for i, a := range m.Apps {
		var err error
		if l.tools[i], err = toolRanks(a.Tools); err != nil {
			return nil, err
		}
	}
	l.wishes, l.unfit = wishesOf(m)
	return l, nil
}

// maxPath bounds a path in a launch, as Linux does (PATH_MAX).
const maxPath = 4096

// checkSaving looks at what a job tells its ranks of their hosts' end, and of the trace that they are in.
func checkSaving(j *apiv1.Job) error {
	if _, err := job.ParseTrace(j.Trace, j.TraceState); j.Trace != "" && err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	switch dir := j.CheckpointDir; {
	case j.PreemptSignal > 64:
		return fmt.Errorf("launch: signal %d, for ranks whose hosts are taken away, does not exist", j.PreemptSignal)
	case dir != "" && (dir[0] != '/' || len(dir) >= maxPath || strings.ContainsRune(dir, 0)):
		return fmt.Errorf("launch: checkpoint directory %.60q is no absolute path", dir)
	}
	return nil
}

// toolRanks is the ranks of what is to stand before a program.
func toolRanks(tools []*apiv1.Tool) (ranks []idset.Set, err error) {
	if len(tools) > maxTools {
		return nil, fmt.Errorf("launch: %d tools before one program; %d are possible", len(tools), maxTools)
	}
	ranks = make([]idset.Set, len(tools))
	for i, t := range tools {
		if len(t.Argv) == 0 || t.Argv[0] == "" {
			return nil, fmt.Errorf("launch: a tool has no name")
		}
		if t.Ranks == "" {
			continue
		}
		if ranks[i], err = idset.Parse(t.Ranks); err != nil {
			return nil, fmt.Errorf("launch: ranks of tool %.40s: %w", t.Argv[0], err)
		}
	}
	return ranks, nil
}

func wishesOf(m *apiv1.Launch) (w wishes, err error) {
	j := m.Job
	if w.gpus, err = gpu.ParseWish(int(j.GpusPerRank), j.GpuBind); err != nil || m.Exec != nil || len(m.Procs) == 0 {
		return w, err
	}
	if w.fabric, err = rdma.ParseFabric(j.Fabric.GetUse()); err != nil {
		return w, fmt.Errorf("--fabric: %w", err)
	}
	if w.nccl, err = rdma.ParseNCCL(j.Fabric.GetNccl()); err != nil {
		return w, fmt.Errorf("--nccl: %w", err)
	}
	if w.net, err = job.ParseNetwork(j.Net); err != nil {
		return w, fmt.Errorf("--net: %w", err)
	}
	if w.ports, err = job.ParsePorts(j.MpiPorts); err != nil {
		return w, fmt.Errorf("--mpi-ports: %w", err)
	}
	return w, nil
}

// idle says that the launch starts no ranks here.
func (l *Launch) idle() bool { return l.Exec != nil || len(l.Procs) == 0 }

// Needs says what an Outfit has to know of the host, which it takes time to find out.
type Needs struct {
	Layout     bool // where the bound ranks' CPUs lie
	GPUs       bool // by the best source
	HCAs       bool
	NoFabric   bool // whether no fabric device is here, if PMIx is spoken
	Interfaces bool
	MCAFiles   bool // if PMIx is spoken
	Torch      bool // whether torchrun is an old one
}

// Needs is what the launch needs to be known.
func (l *Launch) Needs() (n Needs) {
	if l.idle() || l.unfit != nil {
		return n
	}
	w, j := &l.wishes, l.Job
	n.Layout = len(l.cpus) > 0
	n.GPUs = !w.gpus.IsZero()
	n.NoFabric = !j.Fabric.GetNoHints()
	n.HCAs = w.fabric != rdma.TCP && (j.Hosts > 1 || w.fabric == rdma.RDMA || j.Net != "")
	n.Interfaces = !w.net.IsZero() || j.Hosts > 1
	n.MCAFiles = n.Interfaces || n.NoFabric || !w.ports.IsZero()
	n.Torch = j.Meeting.GetOnePerHost()
	return n
}

// commandLine is what a rank's process is started with: its words, and the program where that is not
// the first of them.
func (l *Launch) commandLine(app *apiv1.App, p *apiv1.Proc) (argv []string, path string) {
	for i, t := range app.Tools {
		if t.Ranks == "" || l.tools[p.App][i].Contains(int(p.Rank)) {
			return slices.Concat(t.Argv, app.Argv), ""
		}
	}
	if !app.IndexArgv {
		return app.Argv, ""
	}
	argv = slices.Clone(app.Argv)
	argv[0] += "-" + utoa(p.Rank)
	return argv, app.Argv[0]
}
