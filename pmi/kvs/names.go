package kvs

import (
	"bytes"
	"context"
	"errors"
	"sync"
)

// Names is where a job publishes services (MPI_Publish_name). Every method may block on the way
// to whoever keeps them.
type Names interface {
	Publish(ctx context.Context, service string, value []byte) error // ErrExists
	Lookup(ctx context.Context, service string) ([]byte, error)      // ErrNotFound
	Unpublish(ctx context.Context, service string) error             // ErrNotFound
}

// The answers of Names that a client is told; any other error is a failure of the way there.
var (
	ErrExists   = errors.New("the service is published already")
	ErrNotFound = errors.New("the service is not published")
)

// memoryNames keeps the names of a job on one host.
type memoryNames struct {
	limits Limits

	mu     sync.Mutex
	values map[string][]byte // guarded by mu
}

// NewNames returns names that are kept in memory, for a job on one host or for the launcher.
func NewNames(limits Limits) Names {
	return &memoryNames{limits: limits.withDefaults(), values: map[string][]byte{}}
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
	n.values[service] = bytes.Clone(value)
	return nil
}

func (n *memoryNames) Lookup(_ context.Context, service string) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := n.values[service]
	if !ok {
		return nil, ErrNotFound
	}
	return v, nil
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
