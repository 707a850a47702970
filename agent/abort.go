package agent

import (
	"context"
	"errors"

	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
)

// aborted tells the launcher that a rank called MPI_Abort, and returns when the launcher knows: the
// rank ends with its answer, other hosts' ranks see their connections to it break, and the libraries
// of some then abort with codes of their own (Open MPI 5: 14), which are not to be heard of first.
func (s *session) aborted(ctx context.Context, id, code int, text string, targets []int) {
	ctx, cancel := context.WithTimeout(ctx, ranks.AbortBound)
	defer cancel()
	a := ranks.AbortOf(id, code, text, targets)
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
