// Package event is PMIx's events: what one is, how it goes from host to host, and who of this host is told.
//
//	a rank raises it ──▶ Board.Notify ──▶ Listener (one a connection): code asked for, process in range?
//	      │                  ▲   │             └─▶ queue, bounded ──Next──▶ the client
//	      │                  │   └─▶ recent, for those who ask a little later
//	    Encode            Decode
//	      └──▶ other hosts ──┘
//
// An event as Encode packs it is groups in bfrops.Canonical: STATUS, PROC, DATA_RANGE, PROCs, INFOs.
//
// Concurrency: methods of Board and Listener may be called from any goroutine. Next waits; nothing else blocks, and a
// client that reads no events loses all but the first of them.
//
// It knows no connection and starts nothing. Which processes end, and how, its callers say.
package event

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Codes of events that an agent has to tell (pmix_common.h).
const (
	Aborted   = -7   // a process ended with an error
	Requested = -8   // MPI_Abort
	Left      = -200 // a process ended without finalizing
	Ended     = -201 // a process ended
	HostDown  = -231 // a host was lost (PMIX_EVENT_NODE_DOWN)
	KilledBy  = -402 // a process ended by a signal
)

const maxEvent = 64 << 10 // bytes of an event as Encode packs it

// Event is something that ranks may have asked to be told.
type Event struct {
	Code    int
	Source  bfrops.Proc
	Infos   []bfrops.Info
	Range   byte          // pmix_data_range_t
	Targets []bfrops.Proc // whom alone it is for; nil: all in range

	fleeting bool // not for those who listen later
}

// OfProcess is an event about one of the run's processes. Each host makes its own, and who registers a handler later is
// not told: the default handler of Open MPI 4 ends its rank at any of them, and a job that was spawned later has nothing
// to do with the end of an earlier one.
func OfProcess(code int, p bfrops.Proc) Event {
	return about(code, p, bfrops.NewInfo("pmix.evproc", bfrops.ProcType, p))
}

func about(code int, source bfrops.Proc, infos ...bfrops.Info) Event {
	return Event{Code: code, Source: source, Range: bfrops.RangeSession, Infos: infos, fleeting: true}
}

// MaxTold bounds the processes whose ends are told at one time.
const MaxTold = 1024

// OfHost tells that processes of a job, at least one, went with their host: there is an event of the host, named by its
// name and number, and then one for each process, which MPI libraries understand (Open MPI 5 asks for these alone). The
// first has one of the processes as its source, as there is no name for a host itself.
func OfHost(name string, number int, gone []bfrops.Proc) []Event {
	affected := bfrops.NewInfo("pmix.evproc", bfrops.ProcType, gone[0])
	if len(gone) > 1 {
		affected = bfrops.NewInfo("pmix.evaffected", bfrops.DataArray, bfrops.NewProcs(gone...))
	}
	host, id := bfrops.NewInfo("pmix.hname", bfrops.String, name), bfrops.NewInfo("pmix.nodeid", bfrops.Uint32, uint64(number))
	events := []Event{about(HostDown, gone[0], affected, host, id)}
	for _, p := range gone {
		events = append(events, about(Left, p, bfrops.NewInfo("pmix.evproc", bfrops.ProcType, p), host, id))
	}
	return events
}

// Encode packs an event for servers of other hosts. It fails on one that is too large, or
// that holds what Decode would not read.
func Encode(e Event) ([]byte, error) {
	w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
	w.Status(e.Code)
	w.Group(bfrops.ProcType, e.Source)
	w.Group(bfrops.Range, uint64(e.Range))
	bfrops.PutCounted(w, bfrops.ProcType, e.Targets)
	w.Infos(e.Infos)
	b, err := w.Bytes()
	if err == nil && len(b) > maxEvent {
		err = fmt.Errorf("a PMIx event of %d bytes, where %d are the most", len(b), maxEvent)
	}
	return b, err
}

// Decode reads what Encode packed.
func Decode(b []byte) (Event, error) {
	if len(b) > maxEvent {
		return Event{}, fmt.Errorf("a PMIx event of %d bytes, where %d are the most", len(b), maxEvent)
	}
	r := bfrops.NewReader(bfrops.Canonical(), false, b)
	e := Event{
		Code:    int(bfrops.One[int64](r, bfrops.Status)),
		Source:  bfrops.One[bfrops.Proc](r, bfrops.ProcType),
		Range:   byte(bfrops.One[uint64](r, bfrops.Range)),
		Targets: bfrops.Counted[bfrops.Proc](r, bfrops.ProcType),
		Infos:   r.Infos(),
	}
	switch {
	case r.Err() != nil:
		return Event{}, fmt.Errorf("a PMIx event: %w", r.Err())
	case r.More():
		return Event{}, fmt.Errorf("a PMIx event with something behind it")
	}
	return e, nil
}

// reaches says whether the event is for a process of its range.
func (e *Event) reaches(who bfrops.Proc) bool {
	if e.Targets != nil {
		return slices.ContainsFunc(e.Targets, func(p bfrops.Proc) bool { return p.Means(who) })
	}
	return e.Range != bfrops.RangeNamespace || e.Source.Namespace == who.Namespace
}
