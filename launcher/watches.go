package launcher

import (
	"cmp"
	"fmt"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// watches are the hosts' questions for services that are not published yet.
type watches struct {
	services map[watchKey][]string
	by       map[string]map[watchKey]bool // by service
	size     int                          // bytes of services, each as often as it is watched
}

// watchKey is a host and its own number for the question.
type watchKey struct {
	host int
	id   uint64
}

func newWatches() watches {
	return watches{services: map[watchKey][]string{}, by: map[string]map[watchKey]bool{}}
}

// watch answers when one of the services was published after m.Since, and else notes the question.
// now is 0 then.
func (h *hub) watch(host int, m *apiv1.NameRequest) (wrong string, now uint64) {
	for _, s := range m.Services {
		if p, ok := h.names[s]; ok && p.at > m.Since {
			return "", h.clock
		}
	}
	w, k := &h.watches, watchKey{host, m.Id}
	if n := len(m.Services); n > kvs.MaxWatched || w.size+sizeOf(m.Services) > maxWatched {
		return fmt.Sprintf("%d bytes of services are watched: no room for %d services more", w.size, n), 0
	}
	if w.services[k] != nil {
		return fmt.Sprintf("question %d is there already", m.Id), 0
	}
	w.services[k] = m.Services
	w.size += sizeOf(m.Services)
	for _, s := range m.Services {
		if w.by[s] == nil {
			w.by[s] = map[watchKey]bool{}
		}
		w.by[s][k] = true
	}
	return "", 0
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
	var keys []watchKey
	for k := range w.by[service] {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b watchKey) int { return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.id, b.id)) })
	return keys
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
