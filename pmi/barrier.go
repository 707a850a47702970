package pmi

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// barriersMax bounds the barriers that one connection is in at a time, one per thread of the rank.
const barriersMax = 64

// barrier is PMI-1's: of the whole job, or with PMI 1.2 of a group. Requests that follow are
// answered meanwhile, since threads of newer clients share a connection (MPICH 5,
// src/pmi/src/pmi_wire.c). When it cannot end, no reply goes out and Serve ends: clients up to
// MPICH 4.0 would take any for success.
func barrier(ctx context.Context, s *session, m *Message, r *reply) error {
	g, err := parseGroup(m.Value("group"), s.srv.job.Space)
	if err != nil {
		return s.protocol("%s %v", m.Name, err)
	}
	if s.inBarriers.Add(1) > barriersMax {
		return s.protocol("%s while it is in %d barriers", m.Name, barriersMax)
	}
	r.later = true
	s.barriers.Go(func() {
		err := enterGroup(ctx, s.srv, s.rank, g)
		s.inBarriers.Add(-1)
		if err != nil {
			s.fail(err)
			return
		}
		out := &reply{name: r.name}
		out.ok()
		out.addInt("tag", g.tag) // newer clients look for it in any barrier_out
		s.write(out)
	})
	return nil
}

// group is who takes part in a barrier.
type group struct {
	set   idset.Set // ids; empty: the job
	tag   int       // 0: none
	local bool      // the ranks of this host, under a name that no list has
}

// parseGroup reads WORLD, NODE or ranks, each with ":" and a tag behind it. No group is the world.
func parseGroup(text string, space *kvs.Space) (g group, err error) {
	who, tag, tagged := strings.Cut(text, ":")
	if tagged {
		if g.tag, err = strconv.Atoi(tag); err != nil || g.tag < 0 {
			return g, fmt.Errorf("with a tag that is no number near %.40q", text)
		}
	}
	switch who {
	case "", "WORLD":
		return g, nil
	case "NODE":
		g.local = true
		for _, rank := range space.Local {
			g.set.Add(space.Base + rank)
		}
		return g, nil
	}
	for rank := range strings.SplitSeq(who, ",") {
		n, err := strconv.Atoi(rank)
		if err != nil || n < 0 {
			return g, fmt.Errorf("of a group that is no list of ranks near %.40q", text)
		}
		if n >= space.Size {
			return g, fmt.Errorf("of rank %d, but the job has ranks 0-%d", n, space.Size-1)
		}
		g.set.Add(space.Base + n)
	}
	return g, nil
}

// enterGroup takes rank through a barrier, after those of the same group and tag that it is in.
func enterGroup(ctx context.Context, s *Server, rank int, g group) error {
	tag := ""
	if g.tag != 0 {
		tag = strconv.Itoa(g.tag)
	}
	if g.local { // apart from a list of the same ranks; the name does not leave the host
		tag = "NODE:" + tag
	}
	over, err := s.turns.Take(ctx, turn{rank, g.set.String() + "#" + tag})
	if err != nil {
		return err
	}
	defer over()
	return s.enter(ctx, rank, g.set, tag)
}

// GroupBarriers says whether a job's ranks are to be told of PMI 1.2. All clients understand but
// Flux's, which takes 1.1 only (flux-core src/common/libpmi/simple_client.c); PMI_SUBVERSION=1 in
// the environment asks for it too. All hosts of a job must agree, so it looks only at what a
// launcher tells them all.
func GroupBarriers(argv, env []string) bool {
	for _, arg := range argv {
		if base := path.Base(arg); base == "flux" || base == "flux-broker" {
			return false
		}
	}
	return !slices.Contains(env, "PMI_SUBVERSION=1")
}
