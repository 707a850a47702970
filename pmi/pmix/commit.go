package pmix

import (
	"bytes"
	"context"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Scopes of values (pmix_scope_t). A client sends global values in both sections.
const (
	scopeLocal  = 1
	scopeRemote = 2
)

// commit takes in what the rank put so far. One without anything still says that it has committed.
func (c *conn) commit(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	var fresh [2][]bfrops.KVal
	for r.More() {
		scope := bfrops.One[uint64](r, bfrops.Scope)
		pairs, err := readPairs(r.Sub(bfrops.One[bfrops.Buffer](r, bfrops.BufferType)))
		if r.Err() != nil {
			return nil, r.Err()
		}
		if err != nil {
			return nil, err
		}
		switch scope {
		case scopeLocal:
			fresh[localSection] = append(fresh[localSection], pairs...)
		case scopeRemote:
			fresh[remoteSection] = append(fresh[remoteSection], pairs...)
		default:
			return nil, errBadParam
		}
	}
	return nil, c.s.add(c.ns, c.rank, fresh, true)
}

// add merges pairs into a rank's sections. Several connections of a rank share them. Others see
// them once the rank has committed.
func (s *Server) add(ns *namespace, rank int, fresh [2][]bfrops.KVal, commit bool) status {
	s.mu.Lock()
	defer s.mu.Unlock()
	rk := ns.ranks[rank]
	var next [2]section
	for i := range next {
		sec, err := rk.sections[i].with(fresh[i])
		if err != nil {
			s.log.Warn("PMIx commit", "job", ns.Number, "rank", rank, "cause", err)
			return errNotSupported
		}
		if len(sec) > maxSection {
			s.log.Warn("PMIx commit of more than a rank may hold", "job", ns.Number, "rank", rank, "bytes", len(sec), "max", maxSection)
			return errOutOfResource
		}
		next[i] = sec
	}
	same := rk.committed && bytes.Equal(next[remoteSection], rk.sections[remoteSection])
	rk.sections = next
	rk.committed = rk.committed || commit
	rk.wake()
	if same || !rk.committed {
		return success
	}
	if err := ns.Put(rank, sectionKey, next[remoteSection]); err != nil {
		s.log.Warn("PMIx commit", "job", ns.Number, "rank", rank, "cause", err)
		return errOutOfResource
	}
	return success
}

// committed returns the local section of a rank of this host; false if it has not committed.
func (s *Server) committed(ns *namespace, rank int) (section, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rk := ns.ranks[rank]
	return rk.sections[localSection], rk.committed
}
