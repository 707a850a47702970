package pmix

import (
	"bytes"
	"context"
	"time"

	"github.com/mpiup/mpiup/pmi/kvs"
)

// commitTime is how long a GET waits for a key that a rank which has committed already did not put,
// unless the client says how long. openpmix's server and prted wait as long (pmix_server_get of
// pmix_server_get.c), but answer with a timeout, which Open MPI takes for an error.
const commitTime = 2 * time.Second

// hasty are keys that are not worth the wait: Open MPI before 4.1.1 asks the first rank of its own
// host for what rank 0 alone puts, in every rank's MPI_Init, and goes on without.
var hasty = map[string]bool{"pml.base.2.0": true}

// sectionOf is what ranks of this host may see of a rank that has put the key; errNotFound. What
// is not there is waited for: as long as it takes for the rank's first commit, and commitTime for
// another.
func (s *Server) sectionOf(ctx context.Context, ns *namespace, rank int, q question) (section, error) {
	_, here := ns.local[rank]
	ask := s.committedElsewhere
	if here {
		ask = s.committedHere
	}
	var sec section
	known := false // the rank has committed sec
	again := q.wait && !hasty[q.key]
	if !here && !q.fresh {
		sec, known = ns.Space.Here(rank, sectionKey)
	}
	for {
		if known && sec.holds(q.key, q.qualifiers) {
			return sec, nil
		}
		if known && again && !q.bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, commitTime, errNotFound)
			defer cancel()
			q.bounded = true
		}
		next, ok, err := ask(ctx, ns, rank, q.wait, known && again, sec)
		switch {
		case err != nil:
			return nil, err
		case !ok || known && again && bytes.Equal(sec, next):
			return nil, errNotFound
		case next.holds(q.key, q.qualifiers):
			return next, nil
		case !again || here && s.outOfScope(ns, rank, q):
			return nil, errNotFound
		}
		sec, known = next, true
	}
}

// committedElsewhere asks a rank's host for what it has committed, and waits if need be; with known, for
// something other than sec.
func (s *Server) committedElsewhere(ctx context.Context, ns *namespace, rank int, wait, known bool, sec section) (section, bool, error) {
	not := ""
	if known {
		not = kvs.Digest(sec)
	}
	return ns.Await(ctx, rank, sectionKey, wait, not)
}

// committedHere is committedElsewhere for a rank of this host.
func (s *Server) committedHere(ctx context.Context, ns *namespace, rank int, wait, known bool, sec section) (section, bool, error) {
	for {
		s.mu.Lock()
		rk := ns.ranks[rank]
		next, ok := rk.sections[localSection], rk.committed
		if rk.changed == nil {
			rk.changed = make(chan struct{})
		}
		changed := rk.changed
		s.mu.Unlock()
		if ok && !(known && bytes.Equal(next, sec)) || !wait {
			return next, ok, nil
		}
		if ns.IsGone(rank) {
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
func (s *Server) outOfScope(ns *namespace, rank int, q question) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ns.ranks[rank].sections[remoteSection].holds(q.key, q.qualifiers)
}

// wake tells who waits for the rank to commit something that it has, or is gone. Server.mu is held.
func (r *rank) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}
