package kvs_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/errgroup"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// Sixteen fences of one set at a time, each rank in another order, while all ranks go through
// fences of the whole job; what was put before each is there after it.
func TestTaggedFencesInFlight(t *testing.T) {
	const tags, rounds = 16, 3
	hosts := [][]int{{0, 1}, {2, 3}}
	n := join(t, hosts...)
	members := map[int]bool{0: true, 2: true, 3: true}
	n.all(t, hosts, func(e *kvs.Space, rank int) error {
		var g errgroup.Group
		g.Go(func() error {
			for range rounds {
				if err := e.Fence(t.Context(), rank, idset.Set{}, "", true); err != nil {
					return err
				}
			}
			return nil
		})
		for i := range tags {
			if !members[rank] {
				break
			}
			tag := fmt.Sprint((i + rank*5) % tags)
			g.Go(func() error {
				for round := range rounds {
					value := fmt.Sprint("value ", round)
					if err := e.Put(rank, fmt.Sprintf("k%s-%d-%d", tag, rank, round), []byte(value)); err != nil {
						return err
					}
					if err := e.Fence(t.Context(), rank, idset.Of(3, 0, 2), tag, true); err != nil {
						return err
					}
					for other := range members {
						v, found, err := e.Get(t.Context(), kvs.AnyOwner, fmt.Sprintf("k%s-%d-%d", tag, other, round))
						if string(v) != value || !found || err != nil {
							return fmt.Errorf("rank %d, tag %s: of rank %d %q %v %w", rank, tag, other, v, found, err)
						}
					}
				}
				return nil
			})
		}
		return g.Wait()
	})
}

// What was put first comes in the fence that ends last: it replaces nothing that was put later.
func TestLateFenceBringsNothingOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := join(t, []int{0}, []int{1}, []int{2})
		e := n.engines
		var wg sync.WaitGroup
		enter := func(rank int, set idset.Set) {
			wg.Go(func() {
				if err := e[rank].Fence(t.Context(), rank, set, "", true); err != nil {
					t.Error(err)
				}
			})
		}
		must(t, e[0].Put(0, "k", []byte("1")))
		must(t, e[0].Put(0, "once", []byte("1")))
		enter(0, idset.Set{})
		synctest.Wait() // it has left with 1
		must(t, e[0].Put(0, "k", []byte("2")))
		n.wanted = 2
		enter(0, idset.Of(0, 1))
		enter(1, idset.Of(0, 1))
		synctest.Wait()
		want(t, e[1], 0, "k", "2")
		n.wanted = 3
		enter(1, idset.Set{})
		enter(2, idset.Set{})
		wg.Wait()
		for owner := range map[int]bool{0: true, kvs.AnyOwner: true} {
			want(t, e[1], owner, "k", "2")
			want(t, e[1], owner, "once", "1")
			want(t, e[2], owner, "k", "1")
		}
	})
}

// The death of a rank fails all the tagged fences that it is missing in, and no others.
func TestDeathFailsTaggedFences(t *testing.T) {
	hosts := [][]int{{0, 1}, {2}}
	n := join(t, hosts...)
	e := n.engines[0]
	type outcome struct {
		tag string
		err error
	}
	over := make(chan outcome)
	for _, tag := range []string{"a", "b"} {
		go func() { over <- outcome{tag, e.Fence(t.Context(), 0, idset.Set{}, tag, true)} }()
	}
	go func() { over <- outcome{"pair", e.Fence(t.Context(), 0, idset.Of(0, 2), "pair", true)} }()
	must(t, n.engines[1].Fence(t.Context(), 2, idset.Of(0, 2), "pair", true))
	e.RankGone(1, "ended with exit code 1")
	for range 3 {
		o := <-over
		var gone *kvs.GoneError
		if dead := errors.As(o.err, &gone); dead == (o.tag == "pair") {
			t.Errorf("tag %s: %v", o.tag, o.err)
		}
		if gone != nil && !strings.Contains(gone.Error(), "0-2#"+o.tag) {
			t.Errorf("%v does not name the fence", gone)
		}
	}
}

func TestPreput(t *testing.T) {
	var engines []*kvs.Space
	n := &net{fences: map[string]*meeting{}, bytes: make([]int, 2)}
	for h := range 2 {
		e, err := kvs.New(kvs.Run{Upstream: port{n, h}}).Add(kvs.Job{KVSName: "job", Size: 2, Local: []int{h},
			Preput: []job.Pair{{Key: "PARENT_ROOT_PORT_NAME", Value: []byte("port")}, {Key: "k", Value: []byte("old")}}})
		must(t, err)
		t.Cleanup(func() { e.Close(nil) })
		engines = append(engines, e)
	}
	n.engines = engines
	for _, e := range engines {
		want(t, e, kvs.AnyOwner, "PARENT_ROOT_PORT_NAME", "port")
	}
	if n.fetches != 0 {
		t.Errorf("%d questions to other hosts", n.fetches)
	}
	must(t, engines[0].Put(0, "k", []byte("new")))
	want(t, engines[0], kvs.AnyOwner, "k", "new")
	n.all(t, [][]int{{0}, {1}}, func(e *kvs.Space, rank int) error { return e.Fence(t.Context(), rank, idset.Set{}, "", true) })
	want(t, engines[1], kvs.AnyOwner, "k", "new")
}

func TestPreputIsBounded(t *testing.T) {
	limits := kvs.DefaultLimits()
	limits.Key, limits.Value, limits.RankKeys, limits.RankData = 4, 10, 2, 16
	v := func(n int) []byte { return make([]byte, n) }
	for _, tt := range []struct {
		name  string
		pairs []job.Pair
		ok    bool
	}{
		{"fits", []job.Pair{{Key: "a", Value: v(10)}, {Key: "b", Value: v(4)}}, true},
		{"too many keys", []job.Pair{{Key: "a"}, {Key: "b"}, {Key: "c"}}, false},
		{"too much", []job.Pair{{Key: "a", Value: v(10)}, {Key: "b", Value: v(5)}}, false},
		{"long value", []job.Pair{{Key: "a", Value: v(11)}}, false},
		{"long key", []job.Pair{{Key: "abcde"}}, false},
		{"no key", []job.Pair{{Key: ""}}, false},
	} {
		e, err := kvs.New(kvs.Run{Limits: limits}).Add(kvs.Job{KVSName: "job", Size: 1, Local: []int{0}, Preput: tt.pairs})
		var limit *kvs.LimitError
		if tt.ok != (err == nil) || err != nil && !errors.As(err, &limit) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if e != nil {
			e.Close(nil)
		}
	}
}
