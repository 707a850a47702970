package kvs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns[string]
		release, err := turns.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := turns.Take(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		why := errors.New("too late")
		late, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		if _, err := turns.Take(late, "a"); err != why {
			t.Errorf("a second one while the first goes on: %v", err)
		}
		took := make(chan error)
		go func() {
			again, err := turns.Take(t.Context(), "a")
			if err == nil {
				again()
			}
			took <- err
		}()
		synctest.Wait()
		release()
		if err := <-took; err != nil {
			t.Error(err)
		}
		if len(turns.queues) != 0 {
			t.Errorf("%d turns are kept", len(turns.queues))
		}
	})
}
