package modex

import (
	"math"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Persistence of a published pair (pmix_persistence_t). What outlives its rank lives as long as
// the run: indefinitely and a session are no longer than that here.
const (
	UntilRead = 1 // first-read
	UntilProc = 2
	UntilJob  = 3 // application: what is published without one
)

// Reach is who may look a pair up, nearest first.
type Reach int

// The reaches.
const (
	OfProc   Reach = iota // PMIX_RANGE_PROC_LOCAL
	OfHost                // PMIX_RANGE_LOCAL
	OfJob                 // PMIX_RANGE_NAMESPACE
	OfListed              // PMIX_RANGE_CUSTOM: those that the publisher lists
	OfRun                 // session, global, and what is unknown
	reaches
)

// ReachOf reads the range of a request.
func ReachOf(infos []bfrops.Info) Reach {
	v, _ := bfrops.Attribute(infos, "pmix.range")
	switch n, _ := v.Number(); n {
	case bfrops.RangeLocal:
		return OfHost
	case bfrops.RangeNamespace:
		return OfJob
	case bfrops.RangeCustom:
		return OfListed
	case bfrops.RangeProcLocal:
		return OfProc
	}
	return OfRun
}

// PersistOf reads the persistence of a request. One that is no pmix_persistence_t, an unsigned byte, counts as none.
func PersistOf(infos []bfrops.Info) uint64 {
	v, _ := bfrops.Attribute(infos, "pmix.persist")
	if n, ok := v.Number(); ok && n >= 0 && n <= math.MaxUint8 {
		return uint64(n)
	}
	return UntilJob
}

// Process is who publishes or asks.
type Process struct {
	ID, Job int // in the run
	bfrops.Proc
}

// Publication is a pair, and who published it.
type Publication struct {
	Data    bfrops.PData
	Persist uint64
	Listed  []bfrops.Proc // who may see it, for OfListed
}

func (p Publication) pack() ([]byte, error) {
	w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
	w.Group(bfrops.PDataType, p.Data)
	w.Group(bfrops.Persist, p.Persist)
	bfrops.PutCounted(w, bfrops.ProcType, p.Listed)
	return w.Bytes()
}

func unpackPublication(b []byte) (p Publication, err error) {
	r := bfrops.NewReader(bfrops.Canonical(), false, b)
	p.Data = bfrops.One[bfrops.PData](r, bfrops.PDataType)
	p.Persist = bfrops.One[uint64](r, bfrops.Persist)
	p.Listed = bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	return p, r.Err()
}
