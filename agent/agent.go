package agent

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/session"
	"github.com/mpiup/mpiup/agent/ways"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/wire"
	"golang.org/x/sync/singleflight"
)

// Agent is one host's part of all jobs on it.
type Agent struct {
	cfg      Config
	clock    *wire.Clock
	super    *reap.Supervisor
	host     *host.Host
	sessions *session.Table
	survey   *ways.Survey
	metrics  *metrics.Metrics
	watch    *metrics.Watch // nil: nobody can tell how busy GPUs are
	gossip   *member.Gossip // nil when embedded or switched off
	sought   bool           // gossip has asked for seeds
	front    *port.Port     // nil when embedded
	refusals bounded.Refusals
	looks    singleflight.Group // at what ranks do
	traces   chan struct{}      // holds one while ranks' stacks are looked at

	ending context.Context         // ends when the agent is to end; the cause is an *end
	stop   context.CancelCauseFunc // the first cause counts
	asked  sync.WaitGroup          // goroutines of questions
}

// end is why an agent ends.
type end struct {
	why  string
	told string // what the launcher said that ended it; empty: none did
	code int    // of its exit
}

// maxExit is the highest code that a process can end with.
const maxExit = 255

// Error is the reason.
func (e *end) Error() string { return e.why }

// Is says that it is a shutdown, by a launcher.
func (e *end) Is(target error) bool { return target == session.ErrShutdown && e.told != "" }

const sigtermCode = 128 + 15

// awaitEnd returns when the agent is to end, because ctx does or a launcher or the clock said so, and its sessions have.
func (a *Agent) awaitEnd(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.ending.Done():
	}
	e := &end{why: "the agent was told to end (SIGTERM)"}
	if a.sessions.Busy() {
		e.code = sigtermCode
	}
	a.stop(e)
	a.cfg.Log.Info("agent ends", "why", a.end().why, "code", a.end().code)
	a.sessions.Wait()
}

// Told is what the launcher said that ended this agent, once Run has returned; "" where none did.
func (a *Agent) Told() string { return a.end().told }

// end is why the agent ends, the first reason of all.
func (a *Agent) end() *end { return context.Cause(a.ending).(*end) }

// Attach serves one stream of a session of this process, whose launcher's name is host. It blocks until the stream breaks
// or the session is over.
func (a *Agent) Attach(ctx context.Context, stream wire.Stream, host string) error {
	return a.sessions.Attach(ctx, stream, session.Caller{Name: host})
}

// Survey is the agent's part in a launcher's look at the hosts.
func (a *Agent) Survey() *ways.Survey { return a.survey }

// address is where peers reach this agent, or would.
func (a *Agent) address() netip.Addr {
	if a.front != nil {
		return a.front.Advertised.Addr()
	}
	return port.Advertise(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)).Addr()
}

// Hello is what the agent says of itself.
func (a *Agent) Hello() *apiv1.HelloReply {
	r := &apiv1.HelloReply{
		Protocol:    apiv1.Protocol,
		Version:     a.cfg.Version,
		Name:        a.cfg.Name,
		Incarnation: a.cfg.Incarnation,
		Slots:       int32(a.cfg.Slots),
		Cpus:        int32(a.cfg.Inventory.CPUs),
		Gpus:        int32(a.cfg.Inventory.GPUs),
		GpuUnits:    gpuUnits(a.cfg.GPUs),
		Node:        a.cfg.Node,
		Arch:        a.cfg.Inventory.Arch,
		Digest:      a.cfg.Inventory.Digest(),
		ClockNs:     time.Now().UnixNano(),
		Sessions:    int32(a.sessions.Count()),
	}
	if a.cfg.Identity != nil {
		r.Scope = a.cfg.Identity.Scope()
	}
	if a.front != nil {
		r.Address = a.front.Advertised.String()
	}
	return r
}

// gpuUnits is what launchers are told of the GPUs that ranks here can be given.
func gpuUnits(inv gpu.Inventory) (units []*apiv1.GpuUnit) {
	for _, u := range inv.Units() {
		m := &apiv1.GpuUnit{Vendor: string(inv.Vendor), Uuid: u.Name(), Model: u.GPU.Model, NearCpus: u.GPU.Near.String()}
		if u.GPU.Located() {
			m.Pci = u.GPU.At.String()
		}
		units = append(units, m)
	}
	return units
}

// runForOutput runs a tool that tells of GPUs, as one of this agent's processes.
func (a *Agent) runForOutput(ctx context.Context, argv []string) (gpu.Result, error) {
	o, err := reap.CollectTool(ctx, a.super, reap.Tool{Argv: argv, Env: a.cfg.Env}, gpu.MaxReport)
	return gpu.Result{Out: o.Out, Err: o.Err, Code: o.Exit.Status()}, err
}
