package verdict

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/idset"
)

// Absentee is a rank that is absent from a collective operation in which others wait, as their flight recorders have it
// (launcher/hang).
type Absentee struct {
	Rank int    `json:"rank"` // of the job where Own, else torch's
	Own  bool   `json:"-"`    // the job counts its ranks as torch does
	Name string `json:"name"` // "rank 2", "torch's rank 2"
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	Why  string `json:"why"` // "it has not called nccl:all_reduce number 4 of group ..."
}

// Sentence names the rank, its host and pid, and what it has not done.
func (a Absentee) Sentence() string {
	text := a.Name
	if a.Host != "" {
		text += " on " + a.Host
	}
	if a.PID > 0 {
		text += fmt.Sprintf(" (pid %d)", a.PID)
	}
	return text + " is the odd one out: " + a.Why
}

// echo says that a kind tells of others' failure only. A watchdog of NCCL ends its rank with an error that may say no more.
func echo(k Kind) bool { return k == NCCL || Of(k).Weight == Echo }

// blame makes the one rank that was absent the verdict's.
func (v *Verdict) blame(list []Absentee) {
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
func absentees(list []Absentee) (ids idset.Set, own bool) {
	own = true
	for _, a := range list {
		own = own && a.Own
		ids.Add(a.Rank)
	}
	return ids, own
}

// absentSentences name them one by one, or as a set where they are many.
func absentSentences(list []Absentee) (lines []string) {
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
func onlyReport(ids idset.Set, k Kind) string {
	text := map[bool]string{false: " only say that they lost another one", true: " only says that it lost another one"}[ids.Len() == 1]
	if k == CollectiveMismatch {
		text = " saw that another one is at odds with it, or it with that one"
	}
	return ids.Named("rank") + text + ", and nothing tells which"
}
