package modex

import (
	"bytes"
	"context"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// commitTime is how long a GET waits for a key that a rank which has committed already did not put,
// unless the client says how long. openpmix's server and prted wait as long (pmix_server_get of
// pmix_server_get.c), but answer with a timeout, which Open MPI takes for an error.
const commitTime = 2 * time.Second

// notAwaited are keys that nobody is to wait for: in every rank's MPI_Init, Open MPI before 4.1.1 asks the first rank of
// its own host for what rank 0 alone puts, and goes on without.
var notAwaited = map[string]bool{"pml.base.2.0": true}

// Question is what a rank of this host asks of a rank, or of any.
type Question struct {
	Key        string // "": everything
	Qualifiers []bfrops.Info
	Wait       bool // for the rank to commit
	Bounded    bool // the client says for how long
	Fresh      bool // what is here may be old
}

// Section is what ranks of this host may see of a rank that has put the key; status.ErrNotFound. What
// is not there is waited for: as long as it takes for the rank's first commit, and commitTime for
// another.
func (j *Job) Section(ctx context.Context, rank int, q Question) (Section, error) {
	here := j.isHere(rank)
	ask := j.committedElsewhere
	if here {
		ask = j.committedHere
	}
	var sec Section
	known := false // the rank has committed sec
	again := q.Wait && !notAwaited[q.Key]
	if !here && !q.Fresh {
		sec, known = j.space.Here(rank, sectionKey)
	}
	for {
		if known && sec.holds(q.Key, q.Qualifiers) {
			return sec, nil
		}
		if known && again && !q.Bounded {
			var cancel context.CancelFunc
			ctx, cancel = awake.WithinCause(ctx, commitTime, bfrops.ErrNotFound)
			defer cancel()
			q.Bounded = true
		}
		next, ok, err := ask(ctx, rank, q.Wait, known && again, sec)
		switch {
		case err != nil:
			return nil, err
		case !ok || known && again && bytes.Equal(sec, next):
			return nil, bfrops.ErrNotFound
		case next.holds(q.Key, q.Qualifiers):
			return next, nil
		case !again || here && j.outOfScope(rank, q):
			return nil, bfrops.ErrNotFound
		}
		sec, known = next, true
	}
}

// committedElsewhere asks a rank's host for what it has committed, and waits if need be; with known, for
// something other than sec.
func (j *Job) committedElsewhere(ctx context.Context, rank int, wait, known bool, sec Section) (Section, bool, error) {
	not := ""
	if known {
		not = kvs.Digest(sec)
	}
	return j.space.Await(ctx, rank, sectionKey, wait, not)
}

// committedHere is committedElsewhere for a rank of this host.
func (j *Job) committedHere(ctx context.Context, rank int, wait, known bool, sec Section) (Section, bool, error) {
	for {
		j.mu.Lock()
		rk := j.ranks[rank]
		next, ok := rk.local, rk.committed
		if rk.changed == nil {
			rk.changed = make(chan struct{})
		}
		changed := rk.changed
		j.mu.Unlock()
		if ok && !(known && bytes.Equal(next, sec)) || !wait {
			return next, ok, nil
		}
		if j.space.IsGone(rank) {
			return nil, false, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// outOfScope says that the rank has put the key for other hosts only: there is no use in waiting.
func (j *Job) outOfScope(rank int, q Question) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ranks[rank].remote.holds(q.Key, q.Qualifiers)
}
