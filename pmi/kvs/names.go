package kvs

import (
	"bytes"
	"cmp"
	"context"
	"sync"
)

// Names is where services are published (MPI_Publish_name). Every method may block on the way
// to whoever keeps them.
type Names interface {
	Publish(ctx context.Context, service string, value []byte) error // ErrExists
	Lookup(ctx context.Context, service string) ([]byte, error)      // ErrNotFound
	Unpublish(ctx context.Context, service string) error             // ErrNotFound
	// Watch returns when one of services is there that was published after since, a time that an
	// earlier Watch returned (0: whenever).
	Watch(ctx context.Context, services []string, since uint64) (now uint64, err error)
}

// MaxWatched bounds the services of one Watch.
const MaxWatched = 1024

// memoryNames keeps names in this process.
type memoryNames struct {
	limits Limits

	mu    sync.Mutex
	table Table         // guarded by mu
	more  chan struct{} // guarded by mu; closed and replaced at each publication
}

// NewNames returns names that are kept in memory: for a run on one host, or for what stays on a host. Zero limits are DefaultLimits.
func NewNames(limits Limits) Names {
	limits = cmp.Or(limits, DefaultLimits())
	return &memoryNames{limits: limits, table: NewTable(limits.Names, limits.Names*(limits.Key+limits.Value)), more: make(chan struct{})}
}

func (n *memoryNames) Publish(_ context.Context, service string, value []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.limits.check(AnyOwner, service, value); err != nil {
		return err
	}
	if err := n.table.Publish(service, bytes.Clone(value)); err != nil {
		return err
	}
	close(n.more)
	n.more = make(chan struct{})
	return nil
}

func (n *memoryNames) Lookup(_ context.Context, service string) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if v, ok := n.table.Lookup(service); ok {
		return v, nil
	}
	return nil, ErrNotFound
}

func (n *memoryNames) Unpublish(_ context.Context, service string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.table.Unpublish(service) {
		return nil
	}
	return ErrNotFound
}

func (n *memoryNames) Watch(ctx context.Context, services []string, since uint64) (now uint64, err error) {
	if len(services) > MaxWatched {
		return 0, &LimitError{Owner: AnyOwner, What: "watch", Unit: "services", Got: len(services), Max: MaxWatched}
	}
	for {
		n.mu.Lock()
		now, there := n.table.Since(services, since)
		more := n.more
		n.mu.Unlock()
		if there {
			return now, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
