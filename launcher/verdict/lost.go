package verdict

import (
	"time"

	"github.com/mpiup/mpiup/internal/idset"
)

// Ranks that say that they lost another one know seldom which. Where nothing else tells, a rank that had just ended with 0 is probably it.
//
//	rank 2 exits with 0 ─▶ rank 0: "Connection reset by peer", exits with 1 ─▶ rank 2 left before the others were done
//	nobody has ended    ─▶ rank 0: "Connection reset by peer", exits with 1 ─▶ nobody is named; rank 0 only reports

const (
	maxWell = 256             // ranks that are kept
	leaving = 5 * time.Second // others that needed a rank fail so soon after its end
)

// Well notes a rank that ended with 0 by itself.
func (c *Case) Well(f Fault) {
	if len(c.well) < maxWell {
		c.well = append(c.well, f)
	}
}

// leaver is the rank that ended with 0 just before one failed which says that it lost a rank. Code and Ranks are what the run makes of it.
func (c *Case) leaver(lost Fault) (f Fault, ok bool) {
	var all idset.Set
	for _, w := range c.well {
		if d := lost.At - w.At; w.Process.Job != lost.Process.Job || d > leaving || d < -abortEcho {
			continue
		}
		all.Add(w.Process.Rank)
		if !ok || w.At < f.At {
			f, ok = w, true
		}
	}
	f.Left, f.Code = true, lost.Status()
	if all.Len() > 1 {
		f.Ranks = all.String()
	}
	return f, ok
}

// reporters are the ranks of a fault's job that failed and say no more than that they lost another one, where f is such a one; none
// where it is the only one and may have outlived what it said.
func (c *Case) reporters(f Fault) (ids idset.Set) {
	if f.Left || f.Event != Ended && f.Event != Aborted || !c.echoes(f) || len(c.absent(f)) > 0 {
		return ids
	}
	for _, g := range c.faults {
		if (g.Event == Ended || g.Event == Aborted) && g.Process.Job == f.Process.Job && c.echoes(g) {
			ids.Add(g.Process.Rank)
		}
	}
	if f.Event == Ended && ids.Len() == 1 && c.found[f.ID].Loose {
		return idset.Set{}
	}
	return ids
}

// report makes the verdict nobody's where all only report.
func (v *Verdict) report(ids idset.Set) {
	if ids.Empty() {
		return
	}
	v.Reporters, v.Confidence = ids.String(), Unknown
	v.Rank, v.Job, v.Host, v.Node, v.PID = nil, 0, "", "", 0
}

// onlyReport says so.
func onlyReport(ids idset.Set) string {
	if ids.Len() == 1 {
		return "rank " + ids.String() + " only says that it lost another one, and nothing tells which"
	}
	return "ranks " + ids.String() + " only say that they lost another one, and nothing tells which"
}
