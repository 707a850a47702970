package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/activity"
	"github.com/mpiup/mpiup/agent/procs"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/agent/stacks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"google.golang.org/protobuf/proto"
)

// maxUses bounds what an agent tells of what it runs.
const maxUses = 32

// uses is what launchers run here, the oldest first: whose it is, its program's file name without arguments, how many
// processes, and since when.
func (a *Agent) uses() (list []*apiv1.Use) {
	for _, s := range a.allSessions() {
		if u := s.use(); u != nil {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b *apiv1.Use) int {
		return cmp.Or(cmp.Compare(a.SinceNs, b.SinceNs), cmp.Compare(a.Launcher, b.Launcher))
	})
	return list[:min(len(list), maxUses)]
}

// use is what the session runs; nil: nothing.
func (s *session) use() *apiv1.Use {
	u := &apiv1.Use{Launcher: s.launcher.Host}
	for _, st := range s.steps() {
		if n := st.live(); n > 0 {
			if u.Procs == 0 {
				u.Program, u.SinceNs, u.Exec = programOf(st.launch.Launch), st.since.UnixNano(), st.launch.Exec != nil
			}
			u.Procs += uint32(n)
		}
	}
	if u.Procs == 0 {
		return nil
	}
	return u
}

// programOf is the file name of a launch's first program here.
func programOf(l *apiv1.Launch) string {
	if l.Exec.GetShell() || len(l.Apps) == 0 {
		return "shell"
	}
	app := uint32(0)
	if len(l.Procs) > 0 {
		app = l.Procs[0].App
	}
	name := path.Base(l.Apps[app].Argv[0])
	const most = 64
	return name[:min(len(name), most)]
}

// helloWithUses is hello for who asks what runs here.
func (a *Agent) helloWithUses() *apiv1.HelloReply {
	h := a.hello()
	h.Uses = a.uses()
	return h
}

func (a *Agent) allSessions() []*session {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*session, 0, len(a.sessions))
	for _, s := range a.sessions {
		all = append(all, s)
	}
	return all
}

// looksApart is the time between the two looks that say how many processors ranks use.
const looksApart = 300 * time.Millisecond

// ranks says what the ranks of all jobs here do. Who asks while somebody looks gets what that look sees.
func (a *Agent) ranks(ctx context.Context) (*apiv1.RanksReply, error) {
	v, err, _ := a.looks.Do("ranks", func() (any, error) {
		list := a.liveRanks()
		proc, pids := proctree.Proc{Root: "/proc"}, pidsOf(list)
		before, err := procs.Look(proc, pids)
		if err != nil {
			return &apiv1.RanksReply{Error: err.Error()}, nil
		}
		begun := time.Now()
		select { // nobody's context: others wait for the answer too
		case <-time.After(looksApart):
		case <-a.stopping:
		}
		after, err := procs.Look(proc, pids)
		if err != nil {
			return &apiv1.RanksReply{Error: err.Error()}, nil
		}
		return &apiv1.RanksReply{Ranks: a.rankStates(list, before, after, time.Since(begun))}, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*apiv1.RanksReply), ctx.Err()
}

// liveRanks are the ranks that run here, by launcher, job and rank; commands are none.
func (a *Agent) liveRanks() (list []*proc) {
	for _, s := range a.allSessions() {
		for _, st := range s.steps() {
			if st.launch.Exec == nil && st.launch.Job.Explain == 0 {
				list = append(list, slices.DeleteFunc(st.all(), func(p *proc) bool { return p.process.Over() })...)
			}
		}
	}
	slices.SortFunc(list, func(p, q *proc) int {
		s, t := p.step.s, q.step.s
		return cmp.Or(cmp.Compare(s.launcher.Host, t.launcher.Host), cmp.Compare(s.id, t.id), cmp.Compare(p.id, q.id))
	})
	return list
}

func pidsOf(list []*proc) []int {
	pids := make([]int, len(list))
	for i, p := range list {
		pids[i] = p.process.Pid()
	}
	return pids
}

// rankStates puts together what /proc shows of ranks and what the agent knows of them.
func (a *Agent) rankStates(list []*proc, before, after map[int]procs.Usage, apart time.Duration) (out []*apiv1.RankState) {
	memory := a.gpuMemory()
	waiting := map[*session]idset.Set{}
	for _, p := range list {
		u, there := after[p.process.Pid()]
		if !there {
			continue
		}
		st := p.step
		if _, known := waiting[st.s]; !known {
			waiting[st.s] = st.s.inFences()
		}
		m := &apiv1.RankState{Launcher: st.s.launcher.Host, Job: st.launch.Job.Id, Number: st.launch.Job.Number, Rank: p.spec.Rank,
			Pid: int32(p.process.Pid()), Main: int32(u.Main), Program: u.Name, State: string(rune(u.State)), Rss: u.RSS,
			Processes: uint32(u.Processes), Phase: phaseOf(p, waiting[st.s]), Syscall: u.Kernel.Syscall, Wchan: u.Kernel.Wchan}
		m.Cpu = max(0, (u.CPU-before[p.process.Pid()].CPU).Seconds()/apart.Seconds())
		wrote := p.wrote.Load()
		m.Wrote, m.SilentNs = wrote > 0, max(0, time.Now().UnixNano()-max(wrote, p.begun.UnixNano()))
		for _, uuid := range gpuNames(st.outfit.GPUs(p.spec.Rank)) {
			m.GpuMemory += memory[uuid]
		}
		out = append(out, m)
	}
	return out
}

// phaseOf is how far the rank's MPI library has come; inFence are ids that wait for others.
func phaseOf(p *proc, inFence idset.Set) apiv1.RankPhase {
	if p.step.protocolOf(p.spec.App) == apiv1.Pmi_PMI_NONE {
		return apiv1.RankPhase_PHASE_NONE
	}
	if inFence.Contains(int(p.id)) {
		return apiv1.RankPhase_PHASE_FENCE
	}
	switch apiv1.PmiState(p.pmi.Load()) {
	case apiv1.PmiState_PMI_RUNNING:
		return apiv1.RankPhase_PHASE_RUNNING
	case apiv1.PmiState_PMI_FINALIZED:
		return apiv1.RankPhase_PHASE_FINALIZED
	}
	return apiv1.RankPhase_PHASE_NEVER
}

// inFences are the ids of this host's that wait in fences.
func (s *session) inFences() (ids idset.Set) {
	for _, w := range s.engine.Waits(maxWaits) {
		ids = ids.Union(w.Entered)
	}
	return ids
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

// gpuNames are the UUIDs in variables that say which GPUs a rank sees.
func gpuNames(variables []string) []string {
	for _, kv := range variables {
		if list, ok := strings.CutPrefix(kv, "CUDA_VISIBLE_DEVICES="); ok {
			return strings.Split(list, ",")
		}
	}
	return nil
}

// stacks says where the ranks of all jobs here are. One such look goes on at a time.
func (a *Agent) stacks(ctx context.Context, r *apiv1.StacksRequest) (*apiv1.StacksReply, error) {
	wanted, err := idset.Parse(r.Ranks)
	if err != nil {
		return nil, fmt.Errorf("ranks %.80q: %w", r.Ranks, err)
	}
	if r.Signal != 0 && !slices.Contains(stacks.Signals, int(r.Signal)) {
		return nil, fmt.Errorf("signal %d is not one that ranks are asked by", r.Signal)
	}
	select {
	case a.traces <- struct{}{}:
		defer func() { <-a.traces }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	list := slices.DeleteFunc(a.liveRanks(), func(p *proc) bool { return r.Ranks != "" && !wanted.Contains(int(p.spec.Rank)) })
	used, err := procs.Look(proctree.Proc{Root: "/proc"}, pidsOf(list))
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(p *proc) bool { return used[p.process.Pid()].Processes == 0 })
	targets := make([]stacks.Target, len(list))
	for i, p := range list {
		targets[i] = stacks.Target{PID: used[p.process.Pid()].Main, Hear: func(f func([]byte)) func() {
			p.heard.Store(&f)
			return func() { p.heard.Store(nil) }
		}}
	}
	found, notes := stacks.Take(ctx, stacks.Config{Run: a.runTool, Signal: int(r.Signal)}, targets)
	reply := &apiv1.StacksReply{Notes: notes}
	for i, p := range list {
		st := p.step
		reply.Stacks = append(reply.Stacks, &apiv1.RankStack{Launcher: st.s.launcher.Host, Job: st.launch.Job.Id, Number: st.launch.Job.Number,
			Rank: p.spec.Rank, Pid: int32(targets[i].PID), Program: used[p.process.Pid()].Name, Means: found[i].Means, Frames: found[i].Frames})
	}
	return reply, nil
}

// runTool runs a program of the container's PATH, as one of this agent's processes.
func (a *Agent) runTool(ctx context.Context, argv []string, limit int) (string, error) {
	o, err := reap.Collect(ctx, a.super, reap.Command{Argv: argv, Env: a.cfg.Env}, limit)
	var failed *program.Error
	switch {
	case errors.As(err, &failed) && failed.Phase == program.PhaseExec:
		return "", stacks.ErrNoProgram
	case err == nil && o.Exit.Status() != 0:
		err = fmt.Errorf("%v: %s", o.Exit, o.Err)
	}
	return string(o.Out), err
}

// Bounds of the time between two looks at whether ranks work.
const (
	minActivity = time.Second
	maxActivity = time.Minute
)

// watchActivity looks now and then whether the job's ranks here work, and tells the launcher when that changes.
func watchActivity(st *step) {
	every := min(max(time.Duration(st.launch.Job.ActivityMs)*time.Millisecond, minActivity), maxActivity)
	t := time.NewTicker(every)
	defer t.Stop()
	var told *apiv1.Activity
	before, looked := map[int]activity.Sample{}, time.Now()
	for {
		select {
		case <-t.C:
		case <-st.ctx.Done():
			return
		}
		now, err := sampleRanks(st, before)
		if err != nil {
			return // without /proc there is nothing to see
		}
		m := activityOf(st.launch.Job.Number, activity.Count(before, now, time.Since(looked)))
		if len(before) > 0 && !proto.Equal(m, told) {
			told = m
			st.s.send(m.Frame())
		}
		before, looked = now, time.Now()
	}
}

// sampleRanks is what the job's ranks here have done so far, by id. GPUs are asked about only where nothing else shows work.
func sampleRanks(st *step, before map[int]activity.Sample) (map[int]activity.Sample, error) {
	list := slices.DeleteFunc(st.all(), func(p *proc) bool { return p.process.Over() })
	used, err := procs.Look(proctree.Proc{Root: "/proc"}, pidsOf(list))
	if err != nil {
		return nil, err
	}
	waiting, out := st.s.inFences(), map[int]activity.Sample{}
	quiet := true
	for _, p := range list {
		u, there := used[p.process.Pid()]
		if !there {
			continue
		}
		s := activity.Sample{CPU: u.CPU, IO: u.IO, Output: uint64(p.wrote.Load()), Library: uint64(phaseOf(p, waiting)),
			Running: u.State == 'R', Where: cmp.Or(u.Kernel.Syscall, u.Kernel.Wchan)}
		out[int(p.id)] = s
		old, known := before[int(p.id)]
		quiet = quiet && (!known || activity.Judge(old, s, time.Minute) != activity.Works)
	}
	if a := st.s.agent; quiet && a.watch != nil {
		gpus, _ := a.watch.Latest()
		for _, p := range list {
			if s, there := out[int(p.id)]; there {
				names := gpuNames(st.outfit.GPUs(p.spec.Rank))
				for _, g := range gpus {
					s.GPU = s.GPU || g.Usage.Compute > 0 && (len(names) == 0 || slices.Contains(names, g.UUID))
				}
				out[int(p.id)] = s
			}
		}
	}
	return out, nil
}

// activityOf is a tally for the launcher.
func activityOf(job uint32, t activity.Tally) *apiv1.Activity {
	m := &apiv1.Activity{Job: job, Works: t.Works.String(), Busy: t.Busy.String(), Idle: t.Idle.String()}
	for _, p := range t.Places {
		m.Places = append(m.Places, &apiv1.Place{Ids: p.IDs.String(), Where: p.Where})
	}
	return m
}
