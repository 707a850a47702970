// Package handover keeps what a run's next launcher has to be told of one host, for runs whose ranks may outlive their launcher.
//
//	ranks ──frames──▶ Record ──▶ wire.Link ──▶ launcher            attached: all passes, and what a successor needs is noted
//	                    │
//	                    ├── told: Started, Exited, ...             held: nothing passes; ranks are not kept waiting
//	                    ├── open: questions without an answer
//	                    ├── output that has not left the launcher  adopted: Resumed, told, open, output, ends ──▶ the next launcher
//	                    └── ends: OutputEnd
//
//	attached ──Hold──▶ held ──Adopt──▶ attached     another launcher's: the link begins anew, and all that is noted is sent
//	                     └────Back───▶ attached     the same one's, which was away: what it missed is sent
//
// A launcher that starts ranks again, or joins hosts, knows what no agent does: it withdraws what it had described (Hold.withdrawn),
// and its ranks end with it. A fence that some hosts' ranks have left, and others not, cannot be gone through again: Resumed says
// which fences were answered here, and the next launcher compares.
//
// Output is kept until the launcher gives credit for it, so until it was written: the next one writes what is left, and what the dead
// one had just written and not told of comes twice. While nobody takes it, the last of each process is kept (Job.window) and the
// rest counted.
//
// Concurrency: all methods may be called by several goroutines. None blocks but Ease.
package handover

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"google.golang.org/protobuf/proto"
)

// Bounds of what is noted.
const (
	maxNoted = 512 << 20       // bytes of frames but output, as a link keeps at most; a session that has more ends
	maxDone  = 1024            // fences that were answered
	recent   = 5 * time.Minute // how long a frame that a launcher passes on is sent again
)

// Record is one session's. New makes one.
type Record struct {
	link  *wire.Link
	now   func() time.Duration // monotonic, to a millisecond or better
	grant func(id, n uint32)   // lets a process write on

	mu     sync.Mutex
	window int              // bytes of output kept of each process while nobody takes it, guarded by mu
	told   []entry          // in order, guarded by mu
	ends   []entry          // OutputEnd, guarded by mu
	latest map[string]entry // what is true until the next of its kind, guarded by mu
	open   map[any]entry    // by the question's key, guarded by mu
	passed []entry          // Rendezvous of the last while, guarded by mu
	done   []string         // fences that were answered, the last maxDone, guarded by mu
	output map[uint32]*tail // by id, guarded by mu
	size   int              // bytes of entries, and of late frames that are none, guarded by mu
	count  uint64           // of entries, guarded by mu
	held   bool             // guarded by mu
	lost   time.Duration    // when a launcher was heard last, guarded by mu
	from   uint64           // count when held began, guarded by mu
	late   []*apiv1.Frame   // that were not sent since, but for what is in latest, guarded by mu
	extra  int              // bytes of those that are no entries, guarded by mu
	freed  chan struct{}    // closed when held ends, guarded by mu
}

// entry is a frame that was to be sent at a time.
type entry struct {
	frame *apiv1.Frame
	at    time.Duration
	seq   uint64
}

// New only builds. grant lets a process write on whose output nobody takes.
func New(l *wire.Link, now func() time.Duration, grant func(id, n uint32)) *Record {
	return &Record{link: l, now: now, grant: grant, latest: map[string]entry{}, open: map[any]entry{}, output: map[uint32]*tail{}}
}

// Send notes a frame, and queues it unless nobody takes it.
func (r *Record) Send(f *apiv1.Frame) error { return r.Lend(f, nil) }

// Lend is Send of a frame whose memory is given back.
func (r *Record) Lend(f *apiv1.Frame, back func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := f.GetOutput(); o != nil {
		r.noteOutput(o, !r.held)
		if r.held {
			r.grant(o.Rank, uint32(len(o.Data)))
			if back != nil {
				back()
			}
			return nil
		}
		return r.link.Lend(f, back)
	}
	noted := r.note(f)
	if r.held && passesLater(f) && !passing(f) {
		if r.late = append(r.late, f); !noted {
			r.size, r.extra = r.size+proto.Size(f), r.extra+proto.Size(f)
		}
	}
	switch {
	case r.size > maxNoted:
		return wire.ErrFull
	case r.held && passesLater(f):
		return nil
	}
	return r.link.Lend(f, back)
}

// passing says that a frame is true until the next of its kind.
func passing(f *apiv1.Frame) bool {
	return f.GetActivity() != nil || f.GetContainerMemory() != nil || f.GetMet() != nil || f.GetFlight() != nil
}

// passesLater says that a frame waits until there is a launcher. What ends the session does not.
func passesLater(f *apiv1.Frame) bool { return f.GetEnding() == nil && f.GetClosed() == nil }

// Ease is the link's. While nobody takes anything it waits for the next launcher, once more than most bytes are noted.
func (r *Record) Ease(ctx context.Context, most int) error {
	r.mu.Lock()
	freed := r.freed
	if r.size <= most {
		freed = nil
	}
	r.mu.Unlock()
	if freed != nil {
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return r.link.Ease(ctx, most)
}

// Hold begins a time without launcher, of which nothing was heard for so long. Processes that wait for their output to be taken go on.
func (r *Record) Hold(silent time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held {
		return
	}
	r.held, r.from, r.lost, r.freed = true, r.count, r.now()-silent, make(chan struct{})
	for id, t := range r.output {
		r.grant(id, uint32(t.size))
		t.cut(r.window)
	}
}

// Back ends it: the same launcher is there again. It is sent what it missed.
func (r *Record) Back() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held {
		return nil
	}
	var ends, send []*apiv1.Frame
	if m := r.resumed(); len(m.Dropped) > 0 {
		m.Fences = nil // it has sent the answers itself
		send = append(send, m.Frame())
	}
	for _, f := range r.late {
		if f.GetOutputEnd() != nil {
			ends = append(ends, f)
		} else {
			send = append(send, f)
		}
	}
	for _, e := range inOrder(slices.Collect(maps.Values(r.latest))) {
		if e.seq > r.from {
			send = append(send, &apiv1.Frame{Body: e.frame.Body})
		}
	}
	for _, c := range r.chunks() {
		if !c.sent {
			send = append(send, c.frame())
		}
	}
	return r.resume(append(send, ends...))
}

// Adopt ends it: another launcher takes over, which has been told nothing. The link's streams end for why. Nobody calls Back
// meanwhile.
func (r *Record) Adopt(why error) error {
	r.Hold(0)
	unacknowledged := r.link.Restart(why) // which waits for a frame that is being taken, and that may be noted here
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resume(append([]*apiv1.Frame{r.resumed().Frame()}, r.replay(unacknowledged)...))
}

// resume sends frames in order, and lets all that follows pass. mu is held.
func (r *Record) resume(frames []*apiv1.Frame) error {
	for _, t := range r.output {
		for _, c := range t.chunks {
			c.sent = true
		}
		t.dropped = 0
	}
	if r.held {
		close(r.freed)
	}
	r.size -= r.extra
	r.held, r.late, r.extra, r.freed = false, nil, 0, nil
	for _, f := range frames {
		if err := r.link.Send(f); err != nil {
			return err
		}
	}
	return nil
}
