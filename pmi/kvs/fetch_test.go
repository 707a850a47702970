package kvs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// pair joins two engines of one rank each.
type pair struct {
	other *Space
	asked int
}

func (p *pair) Exchange(context.Context, string, uint64, bool, []byte) ([][]byte, error) {
	return nil, errors.New("no fences here")
}

func (p *pair) Fetch(ctx context.Context, q Question) ([]byte, bool, error) {
	p.asked++
	rank := q.Owner - p.other.Base
	if q.Wait {
		return p.other.LocalAwait(ctx, rank, q.Key, q.Not)
	}
	v, ok := p.other.LocalGet(rank, q.Key)
	return v, ok, nil
}

func newPair(t *testing.T) (near, far *Space, up *pair) {
	up = &pair{}
	var err error
	if far, err = New(Run{Upstream: &pair{}}).Add(Job{Base: 5, KVSName: "j", Size: 2, Local: []int{1}}); err == nil {
		near, err = New(Run{Upstream: up}).Add(Job{Base: 5, KVSName: "j", Size: 2, Local: []int{0}})
	}
	if err != nil {
		t.Fatal(err)
	}
	up.other = far
	return near, far, up
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far, up := newPair(t)
		defer far.Close(nil)
		defer near.Close(nil)
		if _, ok, err := near.Await(t.Context(), 1, "k", false, ""); ok || err != nil {
			t.Error("found before it was put", err)
		}
		got := make(chan string, 3)
		for range 3 {
			go func() {
				v, ok, err := near.Await(t.Context(), 1, "k", true, "")
				if !ok || err != nil {
					t.Error(ok, err)
				}
				got <- string(v)
			}()
		}
		synctest.Wait()
		if err := far.Put(1, "other", nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(got) != 0 {
			t.Error("another key was enough")
		}
		if err := far.Put(1, "k", []byte("v")); err != nil {
			t.Error(err)
		}
		for range 3 {
			if v := <-got; v != "v" {
				t.Errorf("got %q", v)
			}
		}
		if up.asked != 2 {
			t.Errorf("asked %d times", up.asked)
		}
		if v, ok := near.Here(1, "k"); !ok || string(v) != "v" {
			t.Errorf("not kept: %q", v)
		}
		if err := far.Put(1, "k", []byte("newer")); err != nil {
			t.Error(err)
		}
		if v, ok, err := near.Await(t.Context(), 1, "k", true, ""); !ok || string(v) != "newer" || err != nil {
			t.Errorf("%q %v", v, err)
		}
	})
}

func TestAwaitEnds(t *testing.T) {
	for name, end := range map[string]func(near, far *Space, cancel func()){
		"gone":   func(_, far *Space, _ func()) { far.RankGone(1, "ended") },
		"cancel": func(_, _ *Space, cancel func()) { cancel() },
		"closed": func(near, _ *Space, _ func()) { near.Close(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far, _ := newPair(t)
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan error, 1)
				go func() {
					_, ok, err := near.Await(ctx, 1, "k", true, "")
					if ok {
						t.Error("found")
					}
					over <- err
				}()
				synctest.Wait()
				end(near, far, cancel)
				if err := <-over; (err == nil) != (name == "gone") {
					t.Error(err)
				}
				far.Close(nil)
				near.Close(nil)
				cancel()
			})
		})
	}
}

// A fetch that was under way when a fence brought something newer changes nothing.
func TestKeepIsNotOlderThanAFence(t *testing.T) {
	near, far, _ := newPair(t)
	defer far.Close(nil)
	defer near.Close(nil)
	clock := near.store.clock
	if err := near.store.merge(nil, [][]byte{appendEntry(appendHeader(nil), 1, "k", []byte("newer"))}); err != nil {
		t.Fatal(err)
	}
	if err := near.keep(fetchKey{owner: 1, key: "k"}, []byte("older"), clock); err != nil {
		t.Fatal(err)
	}
	if v, _ := near.Here(1, "k"); string(v) != "newer" {
		t.Errorf("got %q", v)
	}
}

func TestAwaitOfWhatCannotBe(t *testing.T) {
	near, far, _ := newPair(t)
	defer far.Close(nil)
	defer near.Close(nil)
	for _, owner := range []int{-1, 2} {
		if _, ok, err := near.Await(t.Context(), owner, "k", true, ""); ok || err != nil {
			t.Errorf("owner %d: %v, %v", owner, ok, err)
		}
	}
	if _, _, err := near.LocalAwait(t.Context(), 1, "k", ""); err == nil {
		t.Error("a rank that is not here is waited for")
	}
}

// Who has a value already waits for another one.
func TestAwaitAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far, _ := newPair(t)
		defer far.Close(nil)
		defer near.Close(nil)
		put := func(v string) {
			if err := far.Put(1, "k", []byte(v)); err != nil {
				t.Error(err)
			}
		}
		put("one")
		got := make(chan string, 1)
		go func() {
			v, ok, err := near.Await(t.Context(), 1, "k", true, Digest([]byte("one")))
			if !ok || err != nil {
				t.Error(ok, err)
			}
			got <- string(v)
		}()
		synctest.Wait()
		put("one")
		synctest.Wait()
		if len(got) != 0 {
			t.Error("the same value was enough")
		}
		put("two")
		if v := <-got; v != "two" {
			t.Errorf("got %q", v)
		}
		if v, _, _ := near.Await(t.Context(), 1, "k", true, Digest([]byte("one"))); string(v) != "two" {
			t.Errorf("got %q", v)
		}
	})
}
