package pmi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/wire"
)

// fence is PMI-1's barrier and PMI-2's fence: all ranks of the job, with their data.
func (s *session) fence(ctx context.Context, m *wire.Message, r *reply) error {
	if !r.v2 {
		return s.barrier(ctx, m, r)
	}
	if err := s.srv.enter(ctx, s.rank, idset.Set{}, ""); err != nil {
		return err
	}
	r.ok()
	return nil
}

func (s *Server) enter(ctx context.Context, rank int, set idset.Set, tag string) error {
	err := s.job.Space.Fence(ctx, rank, set, tag, true)
	var enter *kvs.EnterError
	if errors.As(err, &enter) {
		return &ProtocolError{rank, err}
	}
	return err
}

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

func (s *session) ring(ctx context.Context, m *wire.Message, r *reply) error {
	count, ok := m.Int("ring-count")
	left, right := m.Value("ring-left"), m.Value("ring-right")
	if !ok || len(left) > valueMax2 || len(right) > valueMax2 || strings.ContainsAny(left+right, ";\n") {
		r.refuse(-1, "ring needs ring-count, ring-left and ring-right of at most 1024 bytes without semicolon")
		return nil
	}
	s.srv.ring.mu.Lock()
	s.srv.ring.rounds[s.rank]++
	round := s.srv.ring.rounds[s.rank]
	s.srv.ring.mu.Unlock()

	part := strconv.Itoa(count) + ";" + left + ";" + right
	if err := s.srv.job.Space.Put(s.rank, ringKey, []byte(part)); err != nil {
		return err
	}
	if err := s.srv.enter(ctx, s.rank, idset.Set{}, ""); err != nil {
		return err
	}
	p, err := s.srv.ringPlace(ctx, round, s.rank)
	if err != nil {
		return err
	}
	r.ok()
	r.addInt("ring-count", p.count)
	r.add("ring-left", p.left)
	r.add("ring-right", p.right)
	return nil
}

// ringPlace works a round out for all ranks when the first rank of this host asks.
func (s *Server) ringPlace(ctx context.Context, round, rank int) (place, error) {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	if s.ring.last != round {
		parts := make([]place, s.job.Space.Size)
		for r := range parts {
			data, found, err := s.job.Space.Get(ctx, r, ringKey)
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
		s.ring.last, s.ring.places = round, around(parts)
	}
	return s.ring.places[rank], nil
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
