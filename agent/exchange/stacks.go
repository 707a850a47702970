package exchange

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/ranks"
	"github.com/mpiup/mpiup/agent/reap/proctree"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// StackTime is for all tools together that look where processes are, for one question of a launcher. The launcher waits a little longer.
const StackTime = 4 * time.Second

const (
	maxStacks = 16      // processes that are looked at for one question
	maxIDs    = 1 << 20 // of a run's processes
)

// stacksOf are where processes here are, as far as the launcher may look.
func (x *Exchange) stacksOf(ctx context.Context, wanted idset.Set) (told []*apiv1.ProcStack, notes []string) {
	if err := x.cfg.MayLook(); err != nil {
		return nil, []string{err.Error()}
	}
	if x.Stacks == nil {
		return nil, nil
	}
	var list []*ranks.Process
	for _, p := range slices.SortedFunc(slices.Values(x.Jobs.Processes()), func(p, q *ranks.Process) int { return cmp.Compare(p.ID, q.ID) }) {
		if len(list) < maxStacks && wanted.Contains(int(p.ID)) && !p.Gone() {
			list = append(list, p)
		}
	}
	told, notes = StacksOf(ctx, list, x.Stacks)
	return slices.DeleteFunc(told, func(m *apiv1.ProcStack) bool { return m == nil }), notes
}

// StacksOf says where each process is, as take sees it; nil for one that is gone, or of which it tells nothing.
func StacksOf(ctx context.Context, procs []*ranks.Process, take func(context.Context, []look.Target) ([]look.Stack, []string)) ([]*apiv1.ProcStack, []string) {
	leaders := make([]look.Leader, len(procs))
	for i, p := range procs {
		leaders[i] = p.Leader()
	}
	used, err := look.At(proctree.Proc{Root: "/proc"}, leaders)
	if err != nil {
		return nil, []string{err.Error()}
	}
	told := make([]*apiv1.ProcStack, len(procs))
	var targets []look.Target
	var of []int // indices of procs
	for i, p := range procs {
		if u := used[leaders[i].PID]; u.Processes > 0 {
			targets, of = append(targets, look.Target{PID: u.Main, Hear: p.Hear}), append(of, i)
		}
	}
	found, notes := take(ctx, targets)
	for k, s := range found {
		p := procs[of[k]]
		told[of[k]] = &apiv1.ProcStack{Id: p.ID, Pid: int32(targets[k].PID), Means: s.Means, Frames: s.Frames}
	}
	return told, notes
}
