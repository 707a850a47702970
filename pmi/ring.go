package pmi

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/pmi/kvs"
)

// ring is the state of PMIX_Ring (Slurm's and MVAPICH2's extension of PMI-2; "PMI Extensions for
// Scalable MPI Startup", EuroMPI 2014). Every rank gives a count and two values. It learns the
// sum of the counts before it, its predecessor's right value and its successor's left value.
type ring struct {
	mu     sync.Mutex
	rounds map[int]int // guarded by mu; rings that each local rank has entered
	last   int         // guarded by mu; the round that places belongs to
	places []place     // guarded by mu; by rank
}

type place struct {
	count       int
	left, right string
}

// ringKey holds a rank's part; ranks cannot put it. One key is enough: a rank can begin the next
// round only when its host has worked out this one.
const ringKey = "PMI_ring"

func newRing() ring { return ring{rounds: map[int]int{}} }

// begin puts a rank's part of its next round, which other hosts see after a fence.
func (g *ring) begin(space *kvs.Space, rank int, part place) (round int, err error) {
	g.mu.Lock()
	g.rounds[rank]++
	round = g.rounds[rank]
	g.mu.Unlock()
	return round, space.Put(rank, ringKey, []byte(strconv.Itoa(part.count)+";"+part.left+";"+part.right))
}

// place works a round out for all ranks when the first rank of this host asks.
func (g *ring) place(ctx context.Context, space *kvs.Space, round, rank int) (place, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != round {
		parts := make([]place, space.Size)
		for r := range parts {
			data, found, err := space.Get(ctx, r, ringKey)
			if err != nil {
				return place{}, err
			}
			fields := strings.Split(string(data), ";")
			if !found || len(fields) != 3 {
				return place{}, fmt.Errorf("rank %d did not take part in the ring of the other ranks", r)
			}
			count, err := strconv.Atoi(fields[0])
			if err != nil {
				return place{}, fmt.Errorf("rank %d: count of its part in a ring: %w", r, err)
			}
			parts[r] = place{count, fields[1], fields[2]}
		}
		g.last, g.places = round, around(parts)
	}
	return g.places[rank], nil
}

// around turns what ranks gave into what they get.
func around(parts []place) []place {
	n, sum := len(parts), 0
	places := make([]place, n)
	for r := range parts {
		places[r] = place{sum, parts[(r+n-1)%n].right, parts[(r+1)%n].left}
		sum += parts[r].count
	}
	return places
}
