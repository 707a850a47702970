package link

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// told is a stream that brings what is sent to it.
type told chan any

func (s told) Send(*apiv1.Frame) error { return nil }

func (s told) Recv() (*apiv1.Frame, error) {
	switch v := (<-s).(type) {
	case *apiv1.Frame:
		return v, nil
	case error:
		return nil, v
	}
	return nil, io.EOF
}

func numbered(seq uint64) *apiv1.Frame {
	f := (&apiv1.Notice{Text: "x"}).Frame()
	f.Seq = seq
	return f
}

// What comes while nobody receives is kept in order, but for heartbeats; then nothing is lost.
func TestReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := make(told)
		s := &Session{Stream: stream, Close: func() { close(stream) }}
		a := ReadAhead(s)
		if heard, err := a.Heard(); heard || err != nil {
			t.Errorf("before anything came: %v, %v", heard, err)
		}
		beat := (&apiv1.Heartbeat{}).Frame()
		stream <- beat
		stream <- numbered(1)
		stream <- beat
		synctest.Wait()
		heard, err := a.Heard()
		again, _ := a.Heard()
		if !heard || again || err != nil {
			t.Errorf("heard %v, again %v, %v", heard, again, err)
		}
		got := make(chan *apiv1.Frame)
		go func() {
			defer close(got)
			for {
				f, err := s.Stream.Recv()
				if err != nil {
					return
				}
				got <- f
			}
		}()
		synctest.Wait() // it receives: what comes first now is no heartbeat of before
		stream <- &apiv1.Frame{Ack: 7}
		if f := <-got; f.Seq != 1 {
			t.Errorf("first %v", f)
		}
		if f := <-got; f.Ack != 7 {
			t.Errorf("second %v", f)
		}
		for seq := uint64(2); seq < 5; seq++ {
			stream <- numbered(seq)
			if f := <-got; f.Seq != seq {
				t.Errorf("%v, want number %d", f, seq)
			}
		}
		s.Close()
		if f, more := <-got; more {
			t.Errorf("after the end: %v", f)
		}
	})
}

// A frame that came before anybody received does not wait for the next one: an agent may answer a Launch before the launcher's
// reader has run, and says nothing more until a heartbeat is due.
func TestReadAheadKeepsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := make(told)
		s := &Session{Stream: stream, Close: func() { close(stream) }}
		ReadAhead(s)
		stream <- numbered(1)
		stream <- numbered(2)
		synctest.Wait()
		for seq := uint64(1); seq < 4; seq++ {
			got := make(chan uint64, 1)
			go func() {
				f, err := s.Stream.Recv()
				if err != nil {
					t.Error(err)
				}
				got <- f.GetSeq()
			}()
			synctest.Wait()
			if seq == 3 {
				stream <- numbered(3)
				synctest.Wait()
			}
			if len(got) == 0 || <-got != seq {
				t.Fatalf("frame %d was not received", seq)
			}
		}
		s.Close()
	})
}

func TestReadAheadTellsOfTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		say  func(stream told)
		want string
		kept int // frames that can be received
	}{
		{"the stream breaks", func(s told) { s <- errors.New("reset") }, "reset", 0},
		{"the agent ends the session", func(s told) {
			f := (&apiv1.Closed{Text: "it was silent"}).Frame()
			f.Seq = 1
			s <- f
		}, "its agent ended the session: it was silent", 1},
		{"too much", func(s told) {
			for i := range maxAhead + 1 {
				s <- numbered(uint64(i + 1))
			}
		}, "its agent says too much before it is asked", maxAhead + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream := make(told)
				s := &Session{Stream: stream, Close: func() { close(stream) }}
				a := ReadAhead(s)
				tt.say(stream)
				synctest.Wait()
				if _, err := a.Heard(); err == nil || err.Error() != tt.want {
					t.Errorf("it says %v, not %q", err, tt.want)
				}
				for range tt.kept {
					if _, err := s.Stream.Recv(); err != nil {
						t.Errorf("a frame that was kept: %v", err)
					}
				}
				if _, err := s.Stream.Recv(); err == nil {
					t.Error("something comes after the end")
				}
				s.Close()
			})
		})
	}
}
