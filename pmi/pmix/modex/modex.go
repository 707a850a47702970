// Package modex is what ranks have for each other, as this host has it: what those of one job put (PMIx calls it the modex), what they
// publish (Names), and the groups that they make (Groups).
//
//	rank here ──Commit──▶ local section ────▶ Section: ranks of this host
//	                      remote section ───▶ the engine: one value, "pmix.remote" ──▶ fences, and hosts that ask
//	                                                                                       │
//	rank here ◀─Section─── what a rank of another host has committed ◀─────────────────────┘
//
// A section is packed groups of KVAL in bfrops.Canonical, so that a client of that dialect gets it as it came. What is
// asked for and not there is waited for: as long as it takes for a rank's first commit, and commitTime for another.
//
// Concurrency: all methods may be called from any goroutine. Await and Section may block, until their context ends.
//
// It knows no connection and no process: Gone tells it that a rank will commit nothing more.
package modex

import (
	"bytes"
	"log/slog"
	"sync"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Job is one job's. New makes one.
type Job struct {
	space *kvs.Space
	log   *slog.Logger

	mu    sync.Mutex
	ranks map[int]*rank // this host's; guarded by mu in what they point to
}

// rank is a rank of this host.
type rank struct {
	committed     bool
	local, remote Section
	changed       chan struct{} // closed at the next commit, or when it is gone; nil: nobody waits
}

// New returns the ranks of a space, none of which has committed anything.
func New(space *kvs.Space, log *slog.Logger) *Job {
	j := &Job{space: space, log: log, ranks: map[int]*rank{}}
	for _, r := range space.Local {
		j.ranks[r] = &rank{}
	}
	return j
}

// Commit takes in what a rank of this host put for its host and for the others since it last did. One without anything
// still says that it has committed. It fails with a status.Code.
func (j *Job) Commit(rank int, local, remote []bfrops.KVal) error {
	return j.add(rank, local, remote, true)
}

// Share adds what all others are to see of a rank of this host to what it has committed, or will commit.
func (j *Job) Share(rank int, pairs []bfrops.KVal) error {
	return j.add(rank, pairs, pairs, false)
}

// add merges pairs into a rank's sections. Others see them once the rank has committed.
func (j *Job) add(number int, local, remote []bfrops.KVal, commit bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	rk := j.ranks[number]
	nextLocal, st := j.with(number, rk.local, local)
	if st != bfrops.Success {
		return st
	}
	nextRemote, st := j.with(number, rk.remote, remote)
	if st != bfrops.Success {
		return st
	}
	same := rk.committed && bytes.Equal(nextRemote, rk.remote)
	rk.local, rk.remote = nextLocal, nextRemote
	rk.committed = rk.committed || commit
	rk.wake()
	if same || !rk.committed {
		return nil
	}
	if err := j.space.Put(number, sectionKey, nextRemote); err != nil {
		j.log.Warn("PMIx commit", "rank", number, "cause", err)
		return bfrops.ErrOutOfResource
	}
	return nil
}

func (j *Job) with(rank int, s Section, fresh []bfrops.KVal) (Section, bfrops.Code) {
	next, err := s.with(fresh)
	if err != nil {
		j.log.Warn("PMIx commit", "rank", rank, "cause", err)
		return nil, bfrops.ErrNotSupported
	}
	if len(next) > maxSection {
		j.log.Warn("PMIx commit of more than a rank may hold", "rank", rank, "bytes", len(next), "max", maxSection)
		return nil, bfrops.ErrOutOfResource
	}
	return next, bfrops.Success
}

// Gone wakes who waits for what only a rank that is gone could have committed.
func (j *Job) Gone(rank int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if rk := j.ranks[rank]; rk != nil {
		rk.wake()
	}
}

// wake tells who waits for the rank to commit something that it has, or is gone. The job's mu is held.
func (r *rank) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// isHere says whether a rank is on this host.
func (j *Job) isHere(rank int) bool { return j.ranks[rank] != nil }

// committed returns the local section of a rank of this host; false if it has not committed.
func (j *Job) committed(rank int) (Section, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	rk := j.ranks[rank]
	return rk.local, rk.committed
}
