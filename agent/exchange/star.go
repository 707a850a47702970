package exchange

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// star is a session's way to the run's other hosts, through the launcher. It is kvs.Upstream and
// kvs.Names. Each question waits for its answer, and ends with its context.
type star struct {
	link Link

	mu      sync.Mutex
	lastID  uint64           // guarded by mu
	waiting map[any]chan any // by the question's key, which is of one of the types below; guarded by mu
}

// The questions, by the type of their keys: an answer of another kind finds nobody.
type (
	fenceKey struct {
		set   string
		epoch uint64
	}
	nameID  uint64
	fetchID uint64
	spawnID uint64
	abortID uint64
)

// ask sends f and waits for the answer to key, which is an A.
func ask[A any](ctx context.Context, u *star, key any, f *apiv1.Frame) (a A, err error) {
	c := make(chan any, 1)
	u.mu.Lock()
	u.waiting[key] = c
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		delete(u.waiting, key)
		u.mu.Unlock()
	}()
	if err := u.link.Send(f); err != nil {
		return a, err
	}
	select {
	case got := <-c:
		return got.(A), nil // who answers knows the key's type
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
}

// next is a number that no question has had.
func (u *star) next() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lastID++
	return u.lastID
}

// answer hands a reply to who waits for it; one that nobody waits for (any more) is dropped.
func (u *star) answer(key, reply any) {
	u.mu.Lock()
	c := u.waiting[key]
	u.mu.Unlock()
	select {
	case c <- reply:
	default: // nobody, or answered twice
	}
}

// Exchange sends this host's contribution to a fence and returns the other hosts'.
func (u *star) Exchange(ctx context.Context, set string, epoch uint64, collect bool, data []byte) ([][]byte, error) {
	r, err := ask[*apiv1.FenceResult](ctx, u, fenceKey{set, epoch}, (&apiv1.FenceEnter{Set: set, Epoch: epoch, Collect: collect, Data: data}).Frame())
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
func (u *star) Fetch(ctx context.Context, q kvs.Question) ([]byte, bool, error) {
	r := &apiv1.FetchRequest{Id: u.next(), Key: q.Key, Wait: q.Wait, Not: []byte(q.Not)}
	if q.Owner == kvs.AnyOwner {
		r.AnyOwner, r.Job = true, uint32(q.Job)
	} else {
		r.Owner = uint32(q.Owner)
	}
	a, err := ask[*apiv1.FetchResult](ctx, u, fetchID(r.Id), r.Frame())
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
func (u *star) Publish(ctx context.Context, service string, value []byte) error {
	r, err := u.name(ctx, apiv1.NameOp_NAME_PUBLISH, service, value)
	if err == nil && !r.Found {
		err = kvs.ErrExists
	}
	return err
}

// Lookup finds a service.
func (u *star) Lookup(ctx context.Context, service string) ([]byte, error) {
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
func (u *star) Unpublish(ctx context.Context, service string) error {
	r, err := u.name(ctx, apiv1.NameOp_NAME_UNPUBLISH, service, nil)
	if err == nil && !r.Found {
		err = kvs.ErrNotFound
	}
	return err
}

// Watch waits for services.
func (u *star) Watch(ctx context.Context, services []string, since uint64) (uint64, error) {
	if len(services) > kvs.MaxWatched {
		return 0, &kvs.LimitError{Owner: kvs.AnyOwner, What: "watch", Unit: "services", Got: len(services), Max: kvs.MaxWatched}
	}
	m := &apiv1.NameRequest{Id: u.next(), Op: apiv1.NameOp_NAME_WATCH, Services: services, Since: since}
	r, err := ask[*apiv1.NameResult](ctx, u, nameID(m.Id), m.Frame())
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

func (u *star) name(ctx context.Context, op apiv1.NameOp, service string, value []byte) (*apiv1.NameResult, error) {
	id := u.next()
	r, err := ask[*apiv1.NameResult](ctx, u, nameID(id), (&apiv1.NameRequest{Id: id, Op: op, Service: service, Value: value}).Frame())
	if err == nil && r.Error != "" {
		err = fmt.Errorf("service %q: %s", service, r.Error)
	}
	return r, err
}
