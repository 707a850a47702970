package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// carry launches and stays with the job until its end; what it starts has ended when it
// returns.
func (r *driver) carry(ctx, life context.Context, cancel context.CancelFunc) error {
	var parts, sink, input sync.WaitGroup
	own := r.cfg.Stderr
	defer func() {
		parts.Wait()
		reach.CloseAll(r.joiners.takeAll()) // those that came too late
		r.cfg.Stderr = own
	}()
	defer cancel()
	r.aside = func(f func(context.Context)) { parts.Go(func() { f(life) }) }
	if r.status != nil {
		r.cfg.Stderr = r.status
		r.aside(r.status.Run)
	}
	parts.Go(func() {
		r.clock.Run(life, func() {
			for _, h := range slices.Concat(r.places.hosts(), r.spares) {
				h.Tick()
			}
		})
	})
	sinkCtx, unblock := context.WithCancel(life)
	r.unblock = unblock
	defer unblock()
	sink.Go(func() { _ = r.sink.Run(sinkCtx) }) // each error came through Broken
	if r.predecessor == nil {
		r.carryOut(r.run.Start(r.now()))
		r.startCopy()
	} else {
		r.carryOut(r.run.Adopt(r.now()))
	}
	for _, h := range r.places.hosts() {
		r.aside(r.carryHost(h))
	}
	for _, h := range r.spares {
		r.aside(func(life context.Context) {
			if lost := h.Run(life); lost != nil { // ranks that start again would have counted on it
				r.mail.put(run.SpareLost{Host: h.Name, Why: lost.Why})
			}
		})
	}
	if r.cfg.Elastic.On() && r.cfg.Identity != nil {
		r.aside(func(life context.Context) { watch(life, r) })
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
	for _, e := range r.mail.take() { // of the last lines, which were read and written when the ranks had ended
		switch e.(type) {
		case run.Watched, run.Unwritten:
			r.step(e)
		}
	}
	for _, l := range r.sink.Progress() {
		r.say("%s", l)
	}
	r.step(run.Over{})
	return nil
}

// flush waits until all output is written. A reader that does not read is waited for as by any
// program, until a second INT, QUIT or TERM.
func (r *driver) flush(sink *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { sink.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		case s := <-r.cfg.Signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGQUIT {
				r.unblock()
			}
		}
	}
}

// loop feeds the run from launch until every host is done. It returns early only when ctx ends.
func (r *driver) loop(ctx context.Context) {
	defer r.alarms.Stop()
	done := ctx.Done()
	for r.run.Active() > 0 {
		select {
		case <-r.mail.wake:
			for _, e := range r.mail.take() {
				r.step(e)
			}
			r.step(run.Turn{})
		case s := <-r.cfg.Signals:
			r.signal(s)
		case now := <-r.alarms.C():
			r.alarms.Count(now)
			for t := range run.Timers {
				if r.alarms.Rings(int(t)) {
					r.step(run.Expired{Timer: t})
				}
			}
			r.alarms.Arm()
		case <-done:
			done = nil
			r.step(run.Cancelled{Fault: elsewhere(ctx)})
		}
		r.remains.Stands(r.run.Stand())
	}
}

// elsewhere is the failure of another part of the job by which ctx has ended; nil: it ended otherwise.
func elsewhere(ctx context.Context) *verdict.Fault {
	var e *Elsewhere
	if !errors.As(context.Cause(ctx), &e) {
		return nil
	}
	return &verdict.Fault{Event: verdict.Elsewhere, ID: -1, Node: -1, Text: e.Sentence, Code: e.Code}
}

// signal passes on what the launcher got. What tells of another size of our terminal comes after that size.
func (r *driver) signal(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	switch {
	case !ok:
	case sig != syscall.SIGWINCH:
		r.step(run.Signal{Number: int(sig)})
	case r.exec == nil:
		if rows, columns := r.cfg.screen(); rows > 0 || columns > 0 {
			r.step(run.Resized{Rows: rows, Columns: columns})
		}
		r.step(run.Signal{Number: int(sig)})
	case r.exec.TTY:
		if rows, columns, err := streams.TerminalSize(r.cfg.Stdin); err == nil {
			r.send(0, (&apiv1.Resize{Rows: uint32(rows), Columns: uint32(columns)}).Frame())
		}
	}
}

// step hands an event to the run, and carries out what it orders.
func (r *driver) step(e run.Event) { r.carryOut(r.run.Step(r.now(), e)) }

func (r *driver) now() run.Now { return run.Now{Wall: time.Now(), Clock: r.clock.Now()} }

// carryOut carries out orders one after the other; what comes of them is the run's next.
func (r *driver) carryOut(orders []run.Order) {
	var answers []run.Event
	for _, o := range orders {
		if e := r.do(o); e != nil {
			answers = append(answers, e)
		}
	}
	for _, e := range answers {
		r.step(e)
	}
}

// do carries out one order. The answer is nil, or comes at once.
func (r *driver) do(order run.Order) (answer run.Event) {
	switch o := order.(type) {
	case run.Send:
		if err := r.places.hosts()[o.Host].Send(o.Frame); err != nil {
			return run.Refused{Host: o.Host, Err: err}
		}
	case run.Say:
		r.say("%s", o.Line)
	case run.Print:
		fmt.Fprintln(r.cfg.Stderr, o.Line)
	case run.Log:
		r.cfg.Log.Log(context.Background(), o.Level, o.Text, o.Attrs...)
	case run.Set:
		r.alarms.Set(int(o.Timer), o.After)
	case run.Unset:
		r.alarms.Unset(int(o.Timer))
	case run.Finish:
		r.places.hosts()[o.Host].Finish()
	case run.EndOutput:
		r.sink.End(o.ID)
	case run.NoInput:
		if r.input != nil {
			r.input.Gone(o.ID)
		}
	case run.Feed:
		close(r.feed)
	case run.NoCopies:
		switch {
		case r.copier == nil:
		case o.Host < 0:
			r.copier.AllGone()
		default:
			r.copier.Gone(o.Host)
		}
	case run.Unblock:
		r.unblock()
	case run.Started:
		if r.exec != nil && r.exec.Started != nil {
			r.exec.Started()
		}
		r.remains.Started(o.ID, o.PID)
	case run.NotStarted:
		r.remains.NotStarted(o.ID, o.Why)
	case run.Exited:
		r.remains.Ended(o.ID, o.Exit)
	case run.Silent:
		lines, of := r.sink.Tail(o.ID)
		r.remains.Last(o.ID, of, lines)
		if len(o.Crash.Frames)+len(o.Crash.Placed) > 0 {
			r.cores[o.ID] = o.Crash
		}
		if path := r.missedBy(o.ID); path != "" {
			return run.Missed{ID: o.ID, Path: path}
		}
	case run.Dump:
		r.remains.Dump(o.Rank, o.Gzip)
	case run.Seen:
		r.remains.Did(o.Works, o.Busy, o.Idle)
		r.remains.Memory(o.Host, o.Memory, o.Limit)
	case run.Held:
		r.remains.Waited(o.Finding)
	case run.Note:
		r.remains.Event(o.Kind, o.Host, o.Text)
		if r.cfg.Stopping != nil && o.Kind == report.Stopping && o.Host == "" {
			r.cfg.Stopping(o.Text, r.run.Verdict().Exit())
		}
	case run.HostLost:
		r.remains.LostHost(o.Host, o.Why, o.Silent)
	case run.Grow:
		return run.Grown{Err: r.sink.Grow(o.Job, o.First, o.Procs)}
	case run.Place:
		r.places.know(o.Roster)
		r.back.grow(o.Job.Size(), o.Window)
		r.report(o)
	case run.ReadHosts:
		r.readHosts(o.Programs)
	case run.Reach:
		return r.join(o)
	case run.Enlist:
		r.enlist(o.Site)
	case run.Dismiss:
		r.dismiss()
	}
	return nil
}
