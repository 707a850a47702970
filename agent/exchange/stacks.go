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

// StackTime is for all tools together that look where processes are, before a run is ended. The launcher waits a little longer.
const StackTime = 4 * time.Second

const (
	maxStacks = 16      // processes that are looked at for one question
	maxIDs    = 1 << 20 // of a run's processes
)

// stacksOf are where processes here are, as far as the launcher may look.
func stacksOf(ctx context.Context, x *Exchange, wanted idset.Set) (told []*apiv1.ProcStack, notes []string) {
	if err := x.cfg.MayLook(); err != nil {
		return nil, []string{err.Error()}
	}
	if x.Stacks == nil {
		return nil, nil
	}
	var list []*ranks.Process
	var pids []int
	for _, p := range slices.SortedFunc(slices.Values(x.Jobs.Processes()), func(p, q *ranks.Process) int { return cmp.Compare(p.ID, q.ID) }) {
		if len(list) < maxStacks && wanted.Contains(int(p.ID)) && !p.Gone() {
			list, pids = append(list, p), append(pids, p.Pid())
		}
	}
	used, err := look.At(proctree.Proc{Root: "/proc"}, pids)
	if err != nil {
		return nil, []string{err.Error()}
	}
	var targets []look.Target
	for _, p := range list {
		if u := used[p.Pid()]; u.Processes > 0 {
			targets = append(targets, look.Target{PID: u.Main})
			told = append(told, &apiv1.ProcStack{Id: p.ID, Pid: int32(u.Main)})
		}
	}
	found, notes := x.Stacks(ctx, targets)
	for i := range found {
		told[i].Means, told[i].Frames = found[i].Means, found[i].Frames
	}
	return told[:len(found)], notes
}
