package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mpiup/mpiup/agent/exchange"
	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/metrics"
	"github.com/mpiup/mpiup/agent/ranks"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/agent/session"
	"github.com/mpiup/mpiup/agent/trace"
	"github.com/mpiup/mpiup/agent/watch"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/idset"
	"google.golang.org/protobuf/proto"
)

// looksApart is the time between the two looks that say how many processors ranks use.
const looksApart = 300 * time.Millisecond

// maxSeen bounds how long ago what somebody asks for was.
const maxSeen = time.Hour

// ranks says what the ranks of all jobs here do, and where they are where that is wanted. An error is a question that nobody asks.
func (a *Agent) ranks(ctx context.Context, r *apiv1.RanksRequest) (*apiv1.RanksReply, error) {
	q := r.GetStacks()
	wanted, err := idset.Parse(q.GetRanks())
	if err != nil {
		return nil, fmt.Errorf("ranks %.80q: %w", q.GetRanks(), err)
	}
	if q.GetSignal() != 0 && !slices.Contains(look.Signals, int(q.Signal)) {
		return nil, fmt.Errorf("signal %d is not one that ranks are asked by", q.Signal)
	}
	window := min(max(time.Duration(r.WindowNs), 0), maxSeen).Round(time.Second)
	v, _, _ := a.looks.Do(fmt.Sprint(window, r.Flight), func() (any, error) { return a.look(window, r.Flight), nil })
	reply := v.(*apiv1.RanksReply)
	if q != nil {
		reply = proto.CloneOf(reply)
		a.addStacks(ctx, reply, int(q.Signal), func(rank uint32) bool { return q.Ranks == "" || wanted.Contains(int(rank)) })
	}
	return reply, ctx.Err()
}

// look is one at all ranks. Who asks the same meanwhile gets what it sees.
func (a *Agent) look(window time.Duration, flight bool) *apiv1.RanksReply {
	list := a.sessions.Ranks()
	proc, leaders := proctree.Proc{Root: "/proc"}, make([]look.Leader, len(list))
	for i, p := range list {
		leaders[i] = p.Leader()
	}
	before, err := look.At(proc, leaders)
	if err != nil {
		return &apiv1.RanksReply{Error: err.Error()}
	}
	begun, waits := time.Now(), a.sessions.Waits(false, nil)
	select { // nobody's context: others wait for the answer too
	case <-time.After(looksApart):
	case <-a.ending.Done():
	}
	after, err := look.At(proc, leaders)
	if err != nil {
		return &apiv1.RanksReply{Error: err.Error()}
	}
	reply := &apiv1.RanksReply{Ranks: a.rankStates(list, before, after, time.Since(begun))}
	if window > 0 {
		a.addWaits(reply, list, after, window)
	}
	if flight {
		ctx, cancel := awake.Within(a.ending, exchange.DumpTime)
		reply.Flights = a.sessions.Flights(ctx)
		cancel()
	}
	for _, w := range a.sessions.Waits(true, waits) {
		reply.Waits = append(reply.Waits, w.RunWaits)
	}
	return reply
}

// ranksByState are how many ranks run here, by state (metrics.States).
func (a *Agent) ranksByState() map[string]int {
	n := map[string]int{}
	for _, p := range a.sessions.Ranks() {
		n[metrics.States[p.Phase(p.Waiting)]]++
	}
	return n
}

// rankStates puts together what /proc shows of ranks and what the agent knows of them.
func (a *Agent) rankStates(list []session.Rank, before, after map[int]look.Usage, apart time.Duration) (out []*apiv1.RankState) {
	memory := a.gpuMemory()
	for _, p := range list {
		u, there := after[p.Pid()]
		if !there {
			continue
		}
		l := p.Job.Launch.Job
		m := &apiv1.RankState{Launcher: p.Launcher, Job: l.Id, Number: l.Number, Rank: p.Spec.Rank, Id: p.ID,
			Pid: int32(p.Pid()), Main: int32(u.Main), Program: u.Name, State: string(rune(u.State)), Rss: u.RSS,
			Processes: uint32(u.Processes), Phase: p.Phase(p.Waiting), Syscall: u.Kernel.Syscall, Wchan: u.Kernel.Wchan, Mount: u.Kernel.Mount, Restarts: l.Restarts}
		m.Cpu = max(0, (u.CPU-before[p.Pid()].CPU).Seconds()/apart.Seconds())
		since, wrote := p.Quiet()
		m.Wrote, m.SilentNs = wrote, max(0, time.Now().UnixNano()-since)
		for _, uuid := range p.GPUNames() {
			m.GpuMemory += memory[uuid]
		}
		out = append(out, m)
	}
	return out
}

// addWaits adds what shows who makes others wait. rankStates has left out those that are gone.
func (a *Agent) addWaits(reply *apiv1.RanksReply, list []session.Rank, used map[int]look.Usage, window time.Duration) {
	proc := proctree.Proc{Root: "/proc"}
	at, load := watch.LoadOf(watch.Host)
	reply.Host = apiv1.PackHost(at, load)
	byPID := map[int32]session.Rank{}
	for _, p := range list {
		byPID[int32(p.Pid())] = p
	}
	sockets, _ := look.Traffic() // where it does not show, the host's counts are told
	for _, m := range reply.Ranks {
		u := used[int(m.Pid)]
		p := byPID[m.Pid]
		r := p.Job.Waits.Seen(p.ID, p.Client(), at-window)
		r.RankWork = watch.WorkOf(proc, u)
		r.Far, r.GPU = watch.FarOf(watch.Host, u.Main), p.Job.Devices.Slow(a.ending, p.GPUNames())
		own, _ := look.Own(proc, u.PIDs, sockets)
		for _, s := range own {
			r.Segments += uint64(s.Sent)
			r.Resent += uint64(s.Resent)
		}
		m.Waited, m.PeakRss = apiv1.PackWaits(r), look.Peak(proc, u.PIDs)
	}
}

// gpuMemory is how much of each GPU is in use, by its UUID, as far as the watch has told: the first question wakes it.
func (a *Agent) gpuMemory() map[string]uint64 {
	used := map[string]uint64{}
	if a.watch == nil {
		return used
	}
	gpus, _ := a.watch.Latest()
	for _, g := range gpus {
		used[g.UUID] = g.Usage.Memory
	}
	return used
}

// addStacks adds where those ranks are that are wanted.
func (a *Agent) addStacks(ctx context.Context, reply *apiv1.RanksReply, signal int, wanted func(rank uint32) bool) {
	byPID := map[int32]*apiv1.RankState{}
	for _, m := range reply.Ranks {
		byPID[m.Pid] = m
	}
	var procs []*ranks.Process
	var states []*apiv1.RankState
	for _, p := range a.sessions.Ranks() {
		if m := byPID[int32(p.Pid())]; m != nil && wanted(m.Rank) {
			procs, states = append(procs, p.Process), append(states, m)
		}
	}
	told, notes := exchange.StacksOf(ctx, procs, a.stacks(signal))
	for i, s := range told {
		states[i].Stack = s
	}
	reply.Notes = notes
}

// stacks says where processes are, which a signal asks if it is not 0. One such look goes on at a time; it waits for no other beyond ctx.
func (a *Agent) stacks(signal int) func(ctx context.Context, targets []look.Target) ([]look.Stack, []string) {
	return func(ctx context.Context, targets []look.Target) ([]look.Stack, []string) {
		select {
		case a.traces <- struct{}{}:
			defer func() { <-a.traces }()
		case <-ctx.Done():
			return nil, []string{"another mpiup stacks was looking at the ranks"}
		}
		return look.Take(ctx, look.StackConfig{Run: a.runTool, Signal: signal}, targets)
	}
}

// runTool runs a tool of the container's for what it prints, as one of this agent's processes; as another user where as is not nil.
func (a *Agent) runTool(ctx context.Context, argv []string, as *reap.User, limit int) (string, error) {
	o, err := reap.CollectTool(ctx, a.super, reap.Tool{Argv: argv, Env: a.cfg.Env, As: as}, limit)
	switch {
	case errors.Is(err, reap.ErrNoTool):
		return "", trace.ErrNoProgram
	case err == nil && o.Exit.Status() != 0:
		err = fmt.Errorf("%v: %s", o.Exit, o.Err)
	}
	return string(o.Out), err
}
