package pmix

import (
	"context"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Codes of events that an agent has to tell (pmix_common.h).
const (
	EventAborted   = -7   // a process ended with an error
	EventRequested = -8   // MPI_Abort
	EventLeft      = -200 // a process ended without finalizing
	EventEnded     = -201 // a process ended
	EventHostDown  = -231 // a host was lost (PMIX_EVENT_NODE_DOWN)
	EventKilledBy  = -402 // a process ended by a signal
)

const maxEvent = 64 << 10 // bytes of an event as EncodeEvent packs it

// Event is something that ranks may have asked to be told.
type Event struct {
	Code    int
	Source  bfrops.Proc
	Infos   []bfrops.Info
	Range   byte          // pmix_data_range_t
	Targets []bfrops.Proc // whom alone it is for; nil: all in range

	fleeting bool // not for those who listen later
}

// RankEvent is an event about one of the run's processes; false if no job that was added has it.
// Each host makes its own, and who registers a handler later is not told: the default handler of
// Open MPI 4 ends its rank at any of them, and a job that was spawned later has nothing to do with
// the end of an earlier one.
func (s *Server) RankEvent(code, id int) (Event, bool) {
	p, ok := s.proc(id)
	return Event{Code: code, Source: p, Range: rangeSession, Infos: []bfrops.Info{info("pmix.evproc", bfrops.ProcType, p)}, fleeting: true}, ok
}

// HostEvents tell that processes (ids) went with their hosts: of each job's on one host there is one of the
// host, named by its name and number, and then one for each process, which MPI libraries understand
// (Open MPI 5 asks for these alone). Processes that no job has are left out; at most maxTold are told of.
func (s *Server) HostEvents(ids idset.Set) (events []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := 0
	for _, ns := range s.inOrder() {
		for h, host := range ns.Hosts {
			var gone []bfrops.Proc
			for _, rank := range host.Ranks {
				if told < maxTold && ids.Contains(ns.Base+rank) {
					gone = append(gone, ns.proc(rank))
					told++
				}
			}
			if len(gone) > 0 {
				events = append(events, hostEvents(host.Name, h, gone)...)
			}
		}
	}
	return events
}

// maxTold bounds the processes that one call of HostEvents tells of.
const maxTold = 1024

// hostEvents are those of one host. The event of the host has one of its processes as its source,
// as there is no name for a host itself.
func hostEvents(name string, number int, gone []bfrops.Proc) []Event {
	affected := info("pmix.evproc", bfrops.ProcType, gone[0])
	if len(gone) > 1 {
		affected = info("pmix.evaffected", bfrops.DataArray, bfrops.NewProcs(gone...))
	}
	where := []bfrops.Info{info("pmix.hname", bfrops.String, name), info("pmix.nodeid", bfrops.Uint32, uint64(number))}
	event := func(code int, source bfrops.Proc, affected bfrops.Info) Event {
		return Event{Code: code, Source: source, Range: rangeSession, Infos: append([]bfrops.Info{affected}, where...), fleeting: true}
	}
	events := []Event{event(EventHostDown, gone[0], affected)}
	for _, p := range gone {
		events = append(events, event(EventLeft, p, info("pmix.evproc", bfrops.ProcType, p)))
	}
	return events
}

// EncodeEvent packs an event for servers of other hosts. It fails on one that is too large, or
// that holds what DecodeEvent would not read.
func EncodeEvent(e Event) ([]byte, error) {
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

// DecodeEvent reads what EncodeEvent packed.
func DecodeEvent(b []byte) (Event, error) {
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

// notify is an event that a rank raises. Itself it has told already.
func (c *conn) notify(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	e := Event{
		Code:   int(bfrops.One[int64](r, bfrops.Status)),
		Range:  byte(bfrops.One[uint64](r, bfrops.Range)),
		Infos:  r.Infos(),
		Source: c.ns.proc(c.rank),
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	if e.Range == rangeProcLocal || e.Range == rangeResourceManager {
		return nil, success
	}
	e.Targets = procsOf(e.Infos, "pmix.evrange")
	if e.Range == rangeCustom && len(e.Targets) == 0 {
		return nil, errBadParam
	}
	if _, err := EncodeEvent(e); err != nil {
		return nil, errOutOfResource
	}
	c.s.notify(e, c)
	if f := c.s.cfg.Hooks.OnEvent; f != nil && e.Range != rangeLocal && c.s.elsewhere(e) {
		f(e)
	}
	return nil, success
}

// elsewhere says whether ranks of other hosts may be meant.
func (s *Server) elsewhere(e Event) bool {
	if e.Targets == nil {
		return true
	}
	return slices.ContainsFunc(e.Targets, func(p bfrops.Proc) bool {
		ns := s.called(p.Namespace)
		if ns == nil {
			return true
		}
		_, here := ns.local[int(p.Rank)]
		return !here
	})
}

// reaches says whether the event is for a process of its range.
func (e *Event) reaches(who process) bool {
	if e.Targets != nil {
		return slices.ContainsFunc(e.Targets, who.is)
	}
	return e.Range != rangeNamespace || e.Source.Namespace == who.Namespace
}

// procsOf reads an attribute that lists processes, or is one.
func procsOf(infos []bfrops.Info, key string) (procs []bfrops.Proc) {
	v, _ := attribute(infos, key)
	switch d := v.Data.(type) {
	case bfrops.Proc:
		return []bfrops.Proc{d}
	case bfrops.Array:
		for _, e := range d.Data {
			if p, ok := e.(bfrops.Proc); ok {
				procs = append(procs, p)
			}
		}
	}
	return procs
}
