package kvs

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
)

// Names is where a job publishes services (MPI_Publish_name). Every method may block on the way
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

// The answers of Names that a client is told; any other error is a failure of the way there.
var (
	ErrExists   = errors.New("the service is published already")
	ErrNotFound = errors.New("the service is not published")
)

// memoryNames keeps the names of a job on one host.
type memoryNames struct {
	limits Limits

	mu     sync.Mutex
	values map[string]published // guarded by mu
	clock  uint64               // guarded by mu; publications so far
	more   chan struct{}        // guarded by mu; closed and replaced at each publication
}

type published struct {
	value []byte
	at    uint64
}

// NewNames returns names that are kept in memory, for a job on one host or for the launcher.
func NewNames(limits Limits) Names {
	return &memoryNames{limits: limits.withDefaults(), values: map[string]published{}, more: make(chan struct{})}
}

func (n *memoryNames) Publish(_ context.Context, service string, value []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.limits.check(AnyOwner, service, value); err != nil {
		return err
	}
	if _, ok := n.values[service]; ok {
		return ErrExists
	}
	if len(n.values) >= n.limits.Names {
		return &LimitError{Owner: AnyOwner, Key: service, What: "one more than a total", Unit: "published names", Got: len(n.values) + 1, Max: n.limits.Names}
	}
	n.clock++
	n.values[service] = published{bytes.Clone(value), n.clock}
	close(n.more)
	n.more = make(chan struct{})
	return nil
}

func (n *memoryNames) Lookup(_ context.Context, service string) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := n.values[service]
	if !ok {
		return nil, ErrNotFound
	}
	return v.value, nil
}

func (n *memoryNames) Unpublish(_ context.Context, service string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.values[service]; !ok {
		return ErrNotFound
	}
	delete(n.values, service)
	return nil
}

func (n *memoryNames) Watch(ctx context.Context, services []string, since uint64) (now uint64, err error) {
	if len(services) > MaxWatched {
		return 0, &LimitError{Owner: AnyOwner, What: "watch", Unit: "services", Got: len(services), Max: MaxWatched}
	}
	for {
		n.mu.Lock()
		now, more := n.clock, n.more
		there := slices.ContainsFunc(services, func(s string) bool { return n.values[s].at > since })
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
