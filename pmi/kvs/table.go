package kvs

import (
	"errors"
	"slices"
)

// Table is published names: a run's, which the launcher keeps, or those that stay on one host. It has no goroutine,
// lock, clock or I/O, and is not safe for concurrent use. NewTable makes one.
type Table struct {
	most, bytes int
	values      map[string]published
	size        int    // bytes of services and values
	clock       uint64 // publications so far
}

type published struct {
	value []byte
	at    uint64
}

// NewTable returns a table for at most most names, whose services and values take at most so many bytes.
func NewTable(most, bytes int) Table {
	return Table{most: most, bytes: bytes, values: map[string]published{}}
}

// The answers of Names that a client is told; any other error is a failure of the way there.
var (
	ErrExists   = errors.New("the service is published already")
	ErrNotFound = errors.New("the service is not published")
)

// Publish keeps value, which must not be modified any more. It fails with ErrExists or a *LimitError.
func (t *Table) Publish(service string, value []byte) error {
	if _, ok := t.values[service]; ok {
		return ErrExists
	}
	if len(t.values) >= t.most {
		return &LimitError{Owner: AnyOwner, Key: service, What: "total", Unit: "published names", Got: len(t.values) + 1, Max: t.most}
	}
	size := t.size + len(service) + len(value)
	if size > t.bytes {
		return &LimitError{Owner: AnyOwner, Key: service, What: "total", Unit: "bytes of published names", Got: size, Max: t.bytes}
	}
	t.clock++
	t.size = size
	t.values[service] = published{value, t.clock}
	return nil
}

// Lookup finds a service.
func (t *Table) Lookup(service string) (value []byte, found bool) {
	v, found := t.values[service]
	return v.value, found
}

// Unpublish forgets a service, and says whether it was there.
func (t *Table) Unpublish(service string) (found bool) {
	v, found := t.values[service]
	if found {
		delete(t.values, service)
		t.size -= len(service) + len(v.value)
	}
	return found
}

// Since says whether one of services is there that was published after since, a time of this table. now is its time.
func (t *Table) Since(services []string, since uint64) (now uint64, there bool) {
	return t.clock, slices.ContainsFunc(services, func(s string) bool { return t.values[s].at > since })
}
