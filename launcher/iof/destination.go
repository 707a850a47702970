package iof

import (
	"context"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// piece is one call of Write or End on its way to a destination.
type piece struct {
	id     int // of the process
	stream job.Stream
	data   []byte
	time   time.Time
	whole  bool // data is known to end with '\n'
	end    bool // nothing more comes from this process and stream; no data
}

// writer is what a destination does with pieces. Its methods are called from one goroutine.
type writer interface {
	// open prepares for writing.
	open()
	// put takes a piece; it may write it, or keep it.
	put(p piece, now time.Time)
	// expire writes what has been kept long enough and says when to call again; zero: never.
	expire(now time.Time) time.Time
	// flush writes what is ready.
	flush()
	// close writes what is kept, and ends. It returns what went wrong since open.
	close() error
	// interrupt makes a blocked write return, and the later ones forget what they are given. It
	// is called from another goroutine.
	interrupt()
}

// destination is a queue and the goroutine that empties it.
type destination struct {
	w    writer
	done func(k laneKey, n int) // bytes were written, or dropped
	wake chan struct{}

	mu     sync.Mutex
	queue  []piece // guarded by mu
	closed bool    // guarded by mu
	ended  bool    // run has ended, guarded by mu
}

func newDestination(w writer, done func(laneKey, int)) *destination {
	return &destination{w: w, done: done, wake: make(chan struct{}, 1)}
}

func (d *destination) put(p piece) {
	d.mu.Lock()
	ended := d.ended
	if !ended {
		d.queue = append(d.queue, p)
	}
	d.mu.Unlock()
	if ended {
		d.drop(p)
		return
	}
	d.signal()
}

func (d *destination) drop(p piece) {
	if n := len(p.data); n > 0 {
		d.done(laneKey{p.id, p.stream}, n)
	}
}

// end drops what is queued, and from now on everything.
func (d *destination) end() {
	d.mu.Lock()
	d.ended = true
	rest := d.queue
	d.queue = nil
	d.mu.Unlock()
	for _, p := range rest {
		d.drop(p)
	}
}

func (d *destination) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.signal()
}

func (d *destination) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// swap takes the queue and leaves an empty one.
func (d *destination) swap(empty []piece) (batch []piece, closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	batch, d.queue = d.queue, empty[:0]
	return batch, d.closed
}

// run writes until close, or until the end of ctx.
func (d *destination) run(ctx context.Context) error {
	defer d.end()
	d.w.open()
	defer context.AfterFunc(ctx, d.w.interrupt)()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var spare []piece
	for {
		batch, closed := d.swap(spare)
		now := time.Now()
		for _, p := range batch {
			d.w.put(p, now)
		}
		next := d.w.expire(now)
		d.w.flush()
		if ctx.Err() != nil || closed && len(batch) == 0 {
			return d.w.close()
		}
		clear(batch)
		spare = batch
		if len(batch) > 0 {
			continue
		}
		var expired <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			expired = timer.C
		}
		select {
		case <-d.wake:
		case <-expired:
		case <-ctx.Done():
		}
	}
}
