package link

import (
	"errors"
	"sync"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/internal/wire"
)

// Ahead reads a session's stream before a Conn does, so that a host's silence or end shows. It keeps what it reads; whoever receives
// from the session gets it first.
type Ahead struct {
	wire.Stream
	over    chan struct{} // closed when reading ahead has ended
	through bool          // all that was kept has been received; only the receiver's

	mu    sync.Mutex
	taken bool           // somebody receives, guarded by mu
	heard bool           // a frame has come since Heard was asked, guarded by mu
	kept  []*apiv1.Frame // guarded by mu
	err   error          // guarded by mu
}

// maxAhead bounds what an agent says before it is asked for anything.
const maxAhead = 64

// ReadAhead begins to read a session's stream; the session's Close ends it and waits.
func ReadAhead(s *Session) *Ahead {
	a := &Ahead{Stream: s.Stream, over: make(chan struct{})}
	hangUp := s.Close
	s.Stream, s.Close = a, func() { hangUp(); <-a.over }
	go a.read()
	return a
}

func (a *Ahead) read() {
	defer close(a.over)
	for {
		f, err := a.Stream.Recv()
		if a.note(f, err) {
			return
		}
	}
}

// note keeps what was read, and says whether that was the last.
func (a *Ahead) note(f *apiv1.Frame, err error) (last bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.err = err
		return true
	case f.Seq != 0 || a.taken: // else a heartbeat
		a.kept = append(a.kept, f)
	}
	a.heard = true
	switch {
	case f.GetClosed() != nil:
		a.err = errors.New("its agent ended the session" + visible.Colon(f.GetClosed().Text))
	case len(a.kept) > maxAhead:
		a.err = errors.New("its agent says too much before it is asked")
	}
	return a.taken || a.err != nil
}

// Recv is the stream's. What was kept comes at once: the reader may be waiting for a frame that comes much later.
func (a *Ahead) Recv() (*apiv1.Frame, error) {
	if a.through {
		return a.Stream.Recv()
	}
	if f := a.take(); f != nil {
		return f, nil
	}
	<-a.over
	if f := a.take(); f != nil {
		return f, nil
	}
	a.mu.Lock()
	err := a.err
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	a.through = true
	return a.Stream.Recv()
}

// take is the first frame that was kept, or nil, and has the reader stop at the next one.
func (a *Ahead) take() *apiv1.Frame {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken = true
	if len(a.kept) == 0 {
		return nil
	}
	f := a.kept[0]
	a.kept = a.kept[1:]
	return f
}

// Heard says whether a frame has come since it was asked last, or why none will come any more.
func (a *Ahead) Heard() (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	heard := a.heard
	a.heard = false
	return heard, a.err
}
