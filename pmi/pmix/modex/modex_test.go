package modex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// two are hosts of a job of two ranks, one each.
type two struct {
	spaces [2]*kvs.Space
	jobs   [2]*Job
}

// way leads from a host to the other.
type way struct {
	*two
	to int
}

func (w way) Exchange(context.Context, string, uint64, bool, []byte) ([][]byte, error) {
	return nil, errors.New("no fence in this test")
}

func (w way) Fetch(ctx context.Context, q kvs.Question) ([]byte, bool, error) {
	if q.Wait {
		return w.spaces[w.to].LocalAwait(ctx, q.Owner, q.Key, q.Not)
	}
	v, found := w.spaces[w.to].LocalGet(q.Owner, q.Key)
	return v, found, nil
}

func newTwo(t *testing.T) *two {
	t.Helper()
	x := &two{}
	for h := range x.spaces {
		engine := kvs.New(kvs.Run{Upstream: way{x, 1 - h}})
		space, err := engine.Add(kvs.Job{KVSName: "test", Size: 2, Local: []int{h}})
		if err != nil {
			t.Fatal(err)
		}
		x.spaces[h], x.jobs[h] = space, New(space, slog.New(slog.DiscardHandler))
		engine.OnGone(func(id int, _ string) { x.jobs[h].Gone(id) })
	}
	return x
}

// commits has rank 0 put a key for its host and the others, or for the others alone.
func commits(key string, all bool) func(*testing.T, *two) {
	return func(t *testing.T, x *two) {
		t.Helper()
		remote := []bfrops.KVal{pair(key, 1)}
		local := remote
		if !all {
			local = nil
		}
		if err := x.jobs[0].Commit(0, local, remote); err != nil {
			t.Error(err)
		}
	}
}

func ends(_ *testing.T, x *two) {
	for _, s := range x.spaces {
		s.RankGone(0, "has ended")
	}
}

// What is asked of rank 0 on its own host and on the other, what happens meanwhile, and when there is which answer.
func TestWhatIsWaitedFor(t *testing.T) {
	const s = time.Second
	type step struct {
		at time.Duration
		do func(*testing.T, *two)
	}
	for _, tt := range []struct {
		name   string
		before func(*testing.T, *two)
		q      Question
		limit  time.Duration // of the client; 0: none
		then   []step
		want   error
		took   time.Duration
	}{
		{name: "it is there", before: commits("k", true), q: Question{Key: "k", Wait: true}},
		{name: "it comes with the first commit", q: Question{Key: "k", Wait: true}, then: []step{{5 * s, commits("k", true)}}, took: 5 * s},
		{name: "anything comes with the first commit", q: Question{Wait: true}, then: []step{{5 * s, commits("x", true)}}, took: 5 * s},
		{name: "it comes with a later commit", before: commits("x", true), q: Question{Key: "k", Wait: true}, then: []step{{s, commits("k", true)}}, took: s},
		{name: "it does not come", before: commits("x", true), q: Question{Key: "k", Wait: true}, want: bfrops.ErrNotFound, took: commitTime},
		{name: "it comes too late", before: commits("x", true), q: Question{Key: "k", Wait: true}, then: []step{{3 * s, commits("k", true)}}, want: bfrops.ErrNotFound, took: commitTime},
		{name: "the client waits longer", before: commits("x", true), q: Question{Key: "k", Wait: true, Bounded: true}, limit: 4 * s, then: []step{{3 * s, commits("k", true)}}, took: 3 * s},
		{name: "the client waits no longer", q: Question{Key: "k", Wait: true, Bounded: true}, limit: s, want: bfrops.ErrTimeout, took: s},
		{name: "the client does not wait", q: Question{Key: "k"}, want: bfrops.ErrNotFound},
		{name: "nobody puts it", before: commits("x", true), q: Question{Key: "pml.base.2.0", Wait: true}, want: bfrops.ErrNotFound},
		{name: "it is for other hosts alone", before: commits("k", false), q: Question{Key: "k", Wait: true}, want: bfrops.ErrNotFound},
		{name: "the rank ends", q: Question{Key: "k", Wait: true}, then: []step{{3 * s, ends}}, want: bfrops.ErrNotFound, took: 3 * s},
	} {
		for h, where := range []string{"here", "elsewhere"} {
			t.Run(tt.name+", "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := newTwo(t)
					defer func() {
						for _, s := range x.spaces {
							s.Close(nil)
						}
					}()
					if tt.before != nil {
						tt.before(t, x)
					}
					ctx := t.Context()
					if tt.limit > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeoutCause(ctx, tt.limit, bfrops.ErrTimeout)
						defer cancel()
					}
					for _, step := range tt.then {
						defer time.AfterFunc(step.at, func() { step.do(t, x) }).Stop()
					}
					want := tt.want
					if tt.name == "it is for other hosts alone" && h == 1 {
						want = nil
					}
					begun := time.Now()
					sec, err := x.jobs[h].Section(ctx, 0, tt.q)
					if took := time.Since(begun); err != want || took != tt.took {
						t.Errorf("%v after %v, want %v after %v", err, took, want, tt.took)
					}
					if err == nil && !sec.holds(tt.q.Key, nil) {
						t.Errorf("%x has no %s", sec, tt.q.Key)
					}
				})
			})
		}
	}
}

// A question for anybody's key is answered with the first rank that puts it.
func TestAnyone(t *testing.T) {
	for _, putter := range []int{0, 1} {
		t.Run(fmt.Sprint("rank ", putter), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTwo(t)
				defer func() {
					for _, s := range x.spaces {
						s.Close(nil)
					}
				}()
				defer time.AfterFunc(time.Second, func() {
					x.jobs[putter].Commit(putter, []bfrops.KVal{pair("k", 1)}, []bfrops.KVal{pair("k", 1)})
				}).Stop()
				rank, err := x.jobs[0].Anyone(t.Context(), Question{Key: "k", Wait: true})
				if err != nil || rank != putter {
					t.Errorf("rank %d, %v", rank, err)
				}
			})
		})
	}
}
