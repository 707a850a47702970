package kvs

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNames(Limits{})
		publish := func(service string) {
			if err := n.Publish(t.Context(), service, nil); err != nil {
				t.Error(err)
			}
		}
		publish("old")
		now, err := n.Watch(t.Context(), []string{"new", "old"}, 0)
		if now != 1 || err != nil {
			t.Fatal(now, err)
		}
		got := make(chan uint64, 1)
		go func() {
			then, err := n.Watch(t.Context(), []string{"new", "old"}, now)
			if err != nil {
				t.Error(err)
			}
			got <- then
		}()
		synctest.Wait()
		publish("other")
		synctest.Wait()
		if len(got) != 0 {
			t.Error("another service was enough")
		}
		publish("new")
		if then := <-got; then != 3 {
			t.Errorf("at %d", then)
		}
		if err := n.Unpublish(t.Context(), "new"); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.Watch(ctx, []string{"new"}, 0); err != context.Canceled {
			t.Errorf("of what was taken back: %v", err)
		}
		if _, err := n.Watch(t.Context(), make([]string, MaxWatched+1), 0); err == nil {
			t.Error("too many were taken")
		}
	})
}
