package pmix_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mpiup/mpiup/pmi/kvs"
)

// star joins engines in memory, as the launcher joins agents.
type star struct {
	names kvs.Names

	mu      sync.Mutex
	awaits  int // guarded by mu; questions between hosts
	engines []*kvs.Engine
	fences  map[string]*starFence
}

type starFence struct {
	data [][]byte // by host
	in   int
	over chan struct{}
}

// spoke is one host's end.
type spoke struct {
	*star
	host int
}

// engines returns one engine per host, with perHost ranks each.
func engines(t testing.TB, hosts, perHost int) ([]*kvs.Engine, *star) {
	t.Helper()
	s := &star{names: kvs.NewNames(kvs.Limits{}), fences: map[string]*starFence{}}
	name := "test-" + strings.ToLower(rand.Text()[:16]) // see kvs.Config
	for h := range hosts {
		cfg := kvs.Config{KVSName: name, Size: hosts * perHost, Names: s.names}
		for l := range perHost {
			cfg.Local = append(cfg.Local, h*perHost+l)
		}
		if hosts > 1 {
			cfg.Upstream = spoke{s, h}
		}
		e, err := kvs.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.engines = append(s.engines, e)
	}
	return s.engines, s
}

func (s spoke) Exchange(ctx context.Context, set string, epoch uint64, _ bool, data []byte) ([][]byte, error) {
	key := fmt.Sprint(set, "/", epoch)
	s.mu.Lock()
	f := s.fences[key]
	if f == nil {
		f = &starFence{data: make([][]byte, len(s.engines)), over: make(chan struct{})}
		s.fences[key] = f
	}
	if f.data[s.host] != nil {
		s.mu.Unlock()
		return nil, errors.New("a host contributed twice")
	}
	f.data[s.host] = append([]byte{}, data...)
	if f.in++; f.in == s.hostsOf(set) {
		close(f.over)
	}
	s.mu.Unlock()
	select {
	case <-f.over:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var others [][]byte
	for h, d := range f.data {
		if h != s.host && d != nil {
			others = append(others, d)
		}
	}
	return others, nil
}

func (s spoke) Fetch(_ context.Context, owner int, key string) ([]byte, bool, error) {
	for h, e := range s.engines {
		if h == s.host {
			continue
		}
		if v, ok := e.LocalGet(owner, key); ok {
			return v, true, nil
		}
	}
	return nil, false, nil
}

func (s spoke) Await(ctx context.Context, owner int, key string) ([]byte, bool, error) {
	perHost := s.engines[s.host].Size() / len(s.engines)
	s.mu.Lock()
	s.awaits++
	s.mu.Unlock()
	return s.engines[owner/perHost].LocalAwait(ctx, owner, key)
}

// hostsOf counts the hosts that have ranks of set ("0-3,8").
func (s spoke) hostsOf(set string) int {
	perHost := s.engines[s.host].Size() / len(s.engines)
	hosts := map[int]bool{}
	for part := range strings.SplitSeq(set, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, _ := strconv.Atoi(first)
		hi, _ := strconv.Atoi(last)
		for r := lo; r <= hi; r++ {
			hosts[r/perHost] = true
		}
	}
	return len(hosts)
}
