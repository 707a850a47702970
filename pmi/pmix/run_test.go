package pmix_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/event"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
)

// multi is a run of several jobs on several hosts in memory, and raw clients of them.
type multi struct {
	t       testing.TB
	star    *star
	pipes   []*pipes       // by host
	servers []*pmix.Server // by host
	jobs    []pmix.Job
	stop    func()
	getenv  func(rank int, name string) string // of the jobs that are added from now on

	mu     sync.Mutex
	events []string
	errs   []error
}

func newMulti(t testing.TB, hosts int, change func(*pmix.Config)) *multi {
	return newMultiWith(t, hosts, kvs.Limits{}, change)
}

func newMultiWith(t testing.TB, hosts int, limits kvs.Limits, change func(*pmix.Config)) *multi {
	m := &multi{t: t, star: newStar(hosts, limits)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for h := range hosts {
		cfg := pmix.Config{Machine: jobdata.Machine{Address: "127.0.0.1:1"}, Engine: m.star.engines[h], Hooks: pmix.Hooks{
			OnAbort: func(_ context.Context, id, code int, _ string, targets []int) {
				m.event("abort by %d: %d of %v", id, code, targets)
			},
			OnControl: func(id int, targets []int, signal int, end bool) {
				m.event("%d sends %d to %v, end %v", id, signal, targets, end)
			},
			OnEvent: func(e event.Event) { m.forward(h, e) },
			OnLog:   func(id int, _ bool, text string) { m.event("%d says %s", id, text) },
			OnError: func(_ int, err error) {
				m.mu.Lock()
				m.errs = append(m.errs, err)
				m.mu.Unlock()
			},
		}}
		if change != nil {
			change(&cfg)
		}
		srv, err := pmix.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		l := newPipes()
		m.servers, m.pipes = append(m.servers, srv), append(m.pipes, l)
		wg.Go(func() { srv.Run(ctx, l) })
	}
	m.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		m.star.close()
	})
	return m
}

func (m *multi) event(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, fmt.Sprintf(format, args...))
}

func (m *multi) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.errs...)
}

func (m *multi) forward(from int, e event.Event) {
	packed, err := event.Encode(e)
	if err != nil {
		m.t.Error(err)
	}
	for h, s := range m.servers {
		e, err := event.Decode(packed)
		if err != nil {
			m.t.Error(err)
		}
		if h != from {
			s.Notify(e)
		}
	}
}

// job makes the spaces of a job of the ranks of each host; hosts are told of it one by one.
func (m *multi) job(layout ...[]int) (number int, add func(host int)) {
	number, sj := m.star.add(m.t, layout)
	pj := pmix.Job{Job: jobdata.Job{Namespace: fmt.Sprintf("job%d-0123456789abcdef", number), Command: "/bin/x 1", Getenv: m.getenv}}
	here := make([]int, len(layout))
	for h, ranks := range layout {
		here[h] = -1
		if len(ranks) > 0 {
			here[h] = len(pj.Hosts)
			pj.Hosts = append(pj.Hosts, jobdata.Host{Name: fmt.Sprintf("w%d", h), Ranks: ranks})
		}
	}
	if number > 0 {
		pj.SpawnedBy = &job.Process{}
	}
	m.jobs = append(m.jobs, pj)
	return number, func(host int) {
		pj.Here, pj.Space = here[host], sj.spaces[host]
		if err := m.servers[host].Add(pj); err != nil {
			m.t.Error(err)
		}
	}
}

// jobs adds jobs on all hosts.
func (m *multi) add(layout ...[]int) {
	_, add := m.job(layout...)
	for h := range m.servers {
		add(h)
	}
}

// connect is a client of a rank, for a test whose time is faked.
func (m *multi) connect(job, rank int) *raw {
	m.t.Helper()
	sj := m.star.jobs[job]
	nc := m.pipes[m.star.where[sj.base+rank]].dial(m.t)
	nc.SetDeadline(time.Now().Add(time.Hour))
	h := good(uint32(rank))
	h.Namespace = m.jobs[job].Namespace
	answer := make([]byte, 8)
	if _, err := nc.Write(hello(h)); err != nil {
		m.t.Fatal(err)
	}
	if _, err := io.ReadFull(nc, answer); err != nil || !bytes.Equal(answer[:4], make([]byte, 4)) {
		m.t.Fatalf("answer %x, %v", answer, err)
	}
	return &raw{m.t, nc}
}

func (m *multi) proc(job int, rank uint32) bfrops.Proc {
	return bfrops.Proc{Namespace: m.jobs[job].Namespace, Rank: rank}
}

func list(procs ...bfrops.Proc) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		bfrops.PutCounted(w, bfrops.ProcType, procs)
		w.Infos(nil)
	}
}

func getting(p bfrops.Proc, key string, infos ...bfrops.Info) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		w.Group(bfrops.String, p.Namespace)
		w.Group(bfrops.ProcRank, uint64(p.Rank))
		w.Infos(infos)
		if key != "" {
			w.Group(bfrops.String, key)
		}
	}
}

func committing(key, value string) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		s := bfrops.NewWriter(bfrops.Canonical(), false, nil)
		s.KVal(key, bfrops.String, value)
		packed, _ := s.Bytes()
		for scope := range 2 {
			w.Group(bfrops.Scope, uint64(1+scope))
			w.Group(bfrops.BufferType, bfrops.Buffer{Data: packed})
		}
	}
}

func yes(key string) bfrops.Info {
	return bfrops.Info{Key: key, Value: bfrops.Value{Type: bfrops.Bool, Data: true}}
}

// values reads the answer to a GET: whose they are, and the values.
func (c *raw) values(tag uint32) (status int, of bfrops.Proc, values map[string]bfrops.Value) {
	c.t.Helper()
	r := c.receive(tag)
	if status = int(bfrops.One[int64](r, bfrops.Status)); status != 0 {
		return status, of, nil
	}
	values = map[string]bfrops.Value{}
	inner := r.Sub(bfrops.Buffer{Data: bfrops.One[[]byte](r, bfrops.ByteObject)})
	of = bfrops.One[bfrops.Proc](inner, bfrops.ProcType)
	for inner.More() {
		p := bfrops.One[bfrops.KVal](inner, bfrops.KValType)
		values[p.Key] = p.Value
	}
	if r.Err() != nil || inner.Err() != nil {
		c.t.Error(r.Err(), inner.Err())
	}
	return 0, of, values
}
