package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// Cause is the fault that the job's exit code comes from; false when all went well.
func (c *Case) Cause() (Fault, bool) {
	first, ok := c.first()
	if !ok || first.Event != Ended && first.Event != Signalled && first.Event != Aborted {
		return first, ok
	}
	if t, ok := c.earliest(Fault.preempted); ok && t.At-first.At <= abortEcho {
		return t, true
	}
	if a, ok := c.earliest(func(f Fault) bool { return f.Event == Aborted }); ok {
		return c.blame(c.killed(a)), true
	}
	if first.Event == Signalled {
		return first, true
	}
	first = c.blame(c.onHost(first, func(f Fault) bool { return f.Event == Ended }))
	if s, ok := c.signalled(first); ok && !first.Command && !first.broke() && !first.OOM && (first.Exit.Status() == 128+s.Code || job.Interrupts(s.Code) && !first.struck()) {
		return s, true // no rank is at fault that does as it is told
	}
	return first, true
}

// abortEcho is how long after a rank was killed its peers' libraries call MPI_Abort over it; the
// reports of both may pass each other on their way.
const abortEcho = 250 * time.Millisecond

// killed is the cause of an abort: the abort itself, unless another rank was ended at that time
// by a signal that is neither the program's own doing (abort(3), a pipe without reader) nor one
// that mpiup passed on.
func (c *Case) killed(abort Fault) Fault {
	passed, _ := c.earliest(func(f Fault) bool { return f.Event == Signalled })
	struck := func(f Fault) bool {
		return f.Event == Ended && f.struck() && f.Exit.Signal != passed.Code && !f.broke() && f.ID != abort.ID && (f.At-abort.At).Abs() <= abortEcho
	}
	if f, ok := c.earliest(struck); ok {
		return c.onHost(f, struck)
	}
	return abort
}

// rivals are the ranks of which one was first, where f crashed and another host's ended by itself within a moment: an MPI library may crash over
// a rank that ended before, and hosts' clocks differ. None where f is the only one.
func (c *Case) rivals(f Fault) (ids idset.Set) {
	for _, g := range c.faults {
		if f.Event == Ended && f.struck() && f.Exit.Signal != job.SIGKILL && g.Event == Ended && g.Node != f.Node && !c.echoes(g) && g.At-f.At <= abortEcho {
			ids = ids.Union(idset.Of(f.Process.Rank, g.Process.Rank))
		}
	}
	return ids
}

// onHost is the first on f's host, by its clock, of those that are wanted; f is one of them.
func (c *Case) onHost(f Fault, want func(Fault) bool) Fault {
	same := c.of(func(g Fault) bool { return g.Node == f.Node && want(g) })
	return slices.MinFunc(same, func(a, b Fault) int { return cmp.Or(cmp.Compare(a.TimeNS, b.TimeNS), cmp.Compare(a.seq, b.seq)) })
}

// first is the earliest fault that has an effect of its own.
func (c *Case) first() (Fault, bool) {
	if f, ok := c.earliest(func(f Fault) bool { return f.Event != Signalled && f.Event != NotWired }); ok {
		return f, true
	}
	if f, ok := c.earliest(func(f Fault) bool { return f.Event == NotWired }); ok {
		return f, true
	}
	if c.Stopped {
		return c.earliest(func(f Fault) bool { return f.Event == Signalled })
	}
	return c.earliest(func(f Fault) bool { return f.Unread })
}

func (c *Case) of(want func(Fault) bool) []Fault {
	var out []Fault
	for _, f := range c.faults {
		if want(f) {
			out = append(out, f)
		}
	}
	return out
}

// earliest makes no list: an agent may add to the faults as fast as it sends, and they are looked at each time.
func (c *Case) earliest(want func(Fault) bool) (at Fault, ok bool) {
	for _, f := range c.faults {
		if want(f) && (!ok || cmp.Or(cmp.Compare(f.At, at.At), cmp.Compare(f.seq, at.seq)) < 0) {
			at, ok = f, true
		}
	}
	return at, ok
}

// signalled is the INT, QUIT or TERM that mpiup got, and passed on, before a fault.
func (c *Case) signalled(before Fault) (Fault, bool) {
	return c.earliest(func(f Fault) bool { return f.Event == Signalled && f.At <= before.At })
}

// interrupted says that a rank ended by itself after mpiup had passed a signal on: with whatever code, but by no other signal.
func (c *Case) interrupted(f Fault) (by Fault, ok bool) {
	by, ok = c.signalled(f)
	own := f.Event == Aborted || f.Event == Raised || f.Event == Ended && !f.broke() && !f.OOM && (!f.struck() || f.Exit.Signal == by.Code)
	return by, ok && own
}

// echoes says that a rank failed because it lost another, as far as it says: an MPI library aborts then. MPI_Init fails in whatever words where
// another rank, which is through it, ends before it has met all.
func (c *Case) echoes(f Fault) bool {
	said := c.found[f.ID]
	aborted := func(id int) bool {
		return slices.ContainsFunc(c.faults, func(g Fault) bool { return g.Event == Aborted && g.ID == id })
	}
	init := said.Kind == InitFailed && aborted(f.ID) && slices.ContainsFunc(c.faults, func(g Fault) bool {
		return g.Event == Ended && g.Exit.Signal == 0 && !g.broke() && !aborted(g.ID) && g.Process.Job == f.Process.Job && (g.At-f.At).Abs() <= abortEcho
	})
	return (init || said.Echo || said.Kind == PeerLost) && !f.struck() && !f.OOM
}

// struck says that a signal from elsewhere, or a crash, ended the rank.
func (f Fault) struck() bool {
	switch f.Exit.Signal {
	case 0, job.SIGABRT, job.SIGPIPE: // its libraries' own ways to end
		return false
	}
	return true
}

// blame is the rank that failed for a reason of its own, where first is one that lost its peer: one that a signal ended
// or that says what its reason is, else one that says nothing. It is first where there is none.
func (c *Case) blame(first Fault) Fault {
	if !c.echoes(first) {
		return first
	}
	spoke := func(f Fault) bool { _, ok := c.found[f.ID]; return ok }
	for _, want := range []func(Fault) bool{
		func(f Fault) bool {
			return f.Event == Raised || (f.Event == Ended || f.Event == Aborted) && (f.struck() || spoke(f) && !c.echoes(f))
		},
		func(f Fault) bool { return (f.Event == Ended || f.Event == Aborted) && !spoke(f) },
	} {
		if f, ok := c.earliest(want); ok {
			return f
		}
	}
	if f, ok := c.leaver(first); ok {
		return f
	}
	return c.waiter(first)
}

// waiter is who waited in vain, before first lost it: one whose words name another one comes first.
func (c *Case) waiter(first Fault) Fault {
	vain := func(f Fault) bool { return f.Event == Ended && c.found[f.ID].Vain }
	names := func(f Fault) bool { return vain(f) && c.found[f.ID].names() }
	switch f, ok := c.earliest(names); {
	case ok && !names(first):
		return f
	case !ok && !vain(first):
		if f, ok := c.earliest(vain); ok {
			return f
		}
	}
	return first
}

// Hear takes what ranks wrote of their failures into the case, when all output has come: words of the one that is guilty so far, and
// of all n processes where that one only says that it lost another. stopped is when the ranks were told to end; zero: they were not.
// about begins a fault of a process.
func (c *Case) Hear(n int, words func(id int) Said, stopped time.Time, about func(id int) Fault) {
	defer func() {
		if f, ok := c.Cause(); ok && !c.echoes(f) {
			c.Toll.hear(f, n, words, about)
		}
		c.compare(n, words, about)
	}()
	c.starve(words)
	f, ok := c.Cause()
	if ok && f.Event == TimedOut && f.Limit != RuleLimit && !stopped.IsZero() {
		c.hearMute(f.ID, n, words, stopped, about)
	}
	if !ok || f.Event != Ended && f.Event != Aborted {
		return
	}
	c.found = map[int]Finding{}
	if !c.hear(f.ID, f.Process.Rank, f.says(words)) || !c.echoes(f) {
		return
	}
	failed := map[int]bool{}
	for _, g := range c.of(func(g Fault) bool { return g.Event == Ended || g.Event == Aborted }) {
		failed[g.ID] = true
		c.hear(g.ID, g.Process.Rank, g.says(words))
	}
	if g := c.blame(f); g.ID != f.ID && !g.Left || stopped.IsZero() {
		return
	}
	for id := range n {
		said := words(id).before(stopped)
		if slices.ContainsFunc(c.well, func(g Fault) bool { return g.ID == id }) { // what it printed then, it caught
			said.Raised = slices.DeleteFunc(said.Raised, func(e Exception) bool { return e.Printed })
		}
		if failed[id] || !c.hear(id, about(id).Process.Rank, said) || c.found[id].Echo {
			continue
		}
		own := about(id)
		own.Event, own.At, own.seq, own.Code = Raised, f.At, -1, f.Status()
		c.faults = append(c.faults, own)
		return
	}
	g := c.found[c.blame(f).ID]
	for _, want := range []func(Finding) bool{Finding.names, func(f Finding) bool { return f.Vain }} {
		if want(g) {
			return
		}
		for id := range n { // which was stopped before its end came
			if !failed[id] && want(c.found[id]) {
				own := about(id)
				own.Event, own.At, own.seq, own.Code = Raised, f.At, -1, f.Status()
				c.faults = append(c.faults, own)
				return
			}
		}
	}
}

// unresolved is a line where the last words of all ranks are that a host's name has no address: they wait for nobody then, whoever
// of them has come to where they meet; "": not all say so.
func unresolved(n int, words func(id int) Said) (line string) {
	for id := range min(n, maxEchoes) {
		w := words(id)
		f, ok := Read(Said{Raised: w.Raised, Last: w.Last, After: w.After})
		if !ok || f.Kind != DNS {
			return ""
		}
		line = cmp.Or(line, f.Line)
	}
	return line
}

// hearMute names the one rank whose last words are an exception of its own, where a run hung and nothing tells that others wait for another one:
// mpi4py has a rank wait in MPI_Finalize for ever after those.
func (c *Case) hearMute(waited, n int, words func(id int) Said, stopped time.Time, about func(id int) Fault) {
	if line := unresolved(n, words); line != "" && c.sure != Certain {
		c.Waited(Fault{ID: -1, Node: -1}, "", false)
		c.limited, c.sure, c.Absent, c.Holdup = DNS, "", nil, []string{"all ranks say that a name has no address: " + line}
		return
	}
	who, last := -1, Finding{}
	for id := range n {
		said := words(id)
		f, ok := Read(said.before(stopped))
		if !ok || !said.Mute || f.Echo {
			continue
		}
		if who >= 0 {
			return
		}
		who, last = id, f
	}
	if who < 0 || c.sure != "" && waited != who {
		return
	}
	own := about(who)
	if c.limited = last.Kind; c.sure == "" {
		c.Waited(own, "", false)
	}
	why := fmt.Sprintf("%s on %s is probably the one that others wait for: it has said nothing since %s", own.Process, own.Host, last.Line)
	c.Holdup = append([]string{why}, c.Holdup...)
}

// says is what the process of a fault wrote, and the code that it ended with.
func (f Fault) says(words func(id int) Said) Said {
	said := words(f.ID)
	if f.Event == Ended && f.Exit.Signal == 0 {
		said.Code = f.Exit.Status()
	}
	if f.Event == Ended && f.Exit.Signal == job.SIGINT { // by which Python ends itself after a KeyboardInterrupt
		said = Said{Raised: said.Raised, Mute: said.Mute, After: said.After}
		if n := len(said.Raised); n > 0 && !strings.HasPrefix(said.Raised[n-1].Text, "KeyboardInterrupt") {
			said.Raised = nil
		}
	}
	return said
}

// hear reads what one process said, and keeps what it found.
func (c *Case) hear(id, rank int, said Said) bool {
	f, ok := Read(said)
	if ok {
		f.Echo = f.Echo || f.elsewhere(rank)
		c.found[id] = f
	}
	return ok
}

// before is the exceptions that came before a time: when lines came is not known.
func (s Said) before(t time.Time) (early Said) {
	early.After = s.After
	for _, e := range s.Raised {
		if e.At.Before(t) {
			early.Raised = append(early.Raised, e)
		}
	}
	return early
}

// Ranks that say that they lost another one know seldom which. Where nothing else tells, a rank that had just ended with 0 is probably it.
//
//	rank 2 exits with 0 ─▶ rank 0: "Connection reset by peer", exits with 1 ─▶ rank 2 left before the others were done
//	nobody has ended    ─▶ rank 0: "Connection reset by peer", exits with 1 ─▶ nobody is named; rank 0 only reports

const (
	maxWell = 256              // ranks that are kept
	leaving = 10 * time.Second // others that needed a rank fail so soon after its end, on a busy machine too
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
	if c.found[f.ID].Kind == CollectiveMismatch && f.speaks() { // which either side may see
		return idset.Of(f.Process.Rank)
	}
	if f.Left || f.Event != Ended && f.Event != Aborted || !c.echoes(f) || len(c.absent(f)) > 0 {
		return ids
	}
	if _, _, device := c.broken(f); device { // which is why
		return ids
	}
	for _, g := range c.faults {
		if (g.Event == Ended || g.Event == Aborted) && g.Process.Job == f.Process.Job && c.echoes(g) {
			ids.Add(g.Process.Rank)
		}
	}
	if f.Event == Ended && ids.Len() == 1 && c.found[f.ID].Loose && !c.looked(f) {
		return idset.Set{}
	}
	return ids
}

// losesNone says that a rank says in a line among others that it lost another one, and no other has failed: it may have lost a server.
func (c *Case) losesNone(id int) bool {
	said := c.found[id]
	failed := func(g Fault) bool {
		return g.ID != id && (g.Event == Ended || g.Event == Aborted || g.Event == HostLost)
	}
	return said.Loose && said.Echo && !slices.ContainsFunc(c.faults, failed)
}
