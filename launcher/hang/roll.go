package hang

import (
	"cmp"
	"fmt"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
)

// Meeting is what one host tells of where its ranks meet, each time all of it. The ids are of its own ranks.
type Meeting struct {
	Framework              string
	Loaded, Met, Elsewhere idset.Set
	Visited                bool // somebody came to the place
}

// Roll keeps which of a job's ranks have come to where training frameworks meet, by what the hosts' agents see. The zero value has
// heard of nobody.
//
//	host w0   0-1 loaded torch, 0-1 met   ┐        some met, others not ──Missing──▶ ranks 2
//	host w1   2-3 loaded torch, 3 met     ┴─ Roll
//	                                               all loaded, none met ──Alone───▶ torch
//
// It says nothing where it may be wrong. A rank that called MPI_Init, listens at another port, or hides its sockets
// is neither missing nor alone. If somebody came to the place who is no rank that shows, nobody is alone.
type Roll struct {
	framework              string
	loaded, met, elsewhere idset.Set
	visited                bool
}

// Hear takes a host's report. What was once seen stays.
func (r *Roll) Hear(h Meeting) {
	if h.Framework != "" { // a rank may load torch first, and then what stands on it
		r.framework = h.Framework
	}
	r.loaded, r.met, r.elsewhere = r.loaded.Union(h.Loaded), r.met.Union(h.Met), r.elsewhere.Union(h.Elsewhere)
	r.visited = r.visited || h.Visited
}

// Framework is what ranks have loaded, by the last word of it; "" while none has.
func (r *Roll) Framework() string { return r.framework }

// frameworkWords are what users are told of a framework: where its ranks meet, and what makes them.
var frameworkWords = map[string]struct{ place, advice string }{
	"torch":      {place: "where torch's ranks meet (MASTER_ADDR and MASTER_PORT)"},
	"JAX":        {"JAX's coordinator", "call jax.distributed.initialize() (mpiup run --env jax sets what it reads)"},
	"Horovod":    {"where Horovod's ranks meet", "call hvd.init() (mpiup run --env horovod where it is to meet by Gloo)"},
	"TensorFlow": {advice: "use MultiWorkerMirroredStrategy and mpiup run --env tf"},
}

// Place is where ranks of the framework meet.
func (r *Roll) Place() string {
	return cmp.Or(frameworkWords[r.framework].place, "where the ranks meet")
}

// Advice is what makes ranks of the framework meet, a program's on so many hosts, at most so many on one; of those that stand on torch it is torch's.
func (r *Roll) Advice(hosts, most int) string {
	return cmp.Or(frameworkWords[r.framework].advice, fmt.Sprintf("call torch.distributed.init_process_group (mpiup run "+
		"--env torch sets what it reads), and give Lightning's Trainer num_nodes=%d and devices=%d",
		hosts, cmp.Or(most, 1)))
}

// Met says that one of these ranks has met others.
func (r *Roll) Met(ranks idset.Set) bool { return ranks.Overlaps(r.met) }

// Missing are those of one program's ranks that run and have not come where others of them are, and those others.
// missing is empty while nobody is there.
func (r *Roll) Missing(ranks, running idset.Set) (missing, there idset.Set) {
	there = ranks.Intersect(r.met)
	if there.Empty() {
		return idset.Set{}, there
	}
	return ranks.Intersect(running).Sub(r.met).Sub(r.elsewhere), there
}

// Alone says that all of one program's ranks have loaded a framework by which they could share a job, and that, as
// far as anything shows, none has met another.
func (r *Roll) Alone(ranks idset.Set) bool {
	return ranks.Len() > 1 && r.loaded.Covers(ranks) && !r.visited && !ranks.Overlaps(r.met) && !ranks.Overlaps(r.elsewhere)
}

const (
	// Patience is how long ranks wait for one that is missing until the user is told. It is told of at Patience, four times
	// that, sixteen times and so on, MaxTold times.
	Patience = 30 * time.Second
	MaxTold  = 4
	// LongAlone is how long all ranks of a program have had a framework loaded when the user is told that none has
	// met another yet: longer than most take to read their input first.
	LongAlone = 3 * time.Minute
)

// Again is how long after the first wait began the user is told of it for the nth time, from 0; false: no more.
func Again(n int) (time.Duration, bool) {
	return Patience << (2 * n), n < MaxTold
}
