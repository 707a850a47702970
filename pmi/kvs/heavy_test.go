package kvs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// What was put once goes once to the hosts of a set, whatever the number of its fences. It had gone with each of them:
// 4 MiB became 256 MiB in 64 fences.
func TestFencesOfASetCarryDataOnce(t *testing.T) {
	const size, fences = 1 << 20, 64
	hosts := [][]int{{0}, {1}, {2}}
	n := join(t, hosts...)
	both := func(tag string) {
		var wg sync.WaitGroup
		for rank := range 2 {
			wg.Go(func() {
				if err := n.engines[rank].Fence(t.Context(), rank, idset.Of(0, 1), tag, true); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	n.wanted = 2
	must(t, n.engines[0].Put(0, "large", make([]byte, size)))
	for i := range fences {
		must(t, n.engines[0].Put(0, "small", []byte(fmt.Sprint(i))))
		both(fmt.Sprint(i % 8))
		want(t, n.engines[1], 0, "small", fmt.Sprint(i))
	}
	if sent := n.bytes[0]; sent > size*11/10 {
		t.Errorf("%d bytes were sent of %d", sent, size)
	}
	before := n.bytes[0]
	n.wanted = 3
	n.all(t, hosts, func(e *kvs.Space, rank int) error { return e.Fence(t.Context(), rank, idset.Set{}, "", true) })
	if sent := n.bytes[0] - before; sent < size {
		t.Errorf("%d bytes were sent to the third host", sent)
	}
	n.all(t, hosts, func(e *kvs.Space, rank int) error { return e.Fence(t.Context(), rank, idset.Set{}, "again", true) })
	if sent := n.bytes[0] - before; sent > size*11/10 {
		t.Errorf("%d bytes were sent to all", sent)
	}
	want(t, n.engines[2], 0, "small", fmt.Sprint(fences-1))
}

// Fences that are open at one time carry what was put and not much more. One that would is refused on every host,
// and what it should have brought comes with the next.
func TestOpenFencesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, tags = 1 << 20, 64
		limits := kvs.DefaultLimits()
		limits.Again = 4 << 20
		n := joinWith(t, limits, []int{0}, []int{1})
		must(t, n.engines[0].Put(0, "large", make([]byte, size)))
		var mu sync.Mutex
		refused := map[string]int{} // on how many hosts
		enter := func(wg *sync.WaitGroup, rank int, tag string) {
			wg.Go(func() {
				err := n.engines[rank].Fence(t.Context(), rank, idset.Set{}, tag, true)
				var heavy *kvs.FenceLimitError
				switch {
				case errors.As(err, &heavy):
					mu.Lock()
					refused[tag]++
					mu.Unlock()
				case err != nil:
					t.Error(err)
				}
			})
		}
		var wg sync.WaitGroup
		for i := range tags {
			enter(&wg, 0, fmt.Sprint(i))
		}
		synctest.Wait()
		if sent := n.bytes[0]; sent > 6*size {
			t.Errorf("%d bytes are under way of %d that were put", sent, size)
		}
		for i := range tags {
			enter(&wg, 1, fmt.Sprint(i))
		}
		wg.Wait()
		if len(refused) < tags-6 {
			t.Errorf("%d of %d fences were refused", len(refused), tags)
		}
		for tag, hosts := range refused {
			if hosts != 2 {
				t.Errorf("fence %s was refused on %d of 2 hosts", tag, hosts)
			}
		}
		enter(&wg, 0, "after")
		enter(&wg, 1, "after")
		wg.Wait()
		if refused["after"] != 0 {
			t.Error("the next fence was refused too")
		}
		if v, found := n.engines[1].Here(0, "large"); !found || len(v) != size {
			t.Errorf("%d bytes arrived, %v", len(v), found)
		}
	})
}

// A fence that did not come to its end has brought nothing: its data goes with the next.
func TestFailedFenceIsMadeUpFor(t *testing.T) {
	n := join(t, []int{0}, []int{1})
	must(t, n.engines[0].Put(0, "k", []byte("v")))
	n.fail = errors.New("a frame too large")
	if err := n.engines[0].Fence(context.Background(), 0, idset.Set{}, "", true); err == nil {
		t.Error("no error")
	}
	n.fail = nil
	n.all(t, [][]int{{0}, {1}}, func(e *kvs.Space, rank int) error {
		tag := ""
		return e.Fence(t.Context(), rank, idset.Set{}, tag+"t", true)
	})
	if v, found := n.engines[1].Here(0, "k"); !found || string(v) != "v" {
		t.Errorf("%q, %v", v, found)
	}
}

// A key that is put over and over between two fences is remembered once.
func TestPutAgainAndAgain(t *testing.T) {
	n := join(t, []int{0}, []int{1})
	for i := range 10_000 {
		must(t, n.engines[0].Put(0, "k", []byte(fmt.Sprint(i))))
	}
	n.all(t, [][]int{{0}, {1}}, func(e *kvs.Space, rank int) error { return e.Fence(t.Context(), rank, idset.Set{}, "", true) })
	want(t, n.engines[1], 0, "k", "9999")
	if n.bytes[0] > 64 {
		t.Errorf("%d bytes for one value", n.bytes[0])
	}
}
