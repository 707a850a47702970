package hang

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// Bounds of what hosts tell. What is more is left out, or an error where it says so.
const (
	MaxTorch  = 1 << 16 // torch's ranks of one job
	maxWaits  = 16      // barriers of a host
	maxTag    = 256     // bytes of one's name behind the ids; more is an error
	maxGroups = 64      // of a flight recorder
	maxOps    = 5       // of a group
	maxCalls  = 64      // likewise
	maxWord   = 200     // bytes
	maxStacks = 16      // of a host
	maxNotes  = 3
	maxNote   = 400 // bytes
)

// BarriersOf is a host's answer to who waits for whom, in a run of so many processes. What does not keep to the protocol is an error.
func BarriersOf(m *apiv1.Waits, processes int) (b Barriers, err error) {
	if b.Silent, err = idset.Within(m.GetSilent(), processes); err != nil {
		return b, err
	}
	for _, w := range m.GetWaits()[:min(len(m.GetWaits()), maxWaits)] {
		ids, tag, _ := strings.Cut(w.GetSet(), "#")
		of, err := idset.Within(ids, processes)
		if err != nil {
			return b, err
		}
		entered, err := idset.Within(w.GetEntered(), processes)
		if err == nil && len(tag) > maxTag {
			err = fmt.Errorf("a barrier's tag of %d bytes; %d are possible", len(tag), maxTag)
		}
		if err != nil {
			return b, err
		}
		b.Open = append(b.Open, Barrier{Name: w.GetSet(), Of: of, Entered: entered, Age: time.Duration(w.GetSeconds()) * time.Second})
	}
	return b, nil
}

// RecordOf is what a host tells of one process of a job that torch counts as so many ranks at most.
func RecordOf(m *apiv1.Flight, ranks int) (r Record, err error) {
	if int64(m.GetRank()) >= int64(ranks) {
		return r, fmt.Errorf("a flight recorder of torch's rank %d, of %d that are possible", m.GetRank(), ranks)
	}
	r.Rank = int(m.Rank)
	for _, g := range m.Groups[:min(len(m.Groups), maxGroups)] {
		members, err := idset.Within(g.GetRanks(), ranks)
		if err != nil {
			return r, err
		}
		group := Group{Name: Word(g.GetName()), What: Word(g.GetWhat()), Ranks: members, Last: g.GetLast()}
		for _, o := range g.GetOps()[:min(len(g.GetOps()), maxOps)] {
			group.Ops = append(group.Ops, Op{
				Seq:   o.GetSeq(),
				Name:  Word(o.GetName()),
				Shape: Word(o.GetShape()),
				Done:  o.GetDone(),
				Where: Word(o.GetWhere()),
			})
		}
		for _, c := range g.GetCalls()[:min(len(g.GetCalls()), maxCalls)] {
			if n := len(group.Calls); n == 0 || c.GetSeq() > group.Calls[n-1].Seq {
				group.Calls = append(group.Calls, frameworks.FlightCall{Seq: c.GetSeq(), At: c.GetAtNs()})
			}
		}
		r.Groups = append(r.Groups, group)
	}
	return r, nil
}

// WhereaboutsOf is where a host tells that one process is.
func WhereaboutsOf(m *apiv1.ProcStack) (w Whereabouts) {
	w.PID, w.Means = m.GetPid(), Word(m.GetMeans())
	for _, f := range m.GetFrames()[:min(len(m.GetFrames()), maxFrames)] {
		w.Frames = append(w.Frames, Word(f))
	}
	return w
}

// StacksOf are where a host tells that processes are of which that was asked, each once, and why others are not told of, or what would tell more.
func StacksOf(m *apiv1.Waits, asked idset.Set) (list []Stack, notes []string) {
	for _, p := range m.GetStacks()[:min(len(m.GetStacks()), maxStacks)] {
		if id := int(p.GetId()); asked.Contains(id) && !slices.ContainsFunc(list, func(s Stack) bool { return s.ID == id }) {
			list = append(list, Stack{ID: id, Whereabouts: WhereaboutsOf(p)})
		}
	}
	for _, n := range m.GetNotes()[:min(len(m.GetNotes()), maxNotes)] {
		notes = append(notes, visible.Line(n[:min(len(n), maxNote)]))
	}
	return list, notes
}

// CrashOf is what a host tells of where a process crashed.
func CrashOf(m *apiv1.OutputEnd) (c job.Crash) {
	const mostFrames, mostPlaced = 6, 16
	for _, f := range m.Frames[:min(len(m.Frames), mostFrames)] {
		c.Frames = append(c.Frames, Word(f))
	}
	for _, p := range m.Placed[:min(len(m.Placed), mostPlaced)] {
		c.Placed = append(c.Placed, job.Placed{Frame: Word(p.GetFrame()), Place: Word(p.GetPlace())})
	}
	return c
}

// Word is a short text of a stranger's.
func Word(s string) string { return visible.Line(s[:min(len(s), maxWord)]) }
