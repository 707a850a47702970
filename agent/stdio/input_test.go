package stdio

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"
)

type stdin struct {
	*Input
	files  *Files
	exited chan struct{}
	back   atomic.Int64
	done   chan error
}

func startInput(t *testing.T, limit int) *stdin {
	t.Helper()
	f, err := Pipes(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	s := &stdin{files: f, exited: make(chan struct{}), done: make(chan error, 1)}
	s.Input = NewInput(InputConfig{Rank: 1, File: f.In, Limit: limit, Exited: s.exited,
		Done: func(n int) { s.back.Add(int64(n)) }})
	go func() { s.done <- s.Run(t.Context()) }()
	return s
}

func TestInput(t *testing.T) {
	s := startInput(t, 0)
	for _, w := range []string{"one\n", "two"} {
		if err := s.Write([]byte(w)); err != nil {
			t.Fatal(err)
		}
	}
	s.CloseWrite()
	got, err := io.ReadAll(s.files.Child[0])
	if err != nil || string(got) != "one\ntwo" {
		t.Errorf("the rank read %q, %v", got, err)
	}
	if err := <-s.done; err != nil || s.back.Load() != 7 {
		t.Errorf("Run: %v, %d bytes back, want 7", err, s.back.Load())
	}
}

func TestInputOverrun(t *testing.T) {
	s := startInput(t, 8)
	if err := s.Write(make([]byte, 9)); !errors.Is(err, ErrOverrun) {
		t.Errorf("got %v", err)
	}
	s.CloseWrite()
	<-s.done
}

// A rank that closes its stdin ends the input; what was and will be sent is given back.
func TestRankClosesStdin(t *testing.T) {
	s := startInput(t, 0)
	s.files.Child[0].Close()
	s.Write([]byte("lost"))
	if err := <-s.done; err != nil {
		t.Fatal(err)
	}
	s.Write([]byte("more"))
	if s.back.Load() != 8 {
		t.Errorf("%d bytes back, want 8", s.back.Load())
	}
}

// A rank that exits while its pipe is full (a grandchild holds the other end) blocks nobody.
func TestExitWhileStdinIsFull(t *testing.T) {
	s := startInput(t, 4<<20)
	sent := bytes.Repeat([]byte("x"), 2<<20)
	s.Write(sent[:1<<20])
	s.Write(sent[1<<20:])
	close(s.exited)
	if err := <-s.done; err != nil {
		t.Fatal(err)
	}
	if s.back.Load() != int64(len(sent)) {
		t.Errorf("%d bytes back, want %d", s.back.Load(), len(sent))
	}
}
