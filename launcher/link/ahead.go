package link

import (
	"errors"
	"sync/atomic"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/internal/wire"
)

// Ahead reads a session's stream before a Conn does, so that a host's silence or end shows. It keeps what it reads; whoever receives
// from the session gets it first.
type Ahead struct {
	wire.Stream
	kept  chan *apiv1.Frame     // closed when reading ahead has ended
	taken atomic.Bool           // somebody receives
	heard atomic.Bool           // a frame has come since Heard was asked
	over  atomic.Pointer[error] // why no frame comes after those that are kept; nil: the stream goes on
}

// maxAhead bounds what an agent says before it is asked for anything.
const maxAhead = 64

// ReadAhead begins to read a session's stream; the session's Close ends it and waits.
func ReadAhead(s *Session) *Ahead {
	a := &Ahead{Stream: s.Stream, kept: make(chan *apiv1.Frame, maxAhead+1)}
	hangUp := s.Close
	s.Stream, s.Close = a, func() {
		hangUp()
		for range a.kept { // nobody receives any more
		}
	}
	go a.read()
	return a
}

func (a *Ahead) read() {
	defer close(a.kept)
	for !a.taken.Load() && a.over.Load() == nil {
		f, err := a.Stream.Recv()
		if err != nil {
			a.over.Store(&err)
			return
		}
		if f.Seq != 0 || a.taken.Load() { // else a heartbeat
			a.kept <- f
		}
		a.heard.Store(true)
		switch {
		case f.GetClosed() != nil:
			err = errors.New("its agent ended the session" + visible.Colon(f.GetClosed().Text))
		case len(a.kept) > maxAhead:
			err = errors.New("its agent says too much before it is asked")
		default:
			continue
		}
		a.over.Store(&err)
	}
}

// Recv is the stream's. What was kept comes at once: the reader, which stops at the next frame, may be waiting for one that comes much later.
func (a *Ahead) Recv() (*apiv1.Frame, error) {
	a.taken.Store(true)
	if f, ok := <-a.kept; ok {
		return f, nil
	}
	if err := a.over.Load(); err != nil {
		return nil, *err
	}
	return a.Stream.Recv()
}

// Heard says whether a frame has come since it was asked last, or why none will come any more.
func (a *Ahead) Heard() (bool, error) {
	heard := a.heard.Swap(false)
	if err := a.over.Load(); err != nil {
		return heard, *err
	}
	return heard, nil
}
