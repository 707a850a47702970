package exchange

import (
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// fetch is a question that hosts have not answered.
type fetch struct {
	host    int    // that asked
	id      uint64 // its own number for it
	waiting map[int]bool
}

// Fetch routes a request to the owner's host. If the owner is not known it asks every other host of the job, and the
// first that has the value answers for all.
func (x *Exchange) Fetch(host int, m *apiv1.FetchRequest) {
	wrong := ""
	switch {
	case !m.AnyOwner && int(m.Owner) >= len(x.hostOf):
		wrong = fmt.Sprintf("no process %d in a run of %d", m.Owner, len(x.hostOf))
	case m.AnyOwner && int(m.Job) >= len(x.jobs):
		wrong = fmt.Sprintf("no job %d in a run of %d", m.Job, len(x.jobs))
	case len(x.fetches) >= maxFetches:
		wrong = "too many fetches at once"
	}
	if wrong != "" {
		x.send(host, (&apiv1.FetchResult{Id: m.Id, Error: wrong}).Frame())
		return
	}
	f := &fetch{host: host, id: m.Id, waiting: map[int]bool{}}
	if m.AnyOwner {
		for _, i := range x.jobs[m.Job].hosts {
			if i != host && !x.gone[i] {
				f.waiting[i] = true
			}
		}
	} else if owner := x.hostOf[m.Owner]; owner != host && !x.gone[owner] {
		f.waiting[owner] = true
	}
	if len(f.waiting) == 0 {
		x.send(host, (&apiv1.FetchResult{Id: m.Id}).Frame())
		return
	}
	x.fetchID++
	m.Id = x.fetchID
	x.fetches[x.fetchID] = f
	for i := range x.hosts {
		if f.waiting[i] {
			x.send(i, m.Frame())
		}
	}
}

// Answered takes one host's answer to a fetch; late ones of a fetch that is over are dropped.
func (x *Exchange) Answered(from int, m *apiv1.FetchResult) {
	f := x.fetches[m.Id]
	if f == nil || !f.waiting[from] {
		return
	}
	delete(f.waiting, from)
	if !m.Found && len(f.waiting) > 0 {
		return
	}
	delete(x.fetches, m.Id)
	m.Id = f.id
	x.send(f.host, m.Frame())
}
