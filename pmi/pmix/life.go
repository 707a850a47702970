package pmix

import (
	"context"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// enter counts a connection that passed the handshake; false if the rank has too many.
func (s *Server) enter(c *conn) bool {
	s.mu.Lock()
	r := c.ns.ranks[c.rank]
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
		c.ns.RankBack(c.rank)
		if f := s.cfg.Hooks.OnInit; f != nil {
			f(c.id())
		}
	}
	return true
}

// stop notes that c is no longer running, and says whether it was the rank's main connection.
func (s *Server) stop(c *conn) (main bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.running = false
	r := c.ns.ranks[c.rank]
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
	c.ns.ranks[c.rank].open--
	delete(s.conns, c)
	for _, r := range s.recent {
		delete(r.told, c)
	}
	if c.ns.ranks[c.rank].open == 0 {
		s.known.left(c.id())
	}
	return gone, c.ns.ranks[c.rank].open == 0
}

// req answers with the job data, which every rank of a job and a dialect gets alike.
func (c *conn) req(context.Context, *bfrops.Reader) (*bfrops.Writer, error) {
	groups, err := c.ns.data.packed(jobDataKind{c.dialect, c.desc, false})
	if err != nil {
		return nil, err
	}
	w := c.writer()
	w.Group(bfrops.String, c.ns.Namespace)
	w.Raw(groups)
	return w, nil
}

// finalize leaves the connection open; the client closes it, or initializes again over another.
func (c *conn) finalize(context.Context, *bfrops.Reader) (*bfrops.Writer, error) {
	if c.s.stop(c) {
		if f := c.s.cfg.Hooks.OnFinalize; f != nil {
			f(c.id())
		}
	}
	return nil, success
}

const maxText = 4096

// printable bounds foreign text for people: lines of it, control characters shown.
func printable(s string) string {
	return visible.Text(strings.ToValidUTF8(s[:min(len(s), maxText)], "?"))
}

// UnfinishedError is a rank whose main connection ended between handshake and FINALIZE. Mostly
// the process has ended too, and how it did says more.
type UnfinishedError struct{ Who }

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("%s closed its PMIx connection after MPI_Init, without MPI_Finalize", e.Who)
}

// ProtocolError is a rank that sent what no PMIx client sends.
type ProtocolError struct {
	Who
	Version string // of its libpmix
	Err     error
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("%s (PMIx %.40q) broke the PMIx protocol: %v", e.Who, e.Version, e.Err)
}

func (e *ProtocolError) Unwrap() error { return e.Err }
