package logs

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// behind is what explains a finding, else that one.
func (all *findings) behind(f *finding, named *ending) *finding {
	list := all.lacked(f)
	if len(list) == 0 {
		list = all.explain(f, named)
	}
	if len(list) == 0 {
		list = all.reasons(f)
	}
	if len(list) == 0 {
		return f
	}
	return slices.MinFunc(list, compare)
}

// lacked is what tells that memory lacked, for which a process was killed, or which it used all the same.
func (all *findings) lacked(f *finding) []*finding {
	fits := func(g *finding) bool {
		used := (f.kind == verdict.Crash || f.kind == verdict.Segfault) && g.leads(f, before)
		return g.kind == verdict.OutOfMemory && !g.weak && g.file == f.file && (used && !g.warns || f.shot() || f.killed() && g.warns)
	}
	return append(all.of(verdict.Cause, fits), all.of(verdict.Wait, fits)...)
}

// explain is what explains a finding of its kind: a GPU that failed what CUDA says, a call of MPI that failed the crash after it, and what ended a
// job the end of those that were left. named is whom a launcher names as the first that failed; nil: nobody.
func (all *findings) explain(f *finding, named *ending) []*finding {
	code := hydraCode().FindStringSubmatch(f.line) // which MPI_Abort may have been told, and is no signal's
	switch {
	case f.kind == verdict.GPUError:
		return all.firm(verdict.Cause, func(g *finding) bool { return g.kind == verdict.GPUFault })
	case f.kind == verdict.NCCL, f.kind == verdict.MPIError && (f.weight == verdict.Ending || f.likely): // which a fabric's or peer's failure explains
		return all.firm(verdict.Echo, func(g *finding) bool {
			return g.kind == verdict.FabricError && g.upTo(f, before) || f.kind == verdict.MPIError && g.kind == verdict.PeerLost && !g.general && g.upTo(f, after)
		})
	case f.kind == verdict.NoFinalize: // as Open MPI says of any end
		return append(all.firm(verdict.Ending, func(g *finding) bool { return g.kind == verdict.Abort && !g.likely }),
			all.firm(verdict.Echo, func(g *finding) bool { return g.kind == verdict.FabricError })...)
	case f.killed(), f.kind == verdict.Terminated: // by the batch system, of which another line tells why
		return all.firm(verdict.Ending, func(g *finding) bool {
			pals := g.kind == verdict.ExitCode && strings.Contains(f.line, "died from signal") // which kills all others
			return pals || is(g.kind, "kills") && !g.likely && precedes(g, f) || g.kind == verdict.TimeOut && g.upTo(f, after) || f.late(g)
		})
	case f.kind == verdict.Abort: // by its own handler of a signal that somebody sent
		return all.of(verdict.Echo, func(g *finding) bool { return g.kind == verdict.Killed && g.leads(f, after) })
	case f.kind == verdict.Crash || f.kind == verdict.Segfault:
		list := all.firm(verdict.Program, func(g *finding) bool {
			return (g.kind == verdict.MPIError || g.kind == verdict.InitFailed) && g.lane == f.lane && g.leads(f, after)
		})
		return append(list, all.firm(verdict.Ending, func(g *finding) bool { // which calls abort(), in some MPI; or mpiexec itself crashed, at last
			given := code != nil && strings.Contains(g.line, " "+code[1]) || f.who.rank < 0 && named != nil
			return g.kind == verdict.Abort && (given && precedes(g, f) || has(f.line, "aborts") && strings.Contains(g.line, "MPI_Abort") && g.upTo(f, before))
		})...)
	}
	return nil
}

// reasons are what tells why a process ended, of an end that does not: who waited for another, or lost it, and what it complained of.
func (all *findings) reasons(f *finding) []*finding {
	var list []*finding
	if f.kind == verdict.Crash { // a library's that aborts by itself
		list = all.firm(verdict.Echo, func(g *finding) bool { return g.kind == verdict.FabricError && g.leads(f, 5*after) }) // with two stacks of it
	}
	if f.weight != verdict.Ending {
		return list
	}
	if len(list) == 0 && (f.kind == verdict.Crash || f.kind == verdict.ExitCode || f.kind == verdict.Killed || f.likely) {
		list = all.of(verdict.Wait, func(g *finding) bool {
			what := f.kind == verdict.Crash && g.number-f.number == 1 // of the exception that ended a program of C++
			return !g.weak && (g.general && g.kind != f.kind && g.upTo(f, before) || !g.general && g.file == f.file && (what || g.upTo(f, 0)))
		})
	}
	if f.kind != verdict.ExitCode || len(list) > 0 {
		return list
	}
	list = all.of(verdict.Echo, func(g *finding) bool {
		return g.general && g.kind != verdict.MPIError && is(g.kind, "complains") && g.leads(f, 2*after)
	})
	if len(list) == 0 && f.near != nil && f.near.leads(f, after) {
		list = append(list, f.near)
	}
	return list
}

// earlier is another rank's own exception that came before a finding, else that one: what came first is the cause, however plain its words.
func (all *findings) earlier(f *finding) *finding {
	list := all.firm(verdict.Program, func(g *finding) bool {
		other := g.who.rank != f.who.rank || f.killed() && g.lane.rank < 0 // as a launcher kills those that are left
		return !g.likely && (g.kind == verdict.Python || g.kind == verdict.Crash) && other && precedes(g, f)
	})
	if len(list) == 0 {
		return f
	}
	return slices.MinFunc(list, compare)
}

// late says that the batch system or a launcher had ended the whole job of a finding, as another one tells.
func (f *finding) late(g *finding) bool { return g.file == f.file && has(g.line, "late") }
