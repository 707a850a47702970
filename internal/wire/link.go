package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// Stream carries frames one way each; gRPC's client and server streams are Streams, and so
// are the ends of a Pipe. Send and Recv may run at the same time, each in one goroutine.
type Stream interface {
	Send(*apiv1.Frame) error
	Recv() (*apiv1.Frame, error)
}

// Errors that callers tell apart.
var (
	// ErrFull: the other side acknowledged too little for too long; the session cannot go on.
	ErrFull = errors.New("too much waits for the other side to acknowledge")
	// ErrTooLarge: the other side takes no frame of that size; the session goes on without it.
	ErrTooLarge = errors.New("more than one frame can carry")
	// ErrReplaced: a newer stream has taken this one's place.
	ErrReplaced = errors.New("replaced by a newer connection of the same session")
)

// ackBytes and ackFrames: what may be received before a bare acknowledgement is sent.
const (
	ackBytes  = 256 << 10
	ackFrames = 64
)

type queued struct {
	frame *apiv1.Frame
	size  int
	sent  int    // on how many streams
	back  func() // nil: nobody wants the frame's memory back
}

// Link is one end of a session, for the session's life.
type Link struct {
	clock     *Clock        // what silence is measured by
	heartbeat time.Duration // longest silence of ours on a stream
	maxQueued int           // bytes of frames kept until acknowledged
	wake      chan struct{} // capacity 1: the pump has something to look at
	wg        sync.WaitGroup

	mu      sync.Mutex
	seq     uint64        // of the last frame numbered, guarded by mu
	kept    []queued      // numbered, not acknowledged, guarded by mu
	keptLen int           // bytes in kept, guarded by mu
	unsent  int           // index into kept of the first not sent on this stream, guarded by mu
	run     int           // number of the current stream, guarded by mu
	end     func(error)   // ends the current stream's Run, guarded by mu
	full    bool          // ErrFull was returned, guarded by mu
	eased   chan struct{} // closed when something was acknowledged, nil while nobody waits, guarded by mu

	in       sync.Mutex
	received uint64        // highest seq delivered, guarded by in
	fresh    int           // frames since the last acknowledgement, guarded by in
	freshLen int           // their bytes, guarded by in
	heard    time.Duration // Clock time of the last frame of any kind, guarded by in
}

// NewLink makes a Link on which nothing was sent or received yet, and which measures silence by that clock.
func NewLink(clock *Clock) *Link {
	return &Link{clock: clock, heartbeat: time.Second, maxQueued: 512 << 20, wake: make(chan struct{}, 1), heard: clock.Now()}
}

// numbering is the most bytes that Seq and Ack add to a frame.
const numbering = 22

// Send numbers a frame and queues it. It does not wait for the network. The frame belongs to
// the Link from here on. An error is ErrTooLarge or ErrFull.
func (l *Link) Send(f *apiv1.Frame) error { return l.Lend(f, nil) }

// Lend is Send of a frame that refers to memory which the caller wants back. The Link calls back once nobody reads
// the frame any more: it was acknowledged, and went over one stream only. A frame that was sent again may still lie
// in a broken stream's buffers; for it back is never called. It must not block. Do not use Lend over a Pipe, whose
// other side gets the frame itself.
func (l *Link) Lend(f *apiv1.Frame, back func()) error {
	size := proto.Size(f)
	if size > apiv1.MaxFrame-numbering {
		return fmt.Errorf("%w: %d bytes, %d are possible", ErrTooLarge, size, apiv1.MaxFrame-numbering)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full || l.keptLen+size > l.maxQueued {
		l.full = true
		return ErrFull
	}
	l.seq++
	f.Seq = l.seq
	l.kept = append(l.kept, queued{frame: f, size: size, back: back})
	l.keptLen += size
	l.nudge()
	return nil
}

// nudge wakes the pump; one that is pending is enough.
func (l *Link) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Received is the highest seq delivered so far: what Open and Opened tell the other side.
func (l *Link) Received() uint64 {
	l.in.Lock()
	defer l.in.Unlock()
	return l.received
}

// Silent is how long nothing was heard, counting only time in which this process ran.
func (l *Link) Silent() time.Duration {
	l.in.Lock()
	defer l.in.Unlock()
	return l.clock.Now() - l.heard
}

// Heard restarts Silent, as a frame would.
func (l *Link) Heard() {
	l.in.Lock()
	l.heard = l.clock.Now()
	l.in.Unlock()
}

// Queued is the number of frames the other side has not acknowledged.
func (l *Link) Queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.kept)
}

// Acknowledged says that the process on the other side has had a frame of ours.
func (l *Link) Acknowledged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq > 0 && (len(l.kept) == 0 || l.kept[0].frame.Seq > 1)
}

// Ease blocks until at most so many bytes wait to be acknowledged, or ctx ends. With 0 everything sent was acknowledged
// then; more is for a sender that sends as much as others ask for, and that can keep them waiting.
func (l *Link) Ease(ctx context.Context, most int) error {
	for {
		l.mu.Lock()
		if l.keptLen <= most {
			l.mu.Unlock()
			return nil
		}
		if l.eased == nil {
			l.eased = make(chan struct{})
		}
		c := l.eased
		l.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Run carries frames over s until it breaks, ctx ends, or a newer Run takes over, and returns
// why; never nil. peerReceived is what the other side said it has: frames up to there are
// dropped, those after it are sent again. deliver gets each numbered frame once, in order; an
// error of its ends the stream.
//
// The goroutines blocked in s end when the owner of s ends it (a gRPC handler by returning, a
// client by its context), which may be after Run returned: Wait for them.
func (l *Link) Run(ctx context.Context, s Stream, peerReceived uint64, deliver func(*apiv1.Frame) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.mu.Lock()
	if ctx.Err() != nil { // it is over before it began, and must not end the Run that lives
		l.mu.Unlock()
		return context.Cause(ctx)
	}
	if peerReceived > l.seq {
		l.mu.Unlock()
		return fmt.Errorf("the other side claims frame %d of %d", peerReceived, l.seq)
	}
	if l.end != nil {
		l.end(ErrReplaced)
	}
	l.end = cancel
	l.run++
	run := l.run
	l.unsent = 0
	l.forget(peerReceived)
	l.mu.Unlock()
	l.Heard()

	l.wg.Add(2)
	go func() { defer l.wg.Done(); cancel(l.pump(ctx, s, run)) }()
	go func() { defer l.wg.Done(); cancel(l.read(ctx, s, run, deliver)) }()
	<-ctx.Done()
	return context.Cause(ctx)
}

// Restart begins anew, for another process on the other side, which has sent and received nothing. It ends the stream that
// carries, for why, and returns what the process before had not acknowledged. Memory that was lent is not given back.
func (l *Link) Restart(why error) (unacknowledged []*apiv1.Frame) {
	l.in.Lock()
	defer l.in.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end(why)
		l.end = nil
	}
	for _, q := range l.kept {
		unacknowledged = append(unacknowledged, q.frame)
	}
	l.run++
	l.seq, l.kept, l.keptLen, l.unsent, l.full = 0, nil, 0, 0, false
	l.received, l.fresh, l.freshLen, l.heard = 0, 0, 0, l.clock.Now()
	if l.eased != nil {
		close(l.eased)
		l.eased = nil
	}
	return unacknowledged
}

// Wait blocks until the goroutines of all Runs have ended.
func (l *Link) Wait() { l.wg.Wait() }

// forget drops what the other side has; mu is held.
func (l *Link) forget(ack uint64) {
	n := 0
	for n < len(l.kept) && l.kept[n].frame.Seq <= ack {
		q := &l.kept[n]
		l.keptLen -= q.size
		if q.back != nil && q.sent == 1 {
			q.back()
		}
		*q = queued{}
		n++
	}
	if n == 0 {
		return
	}
	l.kept = l.kept[n:]
	if l.eased != nil {
		close(l.eased)
		l.eased = nil
	}
	l.unsent = max(l.unsent-n, 0)
	if len(l.kept) == 0 {
		l.kept = nil
	}
}
