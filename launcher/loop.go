package launcher

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/streams"
)

// mailbox is the loop's queue: of run.Events, and functions that its goroutine is to call. Its senders, readers of connections, must not block; what it
// holds is bounded by what ranks do (output, the bulk, does not pass here).
type mailbox struct {
	wake chan struct{} // capacity 1

	mu    sync.Mutex
	items []any // guarded by mu
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) put(e any) {
	m.mu.Lock()
	m.items = append(m.items, e)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = nil
	return items
}

// deliver takes a frame from host h's connection, on its reading goroutine. Output goes on
// from here; all else to the loop. It returns no error: a connection cannot be resumed out of
// a frame that makes no sense, the loop ends the job over it.
func (r *driver) deliver(h int, f *apiv1.Frame) error {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Output:
		o := b.Output
		if r.places.owns(h, o.Rank) && (o.Stream == apiv1.Stream_STDOUT || o.Stream == apiv1.Stream_STDERR) {
			r.sink.Write(int(o.Rank), job.Stream(o.Stream), o.Data, o.Partial, time.Unix(0, o.TimeNs))
			return nil
		}
	case *apiv1.Frame_OutputEnd:
		if r.places.owns(h, b.OutputEnd.Rank) {
			r.sink.End(int(b.OutputEnd.Rank))
		}
	case *apiv1.Frame_Credit:
		if r.places.owns(h, b.Credit.Rank) && r.input != nil {
			r.input.Grant(int(b.Credit.Rank), int(b.Credit.Bytes))
			return nil
		}
	case *apiv1.Frame_CopyCredit:
		if b.CopyCredit.Job == 0 {
			r.copier.Grant(h, int(min(b.CopyCredit.Bytes, apiv1.CopyWindow)))
			return nil
		}
	}
	r.mail.put(run.Frame{Host: h, Frame: f, At: r.clock.Now()})
	return nil
}

// carry launches and stays with the job until its end; what it starts has ended when it
// returns.
func (r *driver) carry(ctx, life context.Context, cancel context.CancelFunc) error {
	var parts, sink, input sync.WaitGroup
	defer func() {
		parts.Wait()
		for _, e := range r.mail.take() {
			if late, ok := e.(func()); ok { // hosts that joined too late
				late()
			}
		}
	}()
	defer cancel()
	r.aside = func(f func(context.Context)) { parts.Go(func() { f(life) }) }
	parts.Go(func() { r.clock.Run(life, r.tickHosts) })
	sinkCtx, unblock := context.WithCancel(life)
	r.unblock = unblock
	defer unblock()
	sink.Go(func() { _ = r.sink.Run(sinkCtx) }) // each error came through Broken
	r.makeTimers()
	r.carryOut(r.run.Start(r.now()))
	r.startCopy()
	for _, h := range r.places.hosts() {
		r.aside(r.carryHost(h))
	}
	inputCtx, endInput := context.WithCancel(life)
	if r.input != nil {
		input.Go(func() {
			select {
			case <-r.feed:
			case <-inputCtx.Done():
				return
			}
			if err := r.input.Run(inputCtx); err != nil {
				r.say("%v; the ranks see its end", err)
			}
		})
	}
	r.loop(ctx)
	endInput()
	input.Wait()
	r.sink.Close()
	r.flush(&sink)
	r.step(run.Over{})
	return nil
}

// flush waits until all output is written. A reader that does not read is waited for as by any
// program, until a second INT or TERM.
func (r *driver) flush(sink *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { sink.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		case s := <-r.cfg.Signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM {
				r.unblock()
			}
		}
	}
}

// loop feeds the run from launch until every host is done. It returns early only when ctx ends.
func (r *driver) loop(ctx context.Context) {
	defer r.stopTimers()
	defer func() { r.over = true }()
	done := ctx.Done()
	for r.run.Active() > 0 {
		select {
		case <-r.mail.wake:
			for _, e := range r.mail.take() {
				switch e := e.(type) {
				case run.Event:
					r.step(e)
				case func():
					e()
				}
			}
			r.step(run.Turn{})
		case s := <-r.cfg.Signals:
			r.signal(s)
		case <-r.timers[run.Limit].C:
			r.step(run.Expired{Timer: run.Limit})
		case <-r.timers[run.Missing].C:
			r.step(run.Expired{Timer: run.Missing})
		case <-r.timers[run.Lone].C:
			r.step(run.Expired{Timer: run.Lone})
		case <-r.timers[run.Hang].C:
			r.step(run.Expired{Timer: run.Hang})
		case <-r.timers[run.Answers].C:
			r.step(run.Expired{Timer: run.Answers})
		case <-r.timers[run.Grace].C:
			r.step(run.Expired{Timer: run.Grace})
		case <-r.timers[run.Quiet].C:
			r.step(run.Expired{Timer: run.Quiet})
		case <-r.timers[run.Room].C:
			r.step(run.Expired{Timer: run.Room})
		case <-r.timers[run.Bound].C:
			r.step(run.Expired{Timer: run.Bound})
		case <-done:
			done = nil
			r.step(run.Cancelled{})
		}
	}
}

// signal passes on what the launcher got. The size of our terminal is nothing that a run knows.
func (r *driver) signal(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	switch {
	case !ok:
	case sig != syscall.SIGWINCH || r.exec == nil:
		r.step(run.Signal{Number: int(sig)})
	case r.exec.TTY:
		r.resize()
	}
}

func (r *driver) makeTimers() {
	for i := range r.timers {
		r.timers[i] = time.NewTimer(time.Hour)
		r.timers[i].Stop()
	}
}

func (r *driver) stopTimers() {
	for _, t := range r.timers {
		t.Stop()
	}
}

// tickHosts passes a step of the clock on to every host's connection.
func (r *driver) tickHosts() {
	for _, h := range r.places.hosts() {
		h.Tick()
	}
}

// carryHost keeps a host's session on a connection until it is over.
func (r *driver) carryHost(h *link.Conn) func(context.Context) {
	return func(life context.Context) {
		e := run.Ended{Host: h.Index}
		if lost := (*link.Lost)(nil); errors.As(h.Run(life), &lost) {
			e.Lost, e.Why, e.Since, e.Fenced = true, lost.Why, lost.Since, lost.Fenced
		}
		r.mail.put(e)
	}
}

// resize tells the command's terminal our size.
func (r *driver) resize() {
	if rows, columns, err := streams.TerminalSize(r.cfg.Stdin); err == nil {
		r.send(0, (&apiv1.Resize{Rows: uint32(rows), Columns: uint32(columns)}).Frame())
	}
}
