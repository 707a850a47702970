package exchange

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// Name serves MPI_Publish_name and its kin for the whole run. Found in the answer says that a
// name was published (it was free), found, or taken away (it was there).
func (x *Exchange) Name(host int, m *apiv1.NameRequest) {
	res := &apiv1.NameResult{Id: m.Id}
	switch m.Op {
	case apiv1.NameOp_NAME_PUBLISH:
		err := x.names.Publish(m.Service, m.Value)
		if res.Found = err == nil; err != nil && err != kvs.ErrExists {
			res.Error = err.Error()
		}
	case apiv1.NameOp_NAME_LOOKUP:
		res.Value, res.Found = x.names.Lookup(m.Service)
	case apiv1.NameOp_NAME_UNPUBLISH:
		res.Found = x.names.Unpublish(m.Service)
	case apiv1.NameOp_NAME_WATCH:
		now, there := x.names.Since(m.Services, m.Since)
		if there {
			res.Now = now
		} else if res.Error = x.watches.add(watchKey{host, m.Id}, m.Services); res.Error == "" {
			return // it is answered later
		}
	case apiv1.NameOp_NAME_UNWATCH:
		x.watches.end(watchKey{host, m.Id})
		return
	default:
		res.Error = fmt.Sprintf("unknown name operation %d", m.Op)
	}
	x.send(host, res.Frame())
	if m.Op == apiv1.NameOp_NAME_PUBLISH && res.Found {
		now, _ := x.names.Since(nil, 0)
		for _, w := range x.watches.of(m.Service) {
			x.watches.end(w)
			x.send(w.host, (&apiv1.NameResult{Id: w.id, Found: true, Now: now}).Frame())
		}
	}
}

// add notes a question, and says why it cannot; "" when it has.
func (w *watches) add(k watchKey, services []string) (wrong string) {
	if n := len(services); n > kvs.MaxWatched || w.size+sizeOf(services) > maxWatched {
		return fmt.Sprintf("%d bytes of services are watched: no room for %d services more", w.size, n)
	}
	if w.services[k] != nil {
		return fmt.Sprintf("question %d is there already", k.id)
	}
	w.services[k] = services
	w.size += sizeOf(services)
	for _, s := range services {
		if w.by[s] == nil {
			w.by[s] = map[watchKey]bool{}
		}
		w.by[s][k] = true
	}
	return ""
}

// sizeOf is what services take, roughly.
func sizeOf(services []string) (n int) {
	const entry = 64
	for _, s := range services {
		n += len(s) + entry
	}
	return n
}

// of is those that watch a service, in order.
func (w *watches) of(service string) []watchKey {
	return slices.SortedFunc(maps.Keys(w.by[service]), func(a, b watchKey) int { return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.id, b.id)) })
}

// end forgets a question, if it is there.
func (w *watches) end(k watchKey) {
	for _, s := range w.services[k] {
		if delete(w.by[s], k); len(w.by[s]) == 0 {
			delete(w.by, s)
		}
	}
	w.size -= sizeOf(w.services[k])
	delete(w.services, k)
}

// forget ends all of a host's questions.
func (w *watches) forget(host int) {
	for k := range w.services {
		if k.host == host {
			w.end(k)
		}
	}
}
