// Package mixture gathers which MPI library each program of a job loads on each host, and judges whether their
// ranks can talk to each other.
//
//	places (host, program) ──Add: what an agent chose──▶ answers ──all are there──▶ Judge
//	                       ──Drop: the host is gone───┘                              │
//	                          fine: start │ doubtful: start, with a warning │ hopeless: do not
//
// PURE: a Job holds one job. What agents say may be anything: it is bounded, and only told.
//
// It does not know what a program that names no library needs; such a program is never in the way.
package mixture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// place is a program of the job on a host of the run, both by index.
type place struct{ host, app int }

// Host is a host as it is told of.
type Host struct {
	Index int
	Name  string
}

// Answer is what agents of some hosts have chosen for a program.
type Answer struct {
	App          int
	Protocol     job.Protocol
	Library, Why string // "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"; "": none was found
	Sure         bool   // the program surely loads it
	Hosts        []Host
}

// Job is one job's programs. New makes one.
type Job struct {
	programs []string
	pending  map[place]bool
	left     []int // places that are pending, by program
	answers  []*Answer
}

// New expects an answer of each host for each of its programs.
func New(programs []string, of *model.Job) *Job {
	j := &Job{programs: programs, pending: map[place]bool{}, left: make([]int, len(programs))}
	for _, at := range of.Plan.Placements {
		if p := (place{of.Hosts[at.Host], at.App}); !j.pending[p] {
			j.pending[p] = true
			j.left[p.app]++
		}
	}
	return j
}

// maxText bounds a text of an agent, in bytes.
const maxText = 512

// Add takes a host's answer; last says that it was the last one for its program. One that is not expected is an error.
func (j *Job) Add(h Host, a Answer) (last bool, err error) {
	p := place{h.Index, a.App}
	if !j.pending[p] {
		return false, fmt.Errorf("chose a protocol for program %d, which it has not or has chosen for already", a.App)
	}
	j.remove(p)
	a.Library, a.Why, a.Hosts = clip(a.Library), clip(a.Why), nil
	i := slices.IndexFunc(j.answers, func(b *Answer) bool {
		return a.App == b.App && a.Protocol == b.Protocol && a.Library == b.Library && a.Why == b.Why && a.Sure == b.Sure
	})
	if i < 0 {
		i = len(j.answers)
		j.answers = append(j.answers, &a)
	}
	j.answers[i].Hosts = append(j.answers[i].Hosts, h)
	return j.left[p.app] == 0, nil
}

func (j *Job) remove(p place) {
	delete(j.pending, p)
	j.left[p.app]--
}

// Drop expects nothing more of a host.
func (j *Job) Drop(host int) {
	for p := range j.pending {
		if p.host == host {
			j.remove(p)
		}
	}
}

// Complete says that no answer is missing.
func (j *Job) Complete() bool { return len(j.pending) == 0 }

// First is the first answer for a program.
func (j *Job) First(app int) (Answer, bool) {
	for _, a := range j.answers {
		if a.App == app {
			return *a, true
		}
	}
	return Answer{}, false
}

// Lines says what was chosen for a program and why, one line for each distinct answer.
func (j *Job) Lines(app int) (lines []string) {
	for _, a := range j.answers {
		if a.App == app {
			lines = append(lines, fmt.Sprintf("%s: %s: %s, since %s", hostNames(a.Hosts), j.programs[app], a.Protocol, a.Why))
		}
	}
	return lines
}

func clip(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return s
}

// hostNames names hosts in their order: "host w0", "hosts w0, w1, w2, w3 and 5 more".
func hostNames(hosts []Host) string {
	hosts = slices.SortedFunc(slices.Values(hosts), func(a, b Host) int { return a.Index - b.Index })
	hosts = slices.Compact(hosts)
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	if len(names) == 1 {
		return "host " + names[0]
	}
	return "hosts " + visible.Few(names, 4, ", ")
}
