package pmi

import (
	"context"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
)

// fence is PMI-1's barrier and PMI-2's fence: all ranks of the job, with their data.
func fence(ctx context.Context, s *session, m *Message, r *reply) error {
	if !r.v2 {
		return barrier(ctx, s, m, r)
	}
	if err := s.srv.enter(ctx, s.rank, idset.Set{}, ""); err != nil {
		return err
	}
	r.ok()
	return nil
}

func exchangeRing(ctx context.Context, s *session, m *Message, r *reply) error {
	count, ok := m.Int("ring-count")
	left, right := m.Value("ring-left"), m.Value("ring-right")
	if !ok || len(left) > valueMax2 || len(right) > valueMax2 || strings.ContainsAny(left+right, ";\n") {
		r.refuse(-1, "ring needs ring-count, ring-left and ring-right of at most 1024 bytes without semicolon")
		return nil
	}
	round, err := s.srv.ring.begin(s.srv.job.Space, s.rank, place{count, left, right})
	if err != nil {
		return err
	}
	if err := s.srv.enter(ctx, s.rank, idset.Set{}, ""); err != nil {
		return err
	}
	p, err := s.srv.ring.place(ctx, s.srv.job.Space, round, s.rank)
	if err != nil {
		return err
	}
	r.ok()
	r.addInt("ring-count", p.count)
	r.add("ring-left", p.left)
	r.add("ring-right", p.right)
	return nil
}
