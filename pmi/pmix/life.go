package pmix

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// enter counts a connection that passed the handshake; false if the rank has too many.
func (s *Server) enter(c *conn) bool {
	s.mu.Lock()
	r := s.ranks[c.rank]
	if r.open >= maxPerRank {
		s.mu.Unlock()
		return false
	}
	r.open++
	first := r.main == nil
	if first {
		r.main = c
	}
	c.running = true
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	if first {
		s.job.Engine.RankBack(c.rank)
		if f := s.job.Hooks.OnInit; f != nil {
			f(c.rank)
		}
	}
	return true
}

// stop notes that c is no longer running, and says whether it was the rank's main connection.
func (s *Server) stop(c *conn) (main bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.running = false
	r := s.ranks[c.rank]
	if main = r.main == c; main {
		r.main = nil
	}
	return main
}

// leave forgets a connection that has ended. gone: it was the rank's main one; alone: the rank has
// no other.
func (s *Server) leave(c *conn) (gone, alone bool) {
	gone = s.stop(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ranks[c.rank].open--
	delete(s.conns, c)
	return gone, s.ranks[c.rank].open == 0
}

// req answers with the job data, which every rank of a dialect gets alike.
func (c *conn) req(context.Context, *bfrops.Reader) (*bfrops.Writer, error) {
	groups, err := c.s.data.packed(c.dialect, c.desc)
	if err != nil {
		return nil, err
	}
	w := c.writer()
	w.Group(bfrops.String, c.s.job.Namespace)
	w.Raw(groups)
	return w, nil
}

// finalize leaves the connection open; the client closes it, or initializes again over another.
func (c *conn) finalize(context.Context, *bfrops.Reader) (*bfrops.Writer, error) {
	if c.s.stop(c) {
		if f := c.s.job.Hooks.OnFinalize; f != nil {
			f(c.rank)
		}
	}
	return nil, success
}

// abort is MPI_Abort; the process ends by itself once it has the answer.
func (c *conn) abort(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	code := bfrops.One[int64](r, bfrops.Status)
	text := bfrops.One[string](r, bfrops.String)
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	if r.Err() != nil {
		return nil, r.Err()
	}
	targets, st := c.s.members(procs)
	if st != success {
		return nil, st
	}
	if targets == nil || slices.Contains(targets, c.rank) {
		c.s.stop(c) // what follows is no unfinished rank
		c.s.job.Engine.RankGone(c.rank, "has called MPI_Abort")
	}
	if f := c.s.job.Hooks.OnAbort; f != nil {
		f(c.rank, int(code), printable(text), targets)
	}
	return nil, success
}

// members turns a list of processes into ranks of this job; nil are all of them.
func (s *Server) members(procs []bfrops.Proc) ([]int, status) {
	ranks := make([]int, 0, len(procs))
	for _, p := range procs {
		switch {
		case p.Namespace != s.job.Namespace:
			return nil, errNotSupported
		case p.Rank == bfrops.RankWildcard:
			return nil, success
		case int64(p.Rank) >= int64(s.job.Engine.Size()):
			return nil, errBadParam
		}
		ranks = append(ranks, int(p.Rank))
	}
	if len(ranks) == 0 {
		return nil, success
	}
	return ranks, success
}

const maxText = 4096

// printable bounds foreign text for people: lines of it, no control characters.
func printable(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}

// UnfinishedError is a rank whose main connection ended between handshake and FINALIZE. Mostly
// the process has ended too, and how it did says more.
type UnfinishedError struct{ Rank int }

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("rank %d closed its PMIx connection after MPI_Init, without MPI_Finalize", e.Rank)
}

// ProtocolError is a rank that sent what no PMIx client sends.
type ProtocolError struct {
	Rank    int
	Version string // of its libpmix
	Err     error
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("rank %d (PMIx %.40q) broke the PMIx protocol: %v", e.Rank, e.Version, e.Err)
}

func (e *ProtocolError) Unwrap() error { return e.Err }
