package pmix

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/socket"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/event"
	"github.com/mpiup/mpiup/pmi/pmix/modex"
)

// maxWaiting bounds the requests of one connection that wait; a client's threads have one each.
const (
	maxWaiting = 256
	maxHeld    = bfrops.MaxFrame // bytes of them, and as many of what they wait with
)

// conn is one connection of one rank, past the handshake.
type conn struct {
	host    *host
	find    func(number uint64, version string) *command
	nc      net.Conn
	ns      *namespace
	rank    int // in it
	dialect *bfrops.Dialect
	desc    bool
	version string // of its libpmix
	visit   *visit
	talk    *socket.Talk
	events  *event.Listener

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

func (c *conn) id() int           { return c.ns.span.Base + c.rank }
func (c *conn) who() job.Process  { return job.Process{Job: c.ns.number, Rank: c.rank} }
func (c *conn) proc() bfrops.Proc { return c.ns.Proc(c.rank) }
func (c *conn) me() modex.Process { return c.ns.process(c.rank) }

// command is a row of the table of requests.
type command struct {
	name   string
	handle func(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error)
	waits  bool                 // it may block, and has a goroutine of its own
	large  bool                 // its answer may be large: handle takes the connection's turn before it makes one
	silent bool                 // it has no answer
	holds  bool                 // it may keep the connection's reader waiting for others
	tail   func(*bfrops.Writer) // what follows an answer's status where that is not 0
}

// run reads requests until the connection ends, which it tells the caller if it should not have.
func (c *conn) run(ctx context.Context) {
	whole := ctx
	ctx, cancel := context.WithCancel(whole)
	var wg sync.WaitGroup
	wg.Go(func() { c.tell(ctx) })
	err := c.welcome()
	if err == nil {
		err = c.serve(ctx, &wg)
	}
	c.talk.End()
	cancel()
	c.events.Quit()
	gone, alone := c.host.presence.leave(c.visit)
	if alone {
		c.host.withGroups(func(g *modex.Groups) { g.Left(c.id()) })
	}
	c.nc.Close()
	wg.Wait()
	if alone {
		if err := c.host.names.Left(whole, c.me()); err != nil && whole.Err() == nil {
			c.host.log.Warn("PMIx: names of a rank that has ended", "id", c.id(), "cause", err)
		}
	}
	var protocol *ProtocolError
	switch {
	case errors.As(err, &protocol):
		c.ns.space.RankGone(c.rank, "broke the PMIx protocol")
		c.host.failed(c.id(), err)
	case whole.Err() != nil:
	case gone:
		c.ns.space.RankGone(c.rank, "has closed its PMIx connection without MPI_Finalize")
		c.host.failed(c.id(), ErrUnfinished)
	}
}

// welcome answers the handshake. A rank that does not get this answer waits for it, for ever, unless it is hung up on.
func (c *conn) welcome() error {
	_, err := c.nc.Write(bfrops.AppendAnswer(nil, 0, uint32(c.id())))
	return err
}

// stop notes that the rank is done with PMIx on this connection, and says whether it was its main one.
func (c *conn) stop() (main bool) {
	c.events.Quit()
	return c.host.presence.stop(c.visit)
}

// serve answers what needs no waiting at once, so that a rank's commit is there before its fence.
func (c *conn) serve(ctx context.Context, wg *sync.WaitGroup) error {
	slots := make(chan struct{}, maxWaiting)
	var waiting atomic.Int64 // bytes of requests that wait
	for {
		f, err := bfrops.ReadFrame(c.nc)
		var format *bfrops.FormatError
		switch {
		case errors.As(err, &format):
			return &ProtocolError{c.version, err}
		case err != nil:
			return err
		}
		if f.Tag == bfrops.TagHeartbeat {
			continue
		}
		r := bfrops.NewReader(c.dialect, c.desc, f.Payload)
		number := bfrops.One[uint64](r, bfrops.Command)
		if r.Err() != nil {
			return &ProtocolError{c.version, r.Err()}
		}
		cmd := c.find(number, c.version)
		if !cmd.waits {
			c.talk.Hold(cmd.holds)
			err := c.answer(ctx, f.Tag, cmd, r)
			c.talk.Hold(false)
			if err != nil {
				return err
			}
			continue
		}
		held := int64(len(f.Payload))
		if waiting.Add(held) > maxHeld || !take(slots) {
			waiting.Add(-held)
			c.reply(f.Tag, cmd, nil, bfrops.ErrOutOfResource)
			continue
		}
		wg.Go(func() {
			if err := c.answer(ctx, f.Tag, cmd, r); err != nil && ctx.Err() == nil {
				c.nc.Close() // the reader above ends with it
				var protocol *ProtocolError
				if errors.As(err, &protocol) {
					c.host.failed(c.id(), err)
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
	w, err := cmd.handle(ctx, c, r)
	if cmd.large && w != nil {
		defer c.giveTurn()
	}
	var (
		st    bfrops.Code
		limit *kvs.LimitError
		heavy *kvs.FenceLimitError
		enter *kvs.EnterError
		wrong *bfrops.SyntaxError
	)
	switch {
	case err == nil || errors.As(err, &st):
	case errors.As(err, &limit):
		c.host.log.Warn("PMIx", "request", cmd.name, "cause", err)
		st = bfrops.ErrOutOfResource
	case errors.As(err, &heavy):
		c.host.tooHeavy.Do(func() { c.host.notice("%s fails in some of its ranks: %v", cmd.name, err) })
		st = bfrops.ErrOutOfResource
	case errors.As(err, &enter):
		c.host.log.Warn("PMIx", "request", cmd.name, "cause", err)
		st = bfrops.ErrBadParam
	case errors.As(err, &wrong):
		return &ProtocolError{c.version, errors.New(cmd.name + ": " + wrong.Error())}
	case ctx.Err() != nil:
		return nil
	default: // the rank waits for what will not come; whoever stops it says why
		c.host.failed(c.id(), err)
		return nil
	}
	c.host.log.Debug("PMIx", "id", c.id(), "request", cmd.name, "status", int(st))
	if cmd.silent {
		return nil
	}
	c.reply(tag, cmd, w, st)
	return nil
}

// reply sends w, or st alone.
func (c *conn) reply(tag uint32, cmd *command, w *bfrops.Writer, st bfrops.Code) {
	if w == nil {
		w = c.writer()
		w.Status(int(st))
		if cmd.tail != nil {
			cmd.tail(w)
		}
	}
	b, err := w.Bytes()
	if err != nil { // a value that this client's dialect lacks
		c.host.log.Warn("PMIx", "id", c.id(), "request", cmd.name, "cause", err)
		w = c.writer()
		w.Status(int(bfrops.ErrNotSupported))
		b, _ = w.Bytes()
	}
	c.send(b, tag)
}

// writer begins a frame; send ends it.
func (c *conn) writer() *bfrops.Writer {
	return bfrops.NewWriter(c.dialect, c.desc, make([]byte, bfrops.HeaderLen, 256))
}

// success begins the answer of a request that succeeds.
func (c *conn) success() *bfrops.Writer {
	w := c.writer()
	w.Status(int(bfrops.Success))
	return w
}

// section begins groups that become a value.
func (c *conn) section() *bfrops.Writer { return bfrops.NewWriter(c.dialect, c.desc, nil) }

// send writes a frame. A client that cannot be written to is hung up on, or it would wait for that answer for ever. What it has said
// before is still read: one that has gone may have taken its leave.
func (c *conn) send(frame []byte, tag uint32) {
	bfrops.FinishFrame(frame, tag)
	c.write <- struct{}{}
	defer func() { <-c.write }()
	if _, err := c.nc.Write(frame); err != nil {
		c.host.log.Debug("PMIx: a client that cannot be answered is hung up on", "id", c.id(), "cause", err)
		socket.HangUp(c.nc)
	}
}

// tell sends events until the connection ends.
func (c *conn) tell(ctx context.Context) {
	for e, ok := c.events.Next(ctx); ok; e, ok = c.events.Next(ctx) {
		if err := c.sendEvent(e); err != nil {
			c.host.log.Debug("PMIx event", "id", c.id(), "code", e.Code, "cause", err)
		}
	}
}

const commandNotify = 12

func (c *conn) sendEvent(e event.Event) error {
	w := c.writer()
	w.Group(bfrops.Command, uint64(commandNotify))
	w.Status(e.Code)
	w.Group(bfrops.ProcType, e.Source)
	w.Infos(e.Infos)
	w.Group(bfrops.Range, uint64(e.Range))
	b, err := w.Bytes()
	if err != nil {
		return err
	}
	c.send(b, bfrops.TagEvent)
	return nil
}

// within bounds ctx by the request's pmix.timeout, in seconds; the cause is then status.ErrTimeout.
func within(ctx context.Context, infos []bfrops.Info) (context.Context, context.CancelFunc) {
	if n := seconds(infos); n > 0 {
		return awake.WithinCause(ctx, time.Duration(n)*time.Second, bfrops.ErrTimeout)
	}
	return ctx, func() {}
}

// seconds is the request's pmix.timeout; 0: none.
func seconds(infos []bfrops.Info) int64 {
	v, _ := bfrops.Attribute(infos, "pmix.timeout")
	if n, ok := v.Number(); ok && n > 0 && n < 1<<31 {
		return int64(n)
	}
	return 0
}
