package kvs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/kvs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// net joins engines in memory; it notes what each host sent.
type net struct {
	mu      sync.Mutex
	engines []*kvs.Space // by host
	fences  map[string]*meeting
	bytes   []int // contributed, by host
	fetches int
	fail    error // of Exchange and Fetch
	wanted  int   // hosts of a fence; 0: all
}

type meeting struct {
	data [][]byte
	in   int
	over chan struct{}
}

type port struct {
	*net
	host int
}

// join makes one engine per host; hosts lists their ranks.
func join(t testing.TB, hosts ...[]int) *net {
	t.Helper()
	return joinWith(t, kvs.Limits{}, hosts...)
}

// joinWith is join with limits of the engines.
func joinWith(t testing.TB, limits kvs.Limits, hosts ...[]int) *net {
	t.Helper()
	n := &net{fences: map[string]*meeting{}, bytes: make([]int, len(hosts))}
	size := 0
	for _, h := range hosts {
		size += len(h)
	}
	for h, ranks := range hosts {
		run := kvs.Run{Limits: limits}
		if len(hosts) > 1 {
			run.Upstream = port{n, h}
		}
		e, err := kvs.New(run).Add(kvs.Job{KVSName: "job", Size: size, Local: ranks})
		if err != nil {
			t.Fatal(err)
		}
		n.engines = append(n.engines, e)
		t.Cleanup(func() { e.Close(nil) })
	}
	return n
}

func (p port) Exchange(ctx context.Context, set string, epoch uint64, _ bool, data []byte) ([][]byte, error) {
	if p.fail != nil {
		return nil, p.fail
	}
	key := fmt.Sprint(set, "/", epoch)
	p.mu.Lock()
	m := p.fences[key]
	if m == nil {
		m = &meeting{data: make([][]byte, len(p.engines)), over: make(chan struct{})}
		p.fences[key] = m
	}
	m.data[p.host] = data
	p.bytes[p.host] += len(data)
	if m.in++; m.in == cmp.Or(p.wanted, len(p.engines)) {
		close(m.over)
	}
	p.mu.Unlock()
	select {
	case <-m.over:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var others [][]byte
	for h, d := range m.data {
		if h != p.host {
			others = append(others, d)
		}
	}
	return others, nil
}

func (p port) Fetch(_ context.Context, q kvs.Question) ([]byte, bool, error) {
	p.mu.Lock()
	p.fetches++
	p.mu.Unlock()
	for h, e := range p.engines {
		if v, ok := e.LocalGet(q.Owner, q.Key); ok && h != p.host {
			return v, true, nil
		}
	}
	return nil, false, p.fail
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// all runs f for every rank of every host at once.
func (n *net) all(t testing.TB, hosts [][]int, f func(e *kvs.Space, rank int) error) {
	t.Helper()
	var g errgroup.Group
	for h, ranks := range hosts {
		for _, r := range ranks {
			g.Go(func() error { return f(n.engines[h], r) })
		}
	}
	must(t, g.Wait())
}

func (n *net) fence(t testing.TB, hosts [][]int, collect bool) {
	t.Helper()
	n.all(t, hosts, func(e *kvs.Space, r int) error { return e.Fence(t.Context(), r, idset.Set{}, "", collect) })
}

func want(t testing.TB, e *kvs.Space, owner int, key, value string) {
	t.Helper()
	v, found, err := e.Get(t.Context(), owner, key)
	if err != nil || found != (value != "") || string(v) != value {
		t.Errorf("get %d %s: %q, %v, %v; want %q", owner, key, v, found, err, value)
	}
}

func TestDataIsEverywhereAfterAFence(t *testing.T) {
	hosts := [][]int{{0, 3}, {1, 2}, {4}}
	n := join(t, hosts...)
	n.all(t, hosts, func(e *kvs.Space, r int) error { return e.Put(r, fmt.Sprint("k", r), fmt.Append(nil, "v", r)) })
	n.fence(t, hosts, true)
	for _, e := range n.engines {
		for r := range 5 {
			want(t, e, r, fmt.Sprint("k", r), fmt.Sprint("v", r))
			want(t, e, kvs.AnyOwner, fmt.Sprint("k", r), fmt.Sprint("v", r))
		}
	}
	if n.fetches != 0 {
		t.Errorf("%d fetches", n.fetches)
	}
	// What travelled once does not travel again.
	before := n.bytes[0]
	n.fence(t, hosts, true)
	if n.bytes[0] != before {
		t.Errorf("the second fence carried %d bytes", n.bytes[0]-before)
	}
	// A replaced value does.
	must(t, n.engines[0].Put(3, "k3", []byte("new")))
	want(t, n.engines[1], 3, "k3", "v3")
	n.fence(t, hosts, true)
	want(t, n.engines[1], 3, "k3", "new")
}

func TestSameKeyMeansTheSameEverywhere(t *testing.T) {
	hosts := [][]int{{0, 3}, {1, 2}}
	n := join(t, hosts...)
	n.all(t, hosts, func(e *kvs.Space, r int) error { return e.Put(r, "k", fmt.Append(nil, r)) })
	n.fence(t, hosts, true)
	for _, e := range n.engines {
		want(t, e, kvs.AnyOwner, "k", "3")
		want(t, e, 1, "k", "1")
	}
}

func TestGetBetweenFences(t *testing.T) {
	n := join(t, []int{0, 1}, []int{2})
	must(t, n.engines[1].Put(2, "late", []byte("v")))
	want(t, n.engines[1], kvs.AnyOwner, "late", "v") // its own host knows
	want(t, n.engines[0], kvs.AnyOwner, "late", "v") // others ask
	want(t, n.engines[0], 2, "late", "v")
	want(t, n.engines[0], 2, "nothing", "")
	if n.fetches != 3 {
		t.Errorf("%d fetches, want 3", n.fetches)
	}
	for _, key := range []struct {
		owner int
		key   string
	}{{1, "nothing"}, {kvs.AnyOwner, "PMI_x"}, {7, "x"}, {-5, "x"}, {kvs.AnyOwner, strings.Repeat("k", 600)}} {
		want(t, n.engines[0], key.owner, key.key, "") // nothing can be there
	}
	if n.fetches != 3 {
		t.Errorf("%d fetches, want 3", n.fetches)
	}
}

func TestDirectFence(t *testing.T) {
	hosts := [][]int{{0}, {1}}
	n := join(t, hosts...)
	must(t, n.engines[0].Put(0, "k", []byte("v")))
	n.fence(t, hosts, false)
	if n.bytes[0] != 0 {
		t.Errorf("a fence that does not collect carried %d bytes", n.bytes[0])
	}
	want(t, n.engines[1], 0, "k", "v") // fetched
	n.fence(t, hosts, true)            // and a later one brings it
	before := n.fetches
	want(t, n.engines[1], 0, "k", "v")
	if n.fetches != before {
		t.Error("fetched what a fence had brought")
	}
}

func TestARankThatDiesFailsTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := join(t, []int{0, 1, 2}).engines[0]
		errs := make(chan error, 2)
		for r := range 2 {
			go func() { errs <- e.Fence(t.Context(), r, idset.Set{}, "", true) }()
		}
		synctest.Wait()
		e.RankGone(2, "was killed by signal 9")
		for range 2 {
			var gone *kvs.GoneError
			if err := <-errs; !errors.As(err, &gone) || gone.Gone[0] != 2 {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	over := errors.New("the job is over")
	n := join(t, []int{0, 1}, []int{2})
	e := n.engines[0]
	var g sync.WaitGroup
	errs := make([]error, 3)
	g.Go(func() { errs[0] = e.Fence(t.Context(), 0, idset.Set{}, "", true) })
	g.Go(func() { errs[1] = e.Fence(t.Context(), 1, idset.Set{}, "", true) })
	g.Go(func() { _, _, errs[2] = e.Attr(t.Context(), 1, "a", true) })
	e.Close(over)
	g.Wait()
	_, _, err := e.Get(t.Context(), 0, "k")
	for _, err := range append(errs, err, e.Put(0, "k", nil), e.PutAttr(0, "k", nil)) {
		if !errors.Is(err, over) {
			t.Errorf("got %v", err)
		}
	}
}

func TestUpstreamFailure(t *testing.T) {
	n := join(t, []int{0}, []int{1})
	n.fail = errors.New("the launcher is lost")
	if err := n.engines[0].Fence(t.Context(), 0, idset.Set{}, "", true); !errors.Is(err, n.fail) {
		t.Errorf("fence: %v", err)
	}
	if _, _, err := n.engines[0].Get(t.Context(), 1, "k"); !errors.Is(err, n.fail) {
		t.Errorf("get: %v", err)
	}
}

func TestALeavingRankDoesNotStopTheOthers(t *testing.T) {
	n := join(t, []int{0, 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.engines[0].Fence(ctx, 0, idset.Set{}, "", true); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	must(t, n.engines[0].Fence(t.Context(), 1, idset.Set{}, "", true))
}

func TestNodeAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := join(t, []int{0, 1, 2}).engines[0]
		got := make(chan string, 2)
		for r := range 2 {
			go func() {
				v, found, err := e.Attr(t.Context(), r, "a", true)
				got <- fmt.Sprintf("%s %v %v", v, found, err)
			}()
		}
		synctest.Wait()
		if _, found, _ := e.Attr(t.Context(), 2, "a", false); found {
			t.Error("found what nobody put")
		}
		must(t, e.PutAttr(2, "a", []byte("v")))
		for range 2 {
			if s := <-got; s != "v true <nil>" {
				t.Errorf("got %s", s)
			}
		}
		// When all others are gone or wait too, the last to wait learns that it is in vain.
		go func() {
			v, found, err := e.Attr(t.Context(), 0, "b", true)
			got <- fmt.Sprintf("%s %v %v", v, found, err)
		}()
		synctest.Wait()
		e.RankGone(2, "exited")
		e.RankGone(1, "exited")
		if s := <-got; s != " false <nil>" {
			t.Errorf("got %s", s)
		}
	})
}

func TestLimits(t *testing.T) {
	limits := kvs.DefaultLimits()
	limits.Key, limits.Value, limits.RankKeys, limits.RankData, limits.Names = 4, 10, 2, 16, 1
	e, err := kvs.New(kvs.Run{Limits: limits}).Add(kvs.Job{KVSName: "job", Size: 1, Local: []int{0}})
	must(t, err)
	defer e.Close(nil)
	for _, tt := range []struct {
		key, value string
		ok         bool
	}{
		{"", "v", false}, {"12345", "v", false}, {"k", "12345678901", false},
		{"k1", "1234567890", true}, {"k1", "123456", true}, {"k2", "123456", true}, {"k2", "1234567", false}, {"k3", "", false},
	} {
		err := e.Put(0, tt.key, []byte(tt.value))
		var limit *kvs.LimitError
		if (err == nil) != tt.ok || err != nil && !errors.As(err, &limit) {
			t.Errorf("put %s=%s: %v", tt.key, tt.value, err)
		}
	}
	must(t, e.Names().Publish(t.Context(), "a", []byte("v")))
	if err := e.Names().Publish(t.Context(), "a", nil); !errors.Is(err, kvs.ErrExists) {
		t.Error(err)
	}
	if err := e.Names().Publish(t.Context(), "b", nil); err == nil {
		t.Error("a second name")
	}
	must(t, e.Names().Unpublish(t.Context(), "a"))
	if _, err := e.Names().Lookup(t.Context(), "a"); !errors.Is(err, kvs.ErrNotFound) {
		t.Error(err)
	}
}

func TestJobIsChecked(t *testing.T) {
	e := kvs.New(kvs.Run{})
	other, err := e.Add(kvs.Job{KVSName: "other", Base: 10, Size: 2, Local: []int{0, 1}})
	must(t, err)
	for _, j := range []kvs.Job{
		{KVSName: "j", Size: 0}, {KVSName: "", Size: 1, Local: []int{0}}, {KVSName: "a b", Size: 1, Local: []int{0}},
		{KVSName: strings.Repeat("j", 33), Size: 1, Local: []int{0}}, {KVSName: "j", Size: 2, Local: []int{0}},
		{KVSName: "j", Size: 2, Local: []int{0, 0}}, {KVSName: "j", Size: 2, Local: []int{0, 2}},
		{KVSName: "j", Base: -1, Size: 1, Local: []int{0}}, {KVSName: "j", Base: idset.MaxID, Size: 2, Local: []int{0, 1}},
		{KVSName: "j", Base: 9, Size: 2, Local: []int{0, 1}}, {KVSName: "j", Base: 11, Size: 1, Local: []int{0}},
	} {
		if _, err := e.Add(j); err == nil {
			t.Errorf("%+v was taken", j)
		}
	}
	other.Close(nil)
	again, err := e.Add(kvs.Job{KVSName: "j", Base: 11, Size: 1, Local: []int{0}})
	must(t, err)
	again.Close(nil)
}

// 2 hosts with 8 ranks each, 1000 keys of 600 bytes a rank: put, fence, and every key read.
func BenchmarkLargeKVS(b *testing.B) {
	hosts := [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}
	value := make([]byte, 600)
	for b.Loop() {
		n := join(b, hosts...)
		n.all(b, hosts, func(e *kvs.Space, r int) error {
			for k := range 1000 {
				if err := e.Put(r, fmt.Sprint("key-", r, "-", k), value); err != nil {
					return err
				}
			}
			if err := e.Fence(b.Context(), r, idset.Set{}, "", true); err != nil {
				return err
			}
			for k := range 1000 {
				if _, found, _ := e.Get(b.Context(), kvs.AnyOwner, fmt.Sprint("key-", (r+8)%16, "-", k)); !found {
					return errors.New("not found")
				}
			}
			return nil
		})
	}
}

// An empty fence of 64 ranks on one host: what waking costs.
func BenchmarkFence(b *testing.B) {
	var ranks []int
	for r := range 64 {
		ranks = append(ranks, r)
	}
	n := join(b, ranks)
	for b.Loop() {
		n.fence(b, [][]int{ranks}, true)
	}
}
