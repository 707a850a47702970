package launcher

import (
	"syscall"
	"time"

	causes "github.com/mpiup/mpiup/launcher/verdict"
)

// readWords takes what ranks wrote of their failures into the verdict, when all output has come: that of the cause, and
// of all ranks where the cause's rank only says that it lost another.
func (r *run) readWords() {
	v := &r.verdict
	f, ok := v.cause()
	if !ok || r.sink == nil || r.exec != nil || f.kind != faultRank && f.kind != faultAbort {
		return
	}
	v.found = map[int]causes.Finding{}
	if !r.hear(f.rank, time.Time{}) || !v.echoes(f) {
		return
	}
	failed := map[int]bool{}
	for _, g := range v.of(func(g fault) bool { return g.kind == faultRank }) {
		failed[g.rank] = true
		r.hear(g.rank, time.Time{})
	}
	if v.blame(f).rank != f.rank || r.stopped.IsZero() {
		return
	}
	for id := range r.ranks {
		if failed[id] || !r.hear(id, r.stopped) || v.found[id].Echo {
			continue
		}
		own := r.about(faultRaised, r.places.hostOf(id), id)
		own.at, own.seq, own.code = f.at, -1, f.status()
		v.faults = append(v.faults, own)
		return
	}
}

// hear reads what one rank said, until a time or, where that is zero, until its end.
func (r *run) hear(id int, until time.Time) bool {
	w := r.sink.Words(id)
	said := causes.Said{First: w.First}
	if until.IsZero() {
		said.Last = r.sink.Tail(id)
	} else {
		said.First = nil // when these came is not known
	}
	for _, raised := range w.Raised {
		if until.IsZero() || raised.At.Before(until) {
			said.Raised = append(said.Raised, causes.Exception{Text: raised.Text, Chained: raised.Chained})
		}
	}
	f, ok := causes.Read(said)
	if ok {
		r.verdict.found[id] = f
	}
	return ok
}

// echoes says that a rank failed because it lost another, as far as it says.
func (v *verdict) echoes(f fault) bool { return v.found[f.rank].Echo && !f.struck() }

// struck says that a signal from elsewhere, or a crash, ended the rank.
func (f fault) struck() bool {
	switch syscall.Signal(f.exit.Signal) {
	case 0, syscall.SIGABRT, syscall.SIGPIPE: // its libraries' own ways to end
		return false
	}
	return true
}

// blame is the rank that failed for a reason of its own, where first is one that lost its peer: one that a signal ended
// or that says what its reason is, else one that says nothing. It is first where there is none.
func (v *verdict) blame(first fault) fault {
	if !v.echoes(first) {
		return first
	}
	spoke := func(f fault) bool { _, ok := v.found[f.rank]; return ok }
	for _, want := range []func(fault) bool{
		func(f fault) bool {
			return f.kind == faultRaised || f.kind == faultRank && (f.struck() || spoke(f) && !v.echoes(f))
		},
		func(f fault) bool { return f.kind == faultRank && !spoke(f) },
	} {
		if f, ok := v.earliest(want); ok {
			return f
		}
	}
	return first
}
