package launcher

import (
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// publication is a published value, and its number among all.
type publication struct {
	value []byte
	at    uint64
}

// name serves MPI_Publish_name and its kin for the whole run. Found in the answer says that a
// name was published (it was free), found, or taken away (it was there).
func (h *hub) name(host int, m *apiv1.NameRequest) {
	res := &apiv1.NameResult{Id: m.Id}
	old, known := h.names[m.Service]
	switch m.Op {
	case apiv1.NameOp_NAME_PUBLISH:
		size := len(m.Service) + len(m.Value)
		switch {
		case known: // not published: Found stays false
		case len(h.names) >= maxNames || h.nameLen+size > maxNameBytes:
			res.Error = fmt.Sprintf("the run has published %d names (%d bytes): no room for more", len(h.names), h.nameLen)
		default:
			h.clock++
			h.names[m.Service] = publication{m.Value, h.clock}
			h.nameLen += size
			res.Found = true
		}
	case apiv1.NameOp_NAME_LOOKUP:
		res.Found, res.Value = known, old.value
	case apiv1.NameOp_NAME_UNPUBLISH:
		if res.Found = known; known {
			delete(h.names, m.Service)
			h.nameLen -= len(m.Service) + len(old.value)
		}
	case apiv1.NameOp_NAME_WATCH:
		if res.Error, res.Now = h.watch(host, m); res.Error == "" && res.Now == 0 {
			return // it is answered later
		}
	case apiv1.NameOp_NAME_UNWATCH:
		h.watches.end(watchKey{host, m.Id})
		return
	default:
		res.Error = fmt.Sprintf("unknown name operation %d", m.Op)
	}
	h.named(host, res)
	if m.Op == apiv1.NameOp_NAME_PUBLISH && res.Found {
		for _, w := range h.watches.of(m.Service) {
			h.watches.end(w)
			h.named(w.host, &apiv1.NameResult{Id: w.id, Found: true, Now: h.clock})
		}
	}
}

func (h *hub) named(host int, res *apiv1.NameResult) {
	h.send(host, &apiv1.Frame{Body: &apiv1.Frame_NameResult{NameResult: res}})
}

// fetch routes a request to the owner's host, or to every other host of the job when the owner
// is not known: the first that has the value answers for all.
func (h *hub) fetch(host int, m *apiv1.FetchRequest) {
	if !m.AnyOwner && int(m.Owner) >= len(h.hostOf) {
		h.fetched(host, &apiv1.FetchResult{Id: m.Id, Error: fmt.Sprintf("no process %d in a run of %d", m.Owner, len(h.hostOf))})
		return
	}
	if m.AnyOwner && int(m.Job) >= len(h.jobs) {
		h.fetched(host, &apiv1.FetchResult{Id: m.Id, Error: fmt.Sprintf("no job %d in a run of %d", m.Job, len(h.jobs))})
		return
	}
	if len(h.fetches) >= maxFetches {
		h.fetched(host, &apiv1.FetchResult{Id: m.Id, Error: "too many fetches at once"})
		return
	}
	f := &fetch{host: host, id: m.Id, waiting: map[int]bool{}}
	if m.AnyOwner {
		for _, i := range h.jobs[m.Job].hosts {
			if i != host && !h.gone[i] {
				f.waiting[i] = true
			}
		}
	} else if owner := h.hostOf[m.Owner]; owner != host && !h.gone[owner] {
		f.waiting[owner] = true
	}
	if len(f.waiting) == 0 {
		h.fetched(host, &apiv1.FetchResult{Id: m.Id})
		return
	}
	h.fetchID++
	h.fetches[h.fetchID] = f
	for i := range h.hosts {
		if !f.waiting[i] {
			continue
		}
		h.send(i, &apiv1.Frame{Body: &apiv1.Frame_FetchRequest{FetchRequest: &apiv1.FetchRequest{
			Id: h.fetchID, Owner: m.Owner, Key: m.Key, AnyOwner: m.AnyOwner, Wait: m.Wait, Not: m.Not, Job: m.Job,
		}}})
	}
}

// answered takes one host's answer to a fetch; late ones of a fetch that is over are dropped.
func (h *hub) answered(id uint64, from int, m *apiv1.FetchResult) {
	f := h.fetches[id]
	if f == nil || !f.waiting[from] {
		return
	}
	delete(f.waiting, from)
	if !m.Found && len(f.waiting) > 0 {
		return
	}
	delete(h.fetches, id)
	h.fetched(f.host, &apiv1.FetchResult{Id: f.id, Found: m.Found, Value: m.Value, Error: m.Error})
}

func (h *hub) fetched(host int, m *apiv1.FetchResult) {
	h.send(host, &apiv1.Frame{Body: &apiv1.Frame_FetchResult{FetchResult: m}})
}
