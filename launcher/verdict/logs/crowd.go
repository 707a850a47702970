package logs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// crowd is what is known of all processes of a job together.
type crowd struct {
	alike []verdict.Kind // what other processes say, too, by Open MPI's count of help texts
	given int            // how many the launcher was to start, as a command in the log says; 0: none does
	said  string         // the last line that only a process that is alone writes, or that wants more of them
	times int            // how often it came, whatever its numbers
	mixed []int          // ranks whose tags stand in one line
	faint *finding       // the latest line that sounds like a failure, which no sign knows
	dumps []int          // processes whose stacks Open MPI has written
	twins pattern.Twins  // what several said of this file, each with its number
}

var numbers = map[string]int{"one": 1, "two": 2, "three": 3, "four": 4}

// helps are the last words of the names of Open MPI's help texts about the end of a process ("unreachable proc").
var helps = map[string]verdict.Kind{"mpi_init:startup:internal-failure": verdict.InitFailed, "mpi_errors_are_fatal": verdict.MPIError,
	"proc": verdict.InitFailed, "mpi-abort": verdict.Abort, "shmem-abort": verdict.Abort,
	"orterun:executable-not-found": verdict.ProgramNotFound, "prun:executable-not-found": verdict.ProgramNotFound}

// see takes a line into account.
func (c *crowd) see(l line, at int) {
	c.twins.See(at, l.text, max(l.who.rank, l.label-1))
	if _, help, sent := strings.Cut(l.text, "sent help message help-"); sent && len(c.alike) < maxFound {
		c.alike = append(c.alike, helps[help[strings.LastIndex(help, " ")+1:]])
	}
	if strings.HasSuffix(l.text, " total processes failed to start") && len(c.alike) < maxFound {
		c.alike = append(c.alike, verdict.ProgramNotFound, verdict.NotAllowed)
	}
	if has(l.text, "dump") && l.who.pid > 0 && !slices.Contains(c.dumps, l.who.pid) && len(c.dumps) < 2 {
		c.dumps = append(c.dumps, l.who.pid)
	}
	if m := mixed().Find(l.text); m != nil && len(c.mixed) < maxFound {
		c.mixed = append(c.mixed, l.who.rank, number(m[1]), number(m[2]))
	}
	if m := command().Find(l.text); m != nil {
		c.given, c.said, c.times = number(m[1]), "", 0
	}
}

// tells is what a line says of a job whose processes do not know of each other; nil: nothing.
func (c *crowd) tells(text string) *finding {
	f := finding{kind: verdict.Mismatch, weight: verdict.Wait, likely: true, general: true, who: ending{rank: -1}}
	enough := 3
	switch m := wants().Find(text); {
	case m != nil:
		wanted := strings.Join(m[1:], "") // one of the patterns has matched
		k := cmp.Or(numbers[strings.ToLower(wanted)], number(wanted))
		if c.again(text) < 2 && c.given < max(k, 2) {
			f.kind, f.weight = verdict.Usage, verdict.Echo
		}
		return &f
	case !alone().Match(text) || grouped().MatchString(text) || c.given == 1:
		return nil
	case c.given > 1:
		enough = 2
	}
	if c.again(text) < enough {
		return nil
	}
	return &f
}

// again counts how often processes wrote a line, each its own.
func (c *crowd) again(text string) int {
	if pattern.Alike(text) != pattern.Alike(c.said) {
		c.times = 0
	}
	c.said, c.times = text, c.times+1
	return c.times
}
