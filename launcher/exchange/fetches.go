package exchange

import (
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// Fetch routes a request to the owner's host. If the owner is not known it asks every other host of the job, and the
// first that has the value answers for all.
func (x *Exchange) Fetch(host int, m *apiv1.FetchRequest) {
	wrong := ""
	switch {
	case !m.AnyOwner && int(m.Owner) >= x.who.Processes():
		wrong = fmt.Sprintf("no process %d in a run of %d", m.Owner, x.who.Processes())
	case m.AnyOwner && int(m.Job) >= x.who.Jobs():
		wrong = fmt.Sprintf("no job %d in a run of %d", m.Job, x.who.Jobs())
	case x.awaited >= maxFetches:
		wrong = "too many fetches at once"
	}
	if wrong != "" {
		x.send(host, (&apiv1.FetchResult{Id: m.Id, Error: wrong}).Frame())
		return
	}
	f := &fetch{host: host, id: m.Id, waiting: map[int]bool{}}
	if m.AnyOwner {
		for _, i := range x.who.Job(int(m.Job)).Hosts {
			if i != host && !x.gone[i] {
				f.waiting[i] = true
			}
		}
	} else if owner := x.who.HostOf(int(m.Owner)); owner != host && !x.gone[owner] {
		f.waiting[owner] = true
	}
	if len(f.waiting) == 0 {
		x.send(host, (&apiv1.FetchResult{Id: m.Id}).Frame())
		return
	}
	x.fetchID++
	m.Id = x.fetchID
	x.fetches[x.fetchID] = f
	x.awaited += len(f.waiting)
	for i := range x.who.Hosts() {
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
	x.awaited--
	if !m.Found && len(f.waiting) > 0 {
		return
	}
	x.forget(m.Id)
	m.Id = f.id
	x.send(f.host, m.Frame())
}

// forget lets a fetch go.
func (x *Exchange) forget(id uint64) {
	x.awaited -= len(x.fetches[id].waiting)
	delete(x.fetches, id)
}

// HostGone answers what waits for a host that was given up; its processes are told of one by one.
func (x *Exchange) HostGone(host int) { x.answerFor(host, "the host that has it was lost") }

// HostDone answers what waits for a host whose processes have all ended: it has no more than it gave.
func (x *Exchange) HostDone(host int) { x.answerFor(host, "") }

func (x *Exchange) answerFor(host int, err string) {
	x.gone[host] = true
	x.watches.forget(host)
	for id, f := range x.fetches {
		if f.host == host {
			x.forget(id)
		} else if f.waiting[host] {
			x.Answered(host, &apiv1.FetchResult{Id: id, Error: err})
		}
	}
}
