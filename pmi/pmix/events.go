package pmix

import (
	"context"
	"slices"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/event"
)

// raise is an event that a rank raises. Itself it has told already.
func raise(_ context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	e := event.Event{
		Code:   int(bfrops.One[int64](r, bfrops.Status)),
		Range:  byte(bfrops.One[uint64](r, bfrops.Range)),
		Infos:  r.Infos(),
		Source: c.proc(),
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	if e.Range == bfrops.RangeProcLocal || e.Range == bfrops.RangeResourceManager {
		return nil, bfrops.Success
	}
	e.Targets = bfrops.Procs(e.Infos, "pmix.evrange")
	if e.Range == bfrops.RangeCustom && len(e.Targets) == 0 {
		return nil, bfrops.ErrBadParam
	}
	if _, err := event.Encode(e); err != nil {
		return nil, bfrops.ErrOutOfResource
	}
	c.host.events.Notify(e, c.events)
	if f := c.host.cfg.Hooks.OnEvent; f != nil && e.Range != bfrops.RangeLocal && c.host.jobs.elsewhere(e) {
		f(e)
	}
	return nil, bfrops.Success
}

// elsewhere says whether ranks of other hosts may be meant.
func (j *jobs) elsewhere(e event.Event) bool {
	if e.Targets == nil {
		return true
	}
	return slices.ContainsFunc(e.Targets, func(p bfrops.Proc) bool {
		ns := j.called(p.Namespace)
		return ns == nil || !ns.IsHere(int(p.Rank))
	})
}

// register asks for events of codes, or of all.
func register(_ context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	codes := bfrops.Counted[int64](r, bfrops.Status)
	if r.Err() != nil {
		return nil, r.Err()
	}
	return nil, c.events.Register(codes)
}

func deregister(_ context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	for r.More() {
		c.events.Deregister(bfrops.One[int64](r, bfrops.Status))
	}
	return nil, r.Err()
}
