package pmix

import (
	"context"
	"sync"
)

// maxAsked bounds the ranks of other hosts that are asked for a key that anybody may put. Of those
// beyond, what fences brought here counts.
const maxAsked = 256

// anyone is a rank that has put the key of a question that names none (PMIX_RANK_UNDEF); errNotFound.
// Where none has it is waited for as for a named one, each in its own way (sectionOf).
func (s *Server) anyone(ctx context.Context, ns *namespace, q question) (rank int, err error) {
	if rank, ok := s.whoHas(ns, q); ok {
		return rank, nil
	}
	if !q.wait || hasty[q.key] {
		return 0, errNotFound
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ranks := ns.asked()
	answers := make(chan answer, len(ranks))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, r := range ranks {
		wg.Go(func() {
			_, err := s.sectionOf(ctx, ns, r, q)
			answers <- answer{r, err}
		})
	}
	err = errNotFound
	for range ranks {
		a := <-answers
		if a.err == nil {
			return a.rank, nil
		}
		if a.err != errNotFound {
			err = a.err // the client's time is over, or the server's
		}
	}
	return 0, err
}

type answer struct {
	rank int
	err  error
}

// asked are the ranks whose commits are waited for.
func (ns *namespace) asked() (ranks []int) {
	elsewhere := 0
	for r := range ns.Size {
		if _, here := ns.local[r]; !here {
			if elsewhere++; elsewhere > maxAsked {
				continue
			}
		}
		ranks = append(ranks, r)
	}
	return ranks
}

// whoHas finds the lowest rank that is known here to have put a key.
func (s *Server) whoHas(ns *namespace, q question) (rank int, ok bool) {
	for r := range ns.Size {
		sec := section(nil)
		if _, here := ns.local[r]; here {
			sec, _ = s.committed(ns, r)
		} else if v, ok := ns.Space.Here(r, sectionKey); ok {
			sec = v
		}
		if len(sec) > 0 && sec.holds(q.key, q.qualifiers) {
			return r, true
		}
	}
	return 0, false
}
