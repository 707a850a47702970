package run

import (
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
)

// maxEvent bounds an event that a rank sends to ranks elsewhere, bytes as pmi/pmix packs it.
const maxEvent = 1 << 20

// gone is who will not come back, for ranks that asked to be told (PMIx events).
type gone struct {
	shared
	pmix bool          // PMI-1 and PMI-2 know no events
	went []*apiv1.Gone // not told yet
}

// forward passes a PMIx event on to all other hosts: only they know who listens.
func (r *gone) forward(from int, e *apiv1.Event) {
	if len(e.Data) > maxEvent {
		r.debug("event dropped", "host", r.hosts[from].Name, "bytes", len(e.Data))
		return
	}
	for _, h := range r.live() {
		if h != from {
			r.send(h, e.Frame())
		}
	}
}

// maxGone is how many processes that went at once are told of one by one, with how they went;
// the rest is one frame. That keeps the ends of n ranks on n hosts from being n² frames.
const maxGone = 8

// note remembers that processes will not come back; tell passes it on. Once the ranks are being stopped nobody needs them.
func (r *gone) note(g *apiv1.Gone) {
	if r.job != jobStopping && r.pmix {
		r.went = append(r.went, g)
	}
}

// tell tells every host, for ranks that asked to be told (PMIx events), who has gone since
// the last time, before what is done about it.
func (r *gone) tell() {
	went := r.went
	r.went = nil
	if len(went) > maxGone {
		went = append(went[:maxGone:maxGone], together(went[maxGone:]))
	}
	for _, g := range went {
		for _, h := range r.live() {
			r.send(h, g.Frame())
		}
	}
}

// together is several as one: without codes, and a host's loss only where all were that.
func together(went []*apiv1.Gone) *apiv1.Gone {
	all, host := idset.Set{}, true
	for _, g := range went {
		ids, _ := idset.Parse(g.Ids) // our own text
		all = all.Union(ids)
		host = host && g.Host
	}
	return &apiv1.Gone{Ids: all.String(), Host: host}
}
