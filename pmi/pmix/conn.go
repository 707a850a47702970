package pmix

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/ptl"
)

// maxWaiting bounds the requests of one connection that wait; a client's threads have one each.
const (
	maxWaiting = 256
	maxHeld    = ptl.MaxFrame // bytes of them, and as many of what they wait with
)

// conn is one connection of one rank, past the handshake.
type conn struct {
	s       *Server
	nc      net.Conn
	ns      *namespace
	rank    int // in it
	dialect *bfrops.Dialect
	desc    bool
	version string // of its libpmix

	running bool // guarded by Server.mu

	events listener

	found atomic.Int64  // bytes of values that requests have while they wait for more
	turn  chan struct{} // has one while a large answer is made and written: a client that reads none makes us hold one
	write chan struct{} // has one while a frame is written to nc
}

// takeTurn waits until no other large answer is under way. The answer's end gives the turn back, or who took it and has none.
func (c *conn) takeTurn(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *conn) giveTurn() { <-c.turn }

func (c *conn) id() int  { return c.ns.Base + c.rank }
func (c *conn) who() Who { return c.ns.who(c.rank) }

// run reads requests until the connection ends, which it tells the caller if it should not have.
func (c *conn) run(ctx context.Context) {
	job := ctx
	ctx, cancel := context.WithCancel(job)
	var wg sync.WaitGroup
	wg.Go(func() { c.tell(ctx) })
	err := c.serve(ctx, &wg)
	cancel()
	gone, alone := c.s.leave(c)
	c.nc.Close()
	wg.Wait()
	if alone {
		if err := c.s.names.left(job, c.id()); err != nil && job.Err() == nil {
			c.s.log.Warn("PMIx: names of a rank that has ended", "id", c.id(), "cause", err)
		}
	}
	var protocol *ProtocolError
	switch {
	case errors.As(err, &protocol):
		c.ns.RankGone(c.rank, "broke the PMIx protocol")
		c.s.failed(c.id(), err)
	case job.Err() != nil:
	case gone:
		c.ns.RankGone(c.rank, "has closed its PMIx connection without MPI_Finalize")
		c.s.failed(c.id(), &UnfinishedError{c.who()})
	}
}

// serve answers what needs no waiting at once, so that a rank's commit is there before its fence.
func (c *conn) serve(ctx context.Context, wg *sync.WaitGroup) error {
	slots := make(chan struct{}, maxWaiting)
	var waiting atomic.Int64 // bytes of requests that wait
	for {
		f, err := ptl.ReadFrame(c.nc)
		if err != nil {
			return c.hungUp(err)
		}
		if f.Tag == ptl.TagHeartbeat {
			continue
		}
		r := bfrops.NewReader(c.dialect, c.desc, f.Payload)
		number := bfrops.One[uint64](r, bfrops.Command)
		if r.Err() != nil {
			return &ProtocolError{c.who(), c.version, r.Err()}
		}
		cmd := find(number)
		if cmd == &unknown {
			c.unheard(number)
		}
		if !cmd.waits {
			if err := c.answer(ctx, f.Tag, cmd, r); err != nil {
				return err
			}
			continue
		}
		held := int64(len(f.Payload))
		if waiting.Add(held) > maxHeld || !take(slots) {
			waiting.Add(-held)
			if err := c.reply(f.Tag, cmd, nil, errOutOfResource); err != nil {
				return err
			}
			continue
		}
		wg.Go(func() {
			if err := c.answer(ctx, f.Tag, cmd, r); err != nil && ctx.Err() == nil {
				c.nc.Close() // the reader above ends with it
				var protocol *ProtocolError
				if errors.As(err, &protocol) {
					c.s.failed(c.id(), err)
				}
			}
			waiting.Add(-held)
			<-slots
		})
	}
}

func take(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// answer does what cmd says. Its error ends the connection.
func (c *conn) answer(ctx context.Context, tag uint32, cmd *command, r *bfrops.Reader) error {
	w, err := cmd.handle(c, ctx, r)
	if cmd.large && w != nil {
		defer c.giveTurn()
	}
	var (
		st    status
		limit *kvs.LimitError
		heavy *kvs.FenceLimitError
		enter *kvs.EnterError
		wrong *bfrops.SyntaxError
	)
	switch {
	case err == nil || errors.As(err, &st):
	case errors.As(err, &limit):
		c.s.log.Warn("PMIx", "request", cmd.name, "cause", err)
		st = errOutOfResource
	case errors.As(err, &heavy):
		c.s.tooHeavy.Do(func() { c.s.notice("%s fails in some of its ranks: %v", cmd.name, err) })
		st = errOutOfResource
	case errors.As(err, &enter):
		c.s.log.Warn("PMIx", "request", cmd.name, "cause", err)
		st = errBadParam
	case errors.As(err, &wrong):
		return &ProtocolError{c.who(), c.version, errors.New(cmd.name + ": " + wrong.Error())}
	case ctx.Err() != nil:
		return nil
	default: // the rank waits for what will not come; whoever stops it says why
		c.s.failed(c.id(), err)
		return nil
	}
	c.s.log.Debug("PMIx", "id", c.id(), "request", cmd.name, "status", int(st))
	if cmd.silent {
		return nil
	}
	return c.reply(tag, cmd, w, st)
}

// reply sends w, or st alone.
func (c *conn) reply(tag uint32, cmd *command, w *bfrops.Writer, st status) error {
	if w == nil {
		w = c.writer()
		w.Status(int(st))
		if cmd.tail != nil {
			cmd.tail(w)
		}
	}
	b, err := w.Bytes()
	if err != nil { // a value that this client's dialect lacks
		c.s.log.Warn("PMIx", "id", c.id(), "request", cmd.name, "cause", err)
		w = c.writer()
		w.Status(int(errNotSupported))
		b, _ = w.Bytes()
	}
	return c.send(b, tag)
}

// writer begins a frame; send ends it.
func (c *conn) writer() *bfrops.Writer {
	return bfrops.NewWriter(c.dialect, c.desc, make([]byte, ptl.HeaderLen, 256))
}

// section begins groups that become a value.
func (c *conn) section() *bfrops.Writer { return bfrops.NewWriter(c.dialect, c.desc, nil) }

func (c *conn) send(frame []byte, tag uint32) error {
	ptl.FinishFrame(frame, tag)
	c.write <- struct{}{}
	defer func() { <-c.write }()
	_, err := c.nc.Write(frame)
	return err
}

// hungUp tells a peer that does not speak the protocol from a connection that has ended.
func (c *conn) hungUp(err error) error {
	var format *ptl.FormatError
	if errors.As(err, &format) {
		return &ProtocolError{c.who(), c.version, err}
	}
	return err
}
