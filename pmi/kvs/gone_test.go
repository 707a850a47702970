package kvs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
)

func TestOnGone(t *testing.T) {
	e, err := New(Run{}).Add(Job{Base: 4, KVSName: "test", Size: 3, Local: []int{0, 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(nil)
	var told []string
	e.e.OnGone(func(id int, why string) {
		told = append(told, fmt.Sprintf("%d %s, %v %v", id, why, e.IsGone(1), e.IsGone(2)))
	})
	e.RankGone(1, "ended")
	e.RankGone(2, "left")
	if want := []string{"5 ended, true false", "6 left, true true"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	e.RankBack(1)
	if e.IsGone(1) || !e.IsGone(2) {
		t.Error("rank 1 is back and rank 2 is not")
	}
}

// decided is an upstream that answers when it is told to.
type decided struct{ entered, answer chan error }

func (d decided) Exchange(context.Context, string, uint64, bool, []byte) ([][]byte, error) {
	d.entered <- nil
	return nil, <-d.answer
}

func (decided) Fetch(context.Context, Question) ([]byte, bool, error) { return nil, false, nil }

// A rank that goes while a fence of this host is with the other hosts ends it only if they say so: it
// may be over there.
func TestGoneInAnExchange(t *testing.T) {
	for _, answer := range []error{nil, errors.New("rank 1 has ended")} {
		up := decided{make(chan error), make(chan error)}
		e, err := New(Run{Upstream: up}).Add(Job{KVSName: "test", Size: 3, Local: []int{0, 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(nil)
		over := make(chan error, 2)
		var wg sync.WaitGroup
		defer wg.Wait()
		for r := range 2 {
			wg.Go(func() { over <- e.Fence(t.Context(), r, idset.Set{}, "", false) })
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
		if err := e.Fence(t.Context(), 0, idset.Set{}, "", false); !errors.As(err, &gone) {
			t.Errorf("the next fence: %v", err)
		}
	}
}
