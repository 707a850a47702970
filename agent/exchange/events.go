package exchange

import (
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	pmixevent "github.com/mpiup/mpiup/pmi/pmix/event"
)

// maxGone bounds the processes of one Gone frame that ranks here are told of: a rank that reads
// no events loses all but the first of them anyway.
const maxGone = 1024

// maxEventsWaiting bounds the bytes that wait for the launcher when an event is added to them.
const maxEventsWaiting = 64 << 20

// raised passes a rank's event on to ranks of other hosts, by the launcher. A rank that raises them faster than
// they are taken is kept waiting.
func (x *Exchange) raised(e pmixevent.Event) {
	b, err := pmixevent.Encode(e)
	if err != nil {
		x.Log.Info("a PMIx event stays on this host", "cause", err)
		return
	}
	if x.cfg.Link.Ease(x.cfg.Serving, maxEventsWaiting) != nil {
		return
	}
	x.Send((&apiv1.Event{Data: b}).Frame())
}

// event gives ranks here what a rank of another host raised. One that cannot be read is no reason
// to part with the launcher: a rank made it.
func (x *Exchange) event(e *apiv1.Event) {
	server := x.pmix.running()
	if server == nil {
		return
	}
	decoded, err := pmixevent.Decode(e.Data)
	if err != nil {
		x.Log.Info("a PMIx event from another host", "cause", err)
		return
	}
	server.Notify(decoded)
}

// nonDefault is PMIX_EVENT_NON_DEFAULT.
const nonDefault = "pmix.evnondef"

// gone tells ranks here that asked for it by its code (PMIx events) that processes will not come
// back. The launcher says it to every host, that of the processes too. Handlers for all codes are
// passed by: Open MPI's default one would call MPI_Abort, which says less than how the process went.
func (x *Exchange) gone(g *apiv1.Gone) error {
	ids, err := idset.Parse(g.Ids)
	if err != nil {
		return err
	}
	server := x.pmix.running()
	if server == nil {
		return nil
	}
	if g.Wanted {
		server.Aborted(ids)
	}
	var events []pmixevent.Event
	if g.Host {
		events = server.HostEvents(ids)
	} else {
		events = ended(server, goneCode(g), ids)
	}
	for _, e := range events {
		e.Infos = append(e.Infos, bfrops.Info{Key: nonDefault, Value: bfrops.Value{Type: bfrops.Bool, Data: true}})
		server.Notify(e)
	}
	return nil
}

// ended are events about processes that went by themselves.
func ended(server *pmix.Server, code int, ids idset.Set) (events []pmixevent.Event) {
	for id := range ids.All() {
		if len(events) == maxGone {
			break
		}
		if e, known := server.RankEvent(code, id); known {
			events = append(events, e)
		}
	}
	return events
}

// goneCode is PMIx's code for how processes went that did not go with their host. Several that went together have no code of their
// own.
func goneCode(g *apiv1.Gone) int {
	switch {
	case g.Aborted:
		return pmixevent.Requested
	case g.Signal != 0:
		return pmixevent.KilledBy
	}
	return pmixevent.Aborted
}
