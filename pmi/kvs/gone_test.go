package kvs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

func TestOnGone(t *testing.T) {
	e, err := New(Config{KVSName: "test", Size: 3, Local: []int{0, 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(nil)
	var told []string
	e.OnGone(func(rank int, why string) {
		told = append(told, fmt.Sprintf("%d %s, %d gone", rank, why, len(e.Gone())))
	})
	e.RankGone(1, "ended")
	e.RankGone(2, "left")
	if want := []string{"1 ended, 1 gone", "2 left, 2 gone"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	e.RankBack(1)
	if gone := e.Gone(); len(gone) != 1 || gone[2] != "left" {
		t.Error(gone)
	}
}

// decided is an upstream that answers when it is told to.
type decided struct{ entered, answer chan error }

func (d decided) Exchange(context.Context, string, uint64, bool, []byte) ([][]byte, error) {
	d.entered <- nil
	return nil, <-d.answer
}

func (decided) Fetch(context.Context, int, string) ([]byte, bool, error) { return nil, false, nil }

// A rank that goes while a fence of this host is with the other hosts ends it only if they say so: it
// may be over there.
func TestGoneInAnExchange(t *testing.T) {
	for _, answer := range []error{nil, errors.New("rank 1 has ended")} {
		up := decided{make(chan error), make(chan error)}
		e, err := New(Config{KVSName: "test", Size: 3, Local: []int{0, 1}, Upstream: up})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(nil)
		over := make(chan error, 2)
		var wg sync.WaitGroup
		defer wg.Wait()
		for r := range 2 {
			wg.Go(func() { over <- e.Fence(t.Context(), r, nil, false) })
		}
		<-up.entered
		e.RankGone(1, "ended")
		up.answer <- answer
		for range 2 {
			if err := <-over; !errors.Is(err, answer) {
				t.Errorf("the fence ended with %v, not %v", err, answer)
			}
		}
		var gone *GoneError
		if err := e.Fence(t.Context(), 0, nil, false); !errors.As(err, &gone) {
			t.Errorf("the next fence: %v", err)
		}
	}
}
