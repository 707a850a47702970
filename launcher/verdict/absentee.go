package verdict

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// echo says that a kind tells of others' failure only. A watchdog of NCCL ends its rank with an error that may say no more.
func echo(k Kind) bool { return k == NCCL || Of(k).Weight == Echo }

// LostAnother says that the rank tells of another's failure only, which may have been a rank of another launcher's.
func (v *Verdict) LostAnother() bool { return echo(v.Kind) }

// blame makes the one rank that was absent the verdict's.
func (v *Verdict) blame(list []job.Absentee) {
	v.Absent = list
	if ids, own := absentees(list); len(list) > 1 && own {
		v.Ranks = ids.String()
		v.Rank, v.Job, v.Host, v.Node, v.PID, v.Signal, v.Stderr = nil, 0, "", "", 0, "", nil
	}
	if len(list) != 1 || !list[0].Own {
		return
	}
	a := list[0]
	v.Rank, v.Job, v.Host, v.PID, v.Signal, v.Stderr = &a.Rank, 0, a.Host, a.PID, "", nil
}

// absentees are those by number; own: the job counts all of them as torch does.
func absentees(list []job.Absentee) (ids idset.Set, own bool) {
	own = true
	for _, a := range list {
		own = own && a.Own
		ids.Add(a.Rank)
	}
	return ids, own
}

// absentSentences name them one by one, or as a set where they are many.
func absentSentences(list []job.Absentee) (lines []string) {
	const most = 4
	ids, own := absentees(list)
	if len(list) > most {
		whose := ""
		if !own {
			whose = "torch's "
		}
		return []string{fmt.Sprintf("%sranks %s are the odd ones out: they are absent from a collective; of %s: %s", whose, ids, list[0].Name, list[0].Why)}
	}
	for _, a := range list {
		lines = append(lines, a.Sentence())
	}
	return lines
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
func onlyReport(ids idset.Set, said Finding) string {
	if !said.Of.Empty() {
		verb := map[bool]string{false: "say", true: "says"}[ids.Len() == 1]
		return fmt.Sprintf("%s only %s that %s failed, of which nothing else is known", ids.Named("rank"), verb, said.Of.Named("rank"))
	}
	text := map[bool]string{false: " only say that they lost another one", true: " only says that it lost another one"}[ids.Len() == 1]
	if said.Kind == CollectiveMismatch {
		text = " saw that another one is at odds with it, or it with that one"
	}
	return ids.Named("rank") + text + ", and nothing tells which"
}
