package agent

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/agent/gloo"
	"github.com/mpiup/mpiup/agent/ports"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/network"
)

// maxMeetingPorts bounds what one session may have reserved: two for the job, and one a rank of TensorFlow's.
const maxMeetingPorts = 256

// reservePorts keeps ports of this host for a new session's ranks, as its Open wants them.
func (a *Agent) reservePorts(o *apiv1.Open) (list []uint32) {
	n := int(min(o.MeetingPorts, maxMeetingPorts))
	within, err := network.ParsePorts(o.MpiPorts)
	if n == 0 || err != nil { // a range that is none fails the launch, with its reason
		return nil
	}
	own := !within.IsZero()
	if !own {
		within = ports.Usual(os.DirFS("/"))
	}
	for _, p := range a.ports.Reserve(o.Session, n, within, own) {
		list = append(list, uint32(p))
	}
	return list
}

// meetingVariables are those by which frameworks find the other ranks.
func (p *proc) meetingVariables(app *apiv1.App) []frameworks.Variable {
	l := p.step.launch
	m := l.Meeting
	if m == nil || l.Exec {
		return nil
	}
	host, _ := netip.ParseAddr(m.Host) // none: nobody can be met
	set := frameworks.Set(m.Frameworks)
	// Open MPI 4 takes JAX's variable for a launcher's: to come to no server, and where there is one to be of another
	// job than those that it spawns (ompi_dpm_connect_accept of 4.1.4).
	if set&frameworks.JAXAlways == 0 && (l.Pmi == apiv1.Pmi_PMI_NONE || p.step.usesOpenMPI(p.spec.App)) {
		set &^= frameworks.JAX
	}
	gpus, narrowed := p.visibleGPUs(app)
	return frameworks.Variables(set, frameworks.Rank{
		Rank: int(p.spec.Rank), Size: int(l.Size), Local: int(p.spec.LocalRank), LocalSize: len(l.Procs),
		Node: int(p.spec.NodeRank), OnePerHost: m.OnePerHost, OldTorchrun: m.OnePerHost && oldTorchrun(), GPUs: gpus, Narrowed: narrowed,
		Cross: int(p.spec.CrossRank), CrossSize: int(p.spec.CrossSize), Host: p.step.s.agent.cfg.Name,
	}, frameworks.Meeting{Gloo: p.step.glooPort(p.spec.Rank), Host: host, Torch: uint16(m.Torch), JAX: uint16(m.Jax), TF: m.Tf}, frameworks.Given{
		User:      func(name string) bool { return names(app.Env, name) },
		Container: func(name string) bool { return names(p.step.s.agent.cfg.Env, name) },
	})
}

// usesOpenMPI says that ranks of a program here load Open MPI, as far as files show.
func (st *step) usesOpenMPI(app uint32) bool { return int(app) < len(st.openMPI) && st.openMPI[app] }

// oldTorchrun says that Debian's torch is here, which Debian 12 has in version 1.13.
func oldTorchrun() bool {
	_, err := os.Stat("/usr/lib/python3/dist-packages/torch/version.py")
	return err == nil
}

// names says that a list of NAME=value has a name.
func names(env []string, name string) bool {
	return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

// newGloo is where the job's Horovod ranks meet; nil where Horovod is told nothing.
func (st *step) newGloo() *gloo.Server {
	l := st.launch
	if frameworks.Set(l.Meeting.GetFrameworks())&frameworks.Horovod == 0 || l.Exec || len(l.Procs) == 0 {
		return nil
	}
	return gloo.New(gloo.Config{
		Check: st.maySpeak, Log: st.s.log,
		Send: func(u gloo.Update) {
			if l.Hosts > 1 {
				st.s.send(&apiv1.Frame{Body: &apiv1.Frame_Rendezvous{Rendezvous: &apiv1.Rendezvous{
					Job: l.Job, Scope: u.Scope, Epoch: u.Epoch, Rank: uint32(u.Rank) + 1, Key: u.Key, Value: u.Value, Done: u.Done}}})
			}
		},
		Full: func(err error) { st.s.notice(true, "%v", err) },
	})
}

// openGloo gives the ranks their ports where a program may use them: the user said so, or its Python has Horovod.
func (st *step) openGloo(dirs []string) error {
	l := st.launch
	if st.gloo == nil || frameworks.Set(l.Meeting.GetFrameworks())&frameworks.HorovodGloo == 0 && !st.hasHorovod(dirs) {
		return nil
	}
	ranks := make([]int, len(l.Procs))
	for i, p := range l.Procs {
		ranks[i] = int(p.Rank)
	}
	if err := st.gloo.Open(ranks); err != nil {
		return fmt.Errorf("a port for Horovod's rendezvous: %w", err)
	}
	st.wg.Go(func() { st.gloo.Run(st.ctx) })
	return nil
}

// hasHorovod says that a program of the job here runs a Python that has Horovod.
func (st *step) hasHorovod(dirs []string) bool {
	asked := make([]bool, len(st.launch.Apps)) // each program once, however many ranks it has
	for _, p := range st.launch.Procs {
		if !asked[p.App] && st.library(int(p.App), dirs[p.App]).Horovod {
			return true
		}
		asked[p.App] = true
	}
	return false
}

func (st *step) glooPort(rank uint32) uint16 {
	if st.gloo == nil {
		return 0
	}
	return st.gloo.Port(int(rank))
}

// rendezvous takes what Horovod's ranks on another host put.
func (s *session) rendezvous(m *apiv1.Rendezvous) {
	if st := s.job(m.Job); st != nil && st.gloo != nil {
		st.gloo.Apply(gloo.Update{Scope: m.Scope, Epoch: m.Epoch, Rank: int(m.Rank) - 1, Key: m.Key, Value: m.Value, Done: m.Done})
	}
}
