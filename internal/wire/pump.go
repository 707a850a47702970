package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"google.golang.org/protobuf/proto"
)

// pump is a stream's only sender: queued frames, acknowledgements that are due, and a
// heartbeat when it had nothing else to say.
func (l *Link) pump(ctx context.Context, s Stream, run int) error {
	beat := time.NewTicker(l.heartbeat)
	defer beat.Stop()
	// Something was sent since the last beat; a heartbeat is due: at once on a stream that has taken another's place, since the other side may
	// leave that one only when it hears that this one is used.
	said, due := true, run > 1
	for {
		f := l.next(run)
		if f == nil && (due || l.ackDue()) {
			f = (&apiv1.Heartbeat{}).Frame()
		}
		if f != nil {
			f.Ack = l.takeAck()
			if err := s.Send(f); err != nil {
				return fmt.Errorf("send: %w", err)
			}
			said, due = !due, false
			continue
		}
		select {
		case <-l.wake:
		case <-beat.C:
			due, said = !said, false
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next is a copy of the first frame not sent on this stream; nil when there is none or the
// stream is no longer the current one. A copy, since a stream that was replaced may still be
// reading the frame it was given.
func (l *Link) next(run int) *apiv1.Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run != l.run {
		l.nudge() // the nudge was meant for the newer pump
		return nil
	}
	if l.unsent >= len(l.kept) {
		return nil
	}
	f := l.kept[l.unsent].frame
	l.kept[l.unsent].sent++
	l.unsent++
	return &apiv1.Frame{Seq: f.Seq, AgeMs: f.AgeMs, Body: f.Body}
}

func (l *Link) replaced(run int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return run != l.run
}

func (l *Link) ackDue() bool {
	l.in.Lock()
	defer l.in.Unlock()
	return l.fresh >= ackFrames || l.freshLen >= ackBytes
}

func (l *Link) takeAck() uint64 {
	l.in.Lock()
	defer l.in.Unlock()
	l.fresh, l.freshLen = 0, 0
	return l.received
}

// read is a stream's only receiver.
func (l *Link) read(ctx context.Context, s Stream, run int, deliver func(*apiv1.Frame) error) error {
	for {
		f, err := s.Recv()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.accept(f, run, deliver); err != nil {
			return err
		}
	}
}

// accept handles one frame. The lock is held through deliver, so that a frame is delivered
// once even when its stream is being replaced.
func (l *Link) accept(f *apiv1.Frame, run int, deliver func(*apiv1.Frame) error) error {
	l.mu.Lock()
	if run != l.run {
		l.mu.Unlock()
		return ErrReplaced
	}
	if f.Ack > l.seq {
		l.mu.Unlock()
		return fmt.Errorf("the other side acknowledges frame %d of %d", f.Ack, l.seq)
	}
	l.forget(f.Ack)
	l.mu.Unlock()

	l.in.Lock()
	defer l.in.Unlock()
	if l.replaced(run) { // while it waited: the numbers may have begun anew
		return ErrReplaced
	}
	l.heard = l.clock.Now()
	switch {
	case f.Seq == 0 || f.Seq <= l.received:
		return nil
	case f.Seq != l.received+1:
		return fmt.Errorf("frame %d follows frame %d", f.Seq, l.received)
	case f.Body == nil:
		return errors.New("a numbered frame without a body this version knows")
	}
	if err := deliver(f); err != nil {
		return err
	}
	l.received = f.Seq
	l.fresh++
	l.freshLen += proto.Size(f)
	if l.fresh == ackFrames || (l.freshLen >= ackBytes && l.fresh > 0) {
		l.nudge()
	}
	return nil
}
