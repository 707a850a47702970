package gloo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// known is a value at once, "-" for none.
func known(s *Store, rank int, scope, key string) string {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	v, ok := s.Get(ctx, rank, scope, key)
	if !ok {
		return "-"
	}
	return string(v)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A rank that begins anew never meets an address of the first time, however late the others are.
func TestASecondInitMeetsNoOldAddress(t *testing.T) {
	var s Store
	must(t, s.Put(0, "global", "0", []byte("a1")))
	must(t, s.Put(1, "global", "1", []byte("b1")))
	must(t, s.Finish(0, "global", "0"))
	if got := known(&s, 0, "global", "1"); got != "-" {
		t.Errorf("rank 0, which has finished, meets %s of rank 1's first time", got)
	}
	must(t, s.Put(0, "global", "0", []byte("a2")))
	if got := known(&s, 1, "global", "0"); got != "a1" {
		t.Errorf("rank 1, which has not finished, meets %s", got)
	}
	must(t, s.Finish(1, "global", "1"))
	if got := known(&s, 1, "global", "0"); got != "a2" {
		t.Errorf("rank 1 meets %s the second time", got)
	}
}

// A scope's values go when all who put one have finished, and their room is free again.
func TestFinishedScopesAreDropped(t *testing.T) {
	var s Store
	for i := range 3 {
		must(t, s.Put(i, "global", fmt.Sprint(i), []byte("0123456789")))
	}
	for i := range 3 {
		if len(s.lives) != 1 {
			t.Errorf("dropped when %d of 3 had finished", i)
		}
		must(t, s.Finish(i, "global", fmt.Sprint(i)))
	}
	if len(s.lives) != 0 || s.bytes != 3*(len("global")+entryCost) { // epochs stay
		t.Errorf("%d scopes and %d bytes are left", len(s.lives), s.bytes)
	}
}

// Horovod's ranks put two values each in a scope and finish it by the name of one.
func TestScopesAreDroppedByRank(t *testing.T) {
	var s Store
	must(t, s.Put(0, "global", "rank_0", []byte("w0")))
	must(t, s.Put(0, "global", "0", []byte("a")))
	must(t, s.Apply(Update{Scope: "global", Rank: 1, Key: "rank_1", Value: []byte("w1")}))
	must(t, s.Apply(Update{Scope: "global", Rank: 1, Key: "1", Value: []byte("b")}))
	must(t, s.Apply(Update{Scope: "global", Rank: 1, Key: "1", Done: true}))
	if len(s.lives) != 1 || known(&s, 0, "global", "1") != "b" {
		t.Error("the scope was dropped while rank 0 had not finished it")
	}
	must(t, s.Finish(0, "global", "0"))
	if len(s.lives) != 0 {
		t.Errorf("%d scopes are left", len(s.lives))
	}
}

// What a rank does elsewhere counts as here; what is finished there before it is put here waits for it.
func TestOtherHosts(t *testing.T) {
	var here, there Store
	here.Tell = func(u Update) { must(t, there.Apply(u)) }
	there.Tell = func(u Update) { must(t, here.Apply(u)) }
	must(t, here.Put(0, "global", "0", []byte("a")))
	must(t, there.Put(1, "global", "1", []byte("b")))
	must(t, here.Put(0, "local_w0-0", "0", []byte("mine")))
	if known(&here, 0, "global", "1") != "b" || known(&there, 1, "global", "0") != "a" {
		t.Error("the hosts do not know each other's")
	}
	if got := known(&there, 1, "local_w0-0", "0"); got != "-" {
		t.Errorf("a host's own scope is elsewhere: %s", got)
	}
	must(t, here.Finish(0, "global", "0"))
	must(t, there.Finish(1, "global", "1"))
	must(t, here.Finish(0, "local_w0-0", "0"))
	if len(here.lives)+len(there.lives) != 0 {
		t.Errorf("%d and %d scopes are left", len(here.lives), len(there.lives))
	}
}

func TestGetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Store
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(100*time.Millisecond, func() { _ = s.Put(1, "global", "other", nil) })
		time.AfterFunc(200*time.Millisecond, func() { _ = s.Put(1, "global", "1", []byte("late")) })
		begun := time.Now()
		if v, ok := s.Get(ctx, 0, "global", "1"); !ok || string(v) != "late" || time.Since(begun) != 200*time.Millisecond {
			t.Errorf("%q %v after %v", v, ok, time.Since(begun))
		}
		if _, ok := s.Get(ctx, 0, "global", "2"); ok || time.Since(begun) != time.Second {
			t.Errorf("what nobody puts is %v after %v", ok, time.Since(begun))
		}
	})
}

// A rank that puts one value again and again, or finishes each time, fills no queue to the other hosts.
func TestTellingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		s := Store{Tell: func(u Update) { told += u.cost() }}
		value := make([]byte, 1<<20)
		flood := func() (err error) {
			for n := 0; err == nil && n < 3*tellAtOnce>>20; n++ {
				if err = s.Put(0, "global", "0", value); err == nil && n%2 == 1 {
					err = s.Finish(0, "global", "0")
				}
			}
			return err
		}
		if err := flood(); !errors.Is(err, ErrFull) || told > tellAtOnce {
			t.Errorf("%d bytes at once: %v", told, err)
		}
		must(t, s.Put(0, "local_w0-0", "0", value)) // is told to nobody
		told = 0
		time.Sleep(10 * time.Second)
		if err := flood(); !errors.Is(err, ErrFull) || told > 10*tellInSecond+2<<20 || told < 9*tellInSecond {
			t.Errorf("%d bytes in 10 s: %v", told, err)
		}
	})
}

func TestLimits(t *testing.T) {
	var s Store
	long := strings.Repeat("x", maxName+1)
	for _, err := range []error{s.Put(0, "", "k", nil), s.Put(0, "s", "", nil), s.Put(0, long, "k", nil), s.Put(0, "s", long, nil),
		s.Finish(0, "", "k"), s.Finish(0, long, "k"), s.Apply(Update{Scope: long, Key: "k"}), s.Apply(Update{Scope: "s", Done: true})} {
		if !errors.Is(err, ErrName) {
			t.Errorf("%v", err)
		}
	}
	if err := s.Put(0, "s", "k", make([]byte, maxValue+1)); !errors.Is(err, ErrFull) {
		t.Errorf("a large value: %v", err)
	}
	value := make([]byte, maxValue)
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = s.Apply(Update{Scope: "s", Key: fmt.Sprint(n), Value: value})
	}
	if !errors.Is(err, ErrFull) || s.bytes > maxBytes || n < 60 {
		t.Errorf("%d values: %v, %d bytes", n, err, s.bytes)
	}
	must(t, s.Apply(Update{Scope: "s", Key: "0", Value: []byte("less")})) // in its place
	must(t, s.Put(0, "s", "new", []byte("the room is there")))
	// Epochs are charged, too: a rank cannot finish scopes without end.
	for n = 0; err == nil || n < 10; n++ {
		if err = s.Finish(0, fmt.Sprint("scope", n), "k"); n > maxBytes/entryCost+10 {
			t.Fatal("no end of scopes")
		}
		if err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("scopes without end: %v", err)
	}
}
