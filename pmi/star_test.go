package pmi_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mpiup/mpiup/pmi/kvs"
)

// star joins engines in memory, as the launcher joins agents.
type star struct {
	names kvs.Names

	mu      sync.Mutex
	engines []*kvs.Space
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

// base is the id of rank 0: what PMI says of ranks is about the job, whatever its ids in the run.
const base = 3

// engines returns a job's space on each host, with perHost ranks each.
func engines(t testing.TB, hosts, perHost int) []*kvs.Space {
	t.Helper()
	s := &star{names: kvs.NewNames(kvs.Limits{}), fences: map[string]*starFence{}}
	name := "test-" + strings.ToLower(rand.Text()[:16]) // see kvs.Job
	for h := range hosts {
		run, job := kvs.Run{Names: s.names}, kvs.Job{KVSName: name, Base: base, Size: hosts * perHost}
		for l := range perHost {
			job.Local = append(job.Local, h*perHost+l)
		}
		if hosts > 1 {
			run.Upstream = spoke{s, h}
		}
		e, err := kvs.New(run).Add(job)
		if err != nil {
			t.Fatal(err)
		}
		s.engines = append(s.engines, e)
	}
	return s.engines
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
	if f.in++; f.in == len(s.engines) {
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
		if h != s.host {
			others = append(others, d)
		}
	}
	return others, nil
}

func (s spoke) Fetch(_ context.Context, q kvs.Question) ([]byte, bool, error) {
	owner := q.Owner
	if owner != kvs.AnyOwner {
		owner -= base
	}
	for h, e := range s.engines {
		if h == s.host {
			continue
		}
		if v, ok := e.LocalGet(owner, q.Key); ok {
			return v, true, nil
		}
	}
	return nil, false, nil
}
