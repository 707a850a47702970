package modex

import (
	"context"
	"sync"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// maxAsked bounds the ranks of other hosts that Anyone asks. Of the ranks beyond, it knows what fences brought here.
const maxAsked = 256

// Anyone answers a question that names no rank (PMIX_RANK_UNDEF) with a rank that has put its key; status.ErrNotFound.
// Where none has yet, it waits for all of them, as Section waits for one.
func (j *Job) Anyone(ctx context.Context, q Question) (rank int, err error) {
	if rank, ok := j.whoHas(q); ok {
		return rank, nil
	}
	if !q.Wait || notAwaited[q.Key] {
		return 0, bfrops.ErrNotFound
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ranks := j.asked()
	answers := make(chan answer, len(ranks))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, r := range ranks {
		wg.Go(func() {
			_, err := j.Section(ctx, r, q)
			answers <- answer{r, err}
		})
	}
	err = bfrops.ErrNotFound
	for range ranks {
		a := <-answers
		if a.err == nil {
			return a.rank, nil
		}
		if a.err != bfrops.ErrNotFound {
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
func (j *Job) asked() (ranks []int) {
	elsewhere := 0
	for r := range j.space.Size {
		if !j.isHere(r) {
			if elsewhere++; elsewhere > maxAsked {
				continue
			}
		}
		ranks = append(ranks, r)
	}
	return ranks
}

// whoHas finds the lowest rank that is known here to have put a key.
func (j *Job) whoHas(q Question) (rank int, ok bool) {
	for r := range j.space.Size {
		sec := Section(nil)
		if j.isHere(r) {
			sec, _ = j.committed(r)
		} else if v, ok := j.space.Here(r, sectionKey); ok {
			sec = v
		}
		if len(sec) > 0 && sec.holds(q.Key, q.Qualifiers) {
			return r, true
		}
	}
	return 0, false
}
