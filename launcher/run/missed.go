package run

import (
	"slices"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// files are questions for files that ranks have missed, to hosts whose own ranks have not: a file that is there tells that the failure is one
// host's. They are asked while the ranks are being ended, and nobody is kept from ending for them but the session of a host that is asked.
//
//	rank ends: "No such file or directory: '/data/x'" ──Missed──▶ AskWaits{files} to other hosts ──Waits{files}──▶ verdict.FileOn
type files struct {
	asked map[uint64]missing // by the question's number
	open  map[int]int        // questions that a host has not answered
}

// missing is a file that a process has missed.
type missing struct {
	id    int
	hosts []int // that have not answered
}

const (
	firstFile  = 1 << 62         // questions' numbers begin here, above all others
	maxMissed  = 4               // questions of a run
	maxAsked   = 16              // hosts of a question
	filesBound = 2 * time.Second // for all hosts together
)

// onMissed asks other hosts for a file that a rank has missed which failed.
func (r *Run) onMissed(e Missed) {
	f, failed := r.verdict.Cause()
	if !failed || f.ID != e.ID || len(r.files.asked) >= maxMissed {
		return
	}
	own := r.who.HostOf(e.ID)
	q := missing{id: e.ID}
	number := uint64(firstFile + len(r.files.asked))
	for _, h := range r.live() {
		if h == own || r.hosts[h].state.told() || len(q.hosts) >= maxAsked {
			continue
		}
		q.hosts = append(q.hosts, h)
		r.send(h, (&apiv1.AskWaits{Id: number, Files: []string{e.Path}}).Frame())
	}
	if len(q.hosts) == 0 {
		return
	}
	if r.files.asked == nil {
		r.files.asked, r.files.open = map[uint64]missing{}, map[int]int{}
	}
	r.files.asked[number] = q
	for _, h := range q.hosts {
		r.files.open[h]++
	}
	r.set(Files, filesBound)
}

// onFiles takes a host's answer; false: it is none to such a question.
func (r *Run) onFiles(h int, m *apiv1.Waits) bool {
	if m.Id < firstFile {
		return false
	}
	q := r.files.asked[m.Id]
	at := slices.Index(q.hosts, h)
	if at < 0 {
		return true // too late, or nobody has asked it
	}
	q.hosts = slices.Delete(slices.Clone(q.hosts), at, at+1)
	r.files.asked[m.Id] = q
	r.files.open[h]--
	if len(m.Files) == 1 && m.Files[0] != apiv1.Presence_PRESENCE_UNKNOWN { // agents of older builds say nothing of files
		r.verdict.FileOn(q.id, r.hosts[h].Name, m.Files[0] == apiv1.Presence_PRESENCE_THERE)
	}
	return true
}

// filesLate waits for answers no longer.
func (r *Run) filesLate() {
	asked := r.files.open
	r.files.open = map[int]int{}
	for number, q := range r.files.asked {
		r.files.asked[number] = missing{id: q.id}
	}
	for h, n := range asked {
		if n > 0 {
			r.idle(h)
		}
	}
}

// startOf is with what a process was started.
func startOf(path, venv string) verdict.Start {
	const most = 4096
	return verdict.Start{Path: path[:min(len(path), most)], Venv: venv[:min(len(venv), most)]}
}
