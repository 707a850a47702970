package verdict

import (
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// Look is what was seen of the ranks that ran still when one of them had failed since it waited in vain. Nobody is away by another's word: each
// of those was looked at on its own host. The zero value: nobody was looked at.
type Look struct {
	Away   []job.Absentee // who was elsewhere, and where
	Lines  []string       // what else is to be said
	Found  bool           // somebody was elsewhere, in Away or, where it is most, in Lines
	Differ bool           // ranks were in different collectives
}

// adviceAway is what to do where a rank was elsewhere.
const adviceAway = "see why it was there while the others waited; a longer time-out helps where one rank saves or evaluates alone"

// looked says that a fault is one of those that the look was for.
func (c *Case) looked(f Fault) bool {
	return len(c.Look.Away)+len(c.Look.Lines) > 0 && f.Event != TimedOut && (c.found[f.ID].Vain || c.echoes(f))
}

// Mixed notes that a time limit struck ranks that wait in different collectives for each other.
func (c *Case) Mixed() { c.limited = CollectiveMismatch }

// MayWait says that nothing has happened but that ranks ended by themselves, with a code or as their libraries end them (SIGABRT), so that their words
// may be asked first whether they waited for another one. A death by a signal, a lost host or a limit ends the run at once.
func (c *Case) MayWait() bool {
	for _, f := range c.faults {
		own := f.Event == Ended && !f.broke() && !f.OOM && !f.Command && !f.Uncalled && (f.Exit.Signal == 0 || f.Exit.Signal == job.SIGABRT)
		if !own && f.Event != NotWired {
			return false
		}
	}
	return len(c.faults) > 0
}

// Words by which a library names those that it waited for, by its own numbers:
//   - torch/csrc/distributed/c10d/ProcessGroupGloo.cpp (1.8 to 2.15): "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms", "Ranks 1, 2 failed ..."
//   - xla/tsl/distributed_runtime/coordination/coordination_service.cc (JAX 0.4 to 0.10): "Some timed out task names: /job:jax_worker/replica:0/task:1"
var (
	notPassed = pattern.Of(`\bRanks? (\d+(?:, ?\d+)*) failed to pass monitoredBarrier`)
	notThere  = pattern.Of(`timed out task names:((?:\s*[\w/:]*task:\d+,?)+)`)
	aNumber   = pattern.Of(`\d+`)
	aTask     = pattern.Of(`task:\d+`)
)

// Named are the ranks that a rank's words say it waited for in vain, of so many: one rank's word about others. Empty: it names none.
func Named(text string, size int) (ids idset.Set) {
	var list []string
	if m := notPassed().FindStringSubmatch(text); m != nil {
		list = aNumber().FindAllString(m[1], -1)
	} else if m := notThere().FindStringSubmatch(text); m != nil {
		list = aTask().FindAllString(m[1], -1)
	}
	for _, n := range list {
		if id, err := strconv.Atoi(strings.TrimPrefix(n, "task:")); err == nil && id < size {
			ids.Add(id)
		}
	}
	return ids
}

// names says that its words name a rank that it waited for.
func (f Finding) names() bool { return f.Vain && !Named(f.Line, 1<<20).Empty() }
