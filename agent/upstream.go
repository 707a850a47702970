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

// upstream is the engine's way to the job's other hosts: a star, through the launcher. Each
// question waits for its answer; the session's end ends them all.
type upstream struct {
	link *wire.Link

	mu     sync.Mutex
	lastID uint64                               // guarded by mu
	fences map[fenceKey]chan *apiv1.FenceResult // guarded by mu
	names  map[uint64]chan *apiv1.NameResult    // guarded by mu
	fetch  map[uint64]chan *apiv1.FetchResult   // guarded by mu
}

type fenceKey struct {
	set   string
	epoch uint64
}

func newUpstream(l *wire.Link) *upstream {
	return &upstream{link: l, fences: map[fenceKey]chan *apiv1.FenceResult{},
		names: map[uint64]chan *apiv1.NameResult{}, fetch: map[uint64]chan *apiv1.FetchResult{}}
}

// Exchange sends this host's contribution to a fence and returns the other hosts'.
func (u *upstream) Exchange(ctx context.Context, set string, epoch uint64, collect bool, data []byte) ([][]byte, error) {
	k := fenceKey{set, epoch}
	c := make(chan *apiv1.FenceResult, 1)
	u.mu.Lock()
	u.fences[k] = c
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		delete(u.fences, k)
		u.mu.Unlock()
	}()
	err := u.link.Send(&apiv1.Frame{Body: &apiv1.Frame_FenceEnter{FenceEnter: &apiv1.FenceEnter{
		Set: set, Epoch: epoch, Collect: collect, Data: data}}})
	if err != nil {
		return nil, err
	}
	select {
	case r := <-c:
		if r.Error != "" {
			return nil, errors.New(r.Error)
		}
		return r.Data, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Fetch asks for a value that another host has.
func (u *upstream) Fetch(ctx context.Context, owner int, key string) ([]byte, bool, error) {
	return u.ask(ctx, owner, key, false)
}

// Await is Fetch that is answered when the owner has put the key, or never will.
func (u *upstream) Await(ctx context.Context, owner int, key string) ([]byte, bool, error) {
	return u.ask(ctx, owner, key, true)
}

func (u *upstream) ask(ctx context.Context, owner int, key string, wait bool) ([]byte, bool, error) {
	req := &apiv1.FetchRequest{Key: key, AnyOwner: owner == kvs.AnyOwner, Wait: wait}
	if !req.AnyOwner {
		req.Owner = uint32(owner)
	}
	c := make(chan *apiv1.FetchResult, 1)
	id := question(u, u.fetch, c)
	defer answered(u, u.fetch, id)
	req.Id = id
	if err := u.link.Send(&apiv1.Frame{Body: &apiv1.Frame_FetchRequest{FetchRequest: req}}); err != nil {
		return nil, false, err
	}
	select {
	case r := <-c:
		if r.Error != "" {
			return nil, false, errors.New(r.Error)
		}
		return r.Value, r.Found, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// Publish, Lookup and Unpublish are kvs.Names over the whole job.

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

func (u *upstream) name(ctx context.Context, op apiv1.NameOp, service string, value []byte) (*apiv1.NameResult, error) {
	c := make(chan *apiv1.NameResult, 1)
	id := question(u, u.names, c)
	defer answered(u, u.names, id)
	err := u.link.Send(&apiv1.Frame{Body: &apiv1.Frame_NameRequest{NameRequest: &apiv1.NameRequest{
		Id: id, Op: op, Service: service, Value: value}}})
	if err != nil {
		return nil, err
	}
	select {
	case r := <-c:
		if r.Error != "" {
			return nil, fmt.Errorf("service %q: %s", service, r.Error)
		}
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func question[T any](u *upstream, waiting map[uint64]chan T, c chan T) uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lastID++
	waiting[u.lastID] = c
	return u.lastID
}

func answered[T any](u *upstream, waiting map[uint64]chan T, id uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(waiting, id)
}

// answer hands a reply to who waits for it; one that nobody waits for (any more) is dropped.
func answer[K comparable, T any](u *upstream, waiting map[K]chan T, k K, r T) {
	u.mu.Lock()
	c := waiting[k]
	u.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case c <- r:
	default: // answered twice
	}
}

func (u *upstream) fenceResult(r *apiv1.FenceResult) {
	answer(u, u.fences, fenceKey{r.Set, r.Epoch}, r)
}
func (u *upstream) nameResult(r *apiv1.NameResult)   { answer(u, u.names, r.Id, r) }
func (u *upstream) fetchResult(r *apiv1.FetchResult) { answer(u, u.fetch, r.Id, r) }
