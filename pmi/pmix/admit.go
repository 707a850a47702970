package pmix

import (
	"errors"
	"fmt"
	"net"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/ptl"
)

// RefusedError is a rank whose libpmix this server cannot speak with.
type RefusedError struct {
	Who
	Version string // of its libpmix
	Why     string // what does not fit, and what to do
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: its PMIx %.40q cannot be served: %s", e.Who, e.Version, e.Why)
}

var errStranger = errors.New("it does not know a PMIx namespace of this run")

// admit does the handshake, in the time that the lobby gives. A stranger gets no answer; a rank
// that cannot be served gets a status, and the caller a *RefusedError.
func (s *Server) admit(nc net.Conn) (*conn, error) {
	h, err := ptl.ReadHello(nc)
	if err != nil {
		return nil, err
	}
	if h.Kind != 0 {
		return nil, fmt.Errorf("a PMIx tool or singleton (kind %d), which are not served", h.Kind)
	}
	ns := s.called(h.Namespace)
	if ns == nil || s.isOver(ns) {
		return nil, errStranger
	}
	number := int(h.Rank)
	if _, ok := ns.local[number]; !ok {
		return nil, fmt.Errorf("rank %d of job %d is not on this host", h.Rank, ns.Number)
	}
	c := &conn{s: s, nc: nc, ns: ns, rank: number, desc: h.Buffer == bfrops.FullyDesc, version: h.Version, events: newListener(), turn: make(chan struct{}, 1), write: make(chan struct{}, 1)}
	dialect, why := s.choose(h)
	if why != "" {
		nc.Write(ptl.AppendAnswer(nil, int32(errNotSupported), 0)) // it is hung up on either way
		return nil, &RefusedError{ns.who(number), h.Version, why}
	}
	c.dialect = dialect
	if !s.enter(c) {
		nc.Write(ptl.AppendAnswer(nil, int32(errOutOfResource), 0))
		return nil, &RefusedError{ns.who(number), h.Version, fmt.Sprintf("the rank has %d open connections already", maxPerRank)}
	}
	// If this fails the connection is over, which whoever reads from it next sees.
	nc.Write(ptl.AppendAnswer(nil, 0, uint32(ns.Base+number)))
	return c, nil
}

// choose finds the dialect of a client, or says why it cannot be served.
func (s *Server) choose(h ptl.Hello) (*bfrops.Dialect, string) {
	d, err := bfrops.Find(h.Codec)
	switch {
	case err != nil:
		return nil, err.Error() + "; use Open MPI 4.0 or later, or start the program with --mpi pmi2 if its library speaks that"
	case h.Buffer != bfrops.NonDesc && h.Buffer != bfrops.FullyDesc:
		return nil, fmt.Sprintf("its buffers are of kind %d; unset PMIX_MCA_bfrops_base_default_type", h.Buffer)
	case h.Store != "hash":
		return nil, fmt.Sprintf("it keeps job data in the store %.20q, whose layout is private to libpmix; unset PMIX_MCA_gds and PMIX_GDS_MODULE, so that it uses \"hash\"", h.Store)
	case h.Security != "native" && h.Security != "none":
		return nil, fmt.Sprintf("it wants the security module %.20q; unset PMIX_MCA_psec, so that it uses \"native\"", h.Security)
	}
	return d, ""
}
