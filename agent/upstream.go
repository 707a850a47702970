package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// upstream is a session's way to the run's other hosts: a star, through the launcher. It is kvs.Upstream and
// kvs.Names. Each question waits for its answer, and ends with its context.
type upstream struct {
	link *wire.Link

	mu     sync.Mutex
	lastID uint64                               // guarded by mu
	fences map[fenceKey]chan *apiv1.FenceResult // guarded by mu
	names  map[uint64]chan *apiv1.NameResult    // guarded by mu
	fetch  map[uint64]chan *apiv1.FetchResult   // guarded by mu
	spawns map[uint64]chan *apiv1.SpawnResult   // guarded by mu
	aborts map[uint64]chan *apiv1.AbortNoted    // guarded by mu
}

type fenceKey struct {
	set   string
	epoch uint64
}

func newUpstream(l *wire.Link) *upstream {
	return &upstream{link: l, fences: map[fenceKey]chan *apiv1.FenceResult{},
		names: map[uint64]chan *apiv1.NameResult{}, fetch: map[uint64]chan *apiv1.FetchResult{},
		spawns: map[uint64]chan *apiv1.SpawnResult{}, aborts: map[uint64]chan *apiv1.AbortNoted{}}
}

// ask sends f and waits for the answer to k.
func ask[K comparable, A any](ctx context.Context, u *upstream, waiting map[K]chan A, k K, f *apiv1.Frame) (a A, err error) {
	c := make(chan A, 1)
	u.mu.Lock()
	waiting[k] = c
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		delete(waiting, k)
		u.mu.Unlock()
	}()
	if err := u.link.Send(f); err != nil {
		return a, err
	}
	select {
	case a = <-c:
		return a, nil
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
}

// question is ask with a number of its own, which frame puts in.
func question[A any](ctx context.Context, u *upstream, waiting map[uint64]chan A, frame func(id uint64) *apiv1.Frame) (A, error) {
	u.mu.Lock()
	u.lastID++
	id := u.lastID
	u.mu.Unlock()
	return ask(ctx, u, waiting, id, frame(id))
}

// answer hands a reply to who waits for it; one that nobody waits for (any more) is dropped.
func answer[K comparable, A any](u *upstream, waiting map[K]chan A, k K, a A) {
	u.mu.Lock()
	c := waiting[k]
	u.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case c <- a:
	default: // answered twice
	}
}

func (u *upstream) fenceResult(r *apiv1.FenceResult) {
	answer(u, u.fences, fenceKey{r.Set, r.Epoch}, r)
}
func (u *upstream) nameResult(r *apiv1.NameResult)   { answer(u, u.names, r.Id, r) }
func (u *upstream) fetchResult(r *apiv1.FetchResult) { answer(u, u.fetch, r.Id, r) }
func (u *upstream) spawnResult(r *apiv1.SpawnResult) { answer(u, u.spawns, r.Id, r) }
func (u *upstream) abortNoted(r *apiv1.AbortNoted)   { answer(u, u.aborts, r.Id, r) }

// Exchange sends this host's contribution to a fence and returns the other hosts'.
func (u *upstream) Exchange(ctx context.Context, set string, epoch uint64, collect bool, data []byte) ([][]byte, error) {
	r, err := ask(ctx, u, u.fences, fenceKey{set, epoch}, (&apiv1.FenceEnter{Set: set, Epoch: epoch, Collect: collect, Data: data}).Frame())
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return nil, &kvs.FenceLimitError{Why: err.Error()}
	case err != nil:
		return nil, err
	case r.Limit:
		return nil, &kvs.FenceLimitError{Why: r.Error}
	case r.Error != "":
		return nil, errors.New(r.Error)
	}
	return r.Data, nil
}

// Fetch asks for a value that another host may have.
func (u *upstream) Fetch(ctx context.Context, q kvs.Question) ([]byte, bool, error) {
	r := &apiv1.FetchRequest{Key: q.Key, Wait: q.Wait, Not: []byte(q.Not)}
	if q.Owner == kvs.AnyOwner {
		r.AnyOwner, r.Job = true, uint32(q.Job)
	} else {
		r.Owner = uint32(q.Owner)
	}
	a, err := question(ctx, u, u.fetch, func(id uint64) *apiv1.Frame {
		r.Id = id
		return r.Frame()
	})
	switch {
	case err != nil:
		return nil, false, err
	case a.Error != "":
		return nil, false, errors.New(a.Error)
	}
	return a.Value, a.Found, nil
}

// Publish, Lookup, Unpublish and Watch are kvs.Names over the whole run.

// Publish makes a service known.
func (u *upstream) Publish(ctx context.Context, service string, value []byte) error {
	r, err := u.name(ctx, apiv1.NameOp_NAME_PUBLISH, service, value)
	if err == nil && !r.Found {
		err = kvs.ErrExists
	}
	return err
}

// Lookup finds a service.
func (u *upstream) Lookup(ctx context.Context, service string) ([]byte, error) {
	r, err := u.name(ctx, apiv1.NameOp_NAME_LOOKUP, service, nil)
	if err != nil {
		return nil, err
	}
	if !r.Found {
		return nil, kvs.ErrNotFound
	}
	return r.Value, nil
}

// Unpublish forgets a service.
func (u *upstream) Unpublish(ctx context.Context, service string) error {
	r, err := u.name(ctx, apiv1.NameOp_NAME_UNPUBLISH, service, nil)
	if err == nil && !r.Found {
		err = kvs.ErrNotFound
	}
	return err
}

// Watch waits for services.
func (u *upstream) Watch(ctx context.Context, services []string, since uint64) (uint64, error) {
	if len(services) > kvs.MaxWatched {
		return 0, &kvs.LimitError{Owner: kvs.AnyOwner, What: "watch", Unit: "services", Got: len(services), Max: kvs.MaxWatched}
	}
	m := &apiv1.NameRequest{Op: apiv1.NameOp_NAME_WATCH, Services: services, Since: since}
	r, err := question(ctx, u, u.names, func(id uint64) *apiv1.Frame {
		m.Id = id
		return m.Frame()
	})
	switch {
	case err != nil:
		end := &apiv1.NameRequest{Id: m.Id, Op: apiv1.NameOp_NAME_UNWATCH}
		_ = u.link.Send(end.Frame()) // a link that takes nothing is at its end
		return 0, err
	case r.Error != "":
		return 0, errors.New(r.Error)
	}
	return r.Now, nil
}

func (u *upstream) name(ctx context.Context, op apiv1.NameOp, service string, value []byte) (*apiv1.NameResult, error) {
	r, err := question(ctx, u, u.names, func(id uint64) *apiv1.Frame {
		return (&apiv1.NameRequest{
			Id: id, Op: op, Service: service, Value: value}).Frame()
	})
	if err == nil && r.Error != "" {
		err = fmt.Errorf("service %q: %s", service, r.Error)
	}
	return r, err
}
