package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/wire"
)

// abortBound is how long a rank that aborts is held for a launcher that says nothing.
const abortBound = 2 * time.Second

// aborted tells the launcher that a rank called MPI_Abort, and returns when the launcher knows: the
// rank ends with its answer, other hosts' ranks see their connections to it break, and the libraries
// of some then abort with codes of their own (Open MPI 5: 14), which are not to be heard of first.
func (s *session) aborted(ctx context.Context, id, code int, text string, targets []int) {
	ctx, cancel := context.WithTimeout(ctx, abortBound)
	defer cancel()
	a := abortOf(id, code, text, targets)
	_, err := question(ctx, s.up, s.up.aborts, func(n uint64) *apiv1.Frame {
		a.Id = n
		return a.Frame()
	})
	if errors.Is(err, wire.ErrFull) {
		s.end("the launcher takes no frames: " + err.Error())
	}
	if err != nil {
		s.log.Info("the launcher did not take note of an abort", "id", id, "cause", err)
	}
}

// awaitEnd waits for the process's end, for at most that long.
func (p *proc) awaitEnd(bound time.Duration) {
	t := time.NewTimer(bound)
	defer t.Stop()
	select {
	case <-p.process.Done():
	case <-p.step.ctx.Done():
	case <-t.C:
	}
}

// abortOf is an MPI_Abort as the launcher is told of it. targets are the processes to end; nil, or
// with the rank among them, it is the run.
func abortOf(id, code int, text string, targets []int) *apiv1.Aborted {
	a := &apiv1.Aborted{Rank: uint32(id), Code: int32(code), Text: text}
	if !slices.Contains(targets, id) {
		a.Targets = idset.Of(targets...).String()
	}
	return a
}
