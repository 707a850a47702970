package pmix_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// star joins the hosts of a run in memory, as the launcher joins agents.
type star struct {
	engines []*kvs.Engine // by host

	mu     sync.Mutex
	awaits int                 // guarded by mu; questions between hosts
	jobs   []*starJob          // guarded by mu; by number
	where  map[int]int         // guarded by mu; host of each id
	fences map[fence]*exchange // guarded by mu
	gone   map[int]string      // guarded by mu; why, by id
}

type starJob struct {
	base   int
	layout [][]int // ranks of each host
	size   int
	spaces []*kvs.Space // by host
}

type fence struct {
	set   string
	epoch uint64
}

type exchange struct {
	ids  idset.Set
	data map[int][]byte // by host
	err  error
	over chan struct{}
}

func (x *exchange) end(err error) {
	select {
	case <-x.over:
	default:
		x.err = err
		close(x.over)
	}
}

// leave fails the fences that wait for id, as a launcher does.
func (s *star) leave(id int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[id] = why
	for _, x := range s.fences {
		if x.ids.Contains(id) {
			x.end(&kvs.GoneError{Set: x.ids.String(), Gone: []int{id}, Why: why})
		}
	}
}

func newStar(hosts int, limits kvs.Limits) *star {
	s := &star{where: map[int]int{}, fences: map[fence]*exchange{}, gone: map[int]string{}}
	run := kvs.Run{Names: kvs.NewNames(limits), Limits: limits}
	for h := range hosts {
		if hosts > 1 {
			run.Upstream = spoke{s, h}
		}
		s.engines = append(s.engines, kvs.New(run))
	}
	return s
}

// add makes the spaces of another job, one per host.
func (s *star) add(t testing.TB, layout [][]int) (number int, j *starJob) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	j = &starJob{layout: layout}
	for _, other := range s.jobs {
		j.base += other.size
	}
	for h, ranks := range layout {
		j.size += len(ranks)
		for _, r := range ranks {
			s.where[j.base+r] = h
		}
	}
	name := "test-" + strings.ToLower(rand.Text()[:16]) // see kvs.Job
	for h, ranks := range layout {
		e, err := s.engines[h].Add(kvs.Job{Number: len(s.jobs), Base: j.base, KVSName: name, Size: j.size, Local: ranks})
		if err != nil {
			t.Fatal(err)
		}
		j.spaces = append(j.spaces, e)
	}
	s.jobs = append(s.jobs, j)
	return len(s.jobs) - 1, j
}

func (s *star) close() {
	for _, j := range s.jobs {
		for _, e := range j.spaces {
			e.Close(nil)
		}
	}
}

// spoke is one host's end.
type spoke struct {
	*star
	host int
}

func (s spoke) Exchange(ctx context.Context, set string, epoch uint64, _ bool, data []byte) ([][]byte, error) {
	hosts, ids, err := s.hostsOf(set)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	_, tag, _ := strings.Cut(set, "#")
	k := fence{ids.String() + "#" + tag, epoch}
	x := s.fences[k]
	if x == nil {
		x = &exchange{ids: ids, data: map[int][]byte{}, over: make(chan struct{})}
		s.fences[k] = x
	}
	for id, why := range s.gone {
		if ids.Contains(id) {
			x.end(&kvs.GoneError{Set: ids.String(), Gone: []int{id}, Why: why})
		}
	}
	if _, twice := x.data[s.host]; twice || !hosts[s.host] {
		s.mu.Unlock()
		return nil, errors.New("a host contributed twice, or has no rank of the set")
	}
	x.data[s.host] = append([]byte{}, data...)
	if len(x.data) == len(hosts) {
		x.end(nil)
	}
	s.mu.Unlock()
	select {
	case <-x.over:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if x.err != nil {
		return nil, x.err
	}
	var others [][]byte
	for h, d := range x.data {
		if h != s.host {
			others = append(others, d)
		}
	}
	return others, nil
}

// hostsOf is the hosts that have processes of set, and the set by ids.
func (s spoke) hostsOf(text string) (hosts map[int]bool, ids idset.Set, err error) {
	text, _, _ = strings.Cut(text, "#")
	set, err := idset.Parse(text)
	if err != nil {
		return nil, ids, err
	}
	hosts = map[int]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range set.All() {
		h, ok := s.where[id]
		if !ok {
			return nil, ids, fmt.Errorf("no process %d", id)
		}
		hosts[h] = true
		ids.Add(id)
	}
	return hosts, ids, nil
}

func (s spoke) Fetch(ctx context.Context, q kvs.Question) ([]byte, bool, error) {
	s.mu.Lock()
	s.awaits++
	owner := s.jobs[q.Job].spaces[s.where[q.Owner]]
	s.mu.Unlock()
	if q.Wait {
		return owner.LocalAwait(ctx, q.Owner-owner.Base, q.Key, q.Not)
	}
	v, ok := owner.LocalGet(q.Owner-owner.Base, q.Key)
	return v, ok, nil
}
