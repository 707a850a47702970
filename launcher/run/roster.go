package run

import (
	"fmt"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/mixture"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/spawn"
)

// roster is the hosts, jobs and processes of a run, and the state of each.
type roster struct {
	who model.Roster

	job   jobState
	hosts []*host
	jobs  []*jobRun
	ranks []process // by id
}

// host is what is known of one host's processes.
type host struct {
	model.Host
	state   hostState
	created int         // processes not heard of yet
	running int         // processes that run
	outputs int         // processes whose output has not ended
	missed  bool        // it was lost, and the run goes on without it
	lost    *model.Lost // nil: it was not

	taken idset.Set // processes that its agent ended without being told to
}

// move moves the host; false where the table has no such move.
func (h *host) move(e hostEvent) (moved bool) {
	h.state, moved = h.state.next(e)
	return moved
}

// process is what is known of one.
type process struct {
	state  rankState
	output bool          // its output has begun and not ended
	wanted bool          // another process has it ended: that is no failure
	mute   time.Duration // Clock time when it ended with 0 and had never spoken to its agent; 0: it has not
	pid    int32
}

// jobRun is one job of a run: the command line's, or one that a rank spawned.
type jobRun struct {
	*model.Job
	apps     []job.App
	exports  [][]string // by app: the environment that jobs it spawns begin with
	asked    *spawn.Ask // nil: the command line's
	told     *apiv1.Job
	silent   int                    // processes whose start was not heard of
	left     int                    // processes that are not over
	protocol map[place]job.Protocol // that hosts have chosen for its programs
	chosen   bool                   // agents have said which MPI libraries its programs may load, and the protocol is theirs to choose
	usesMPI  bool                   // one of them is MPI's, and no guess: its ranks wire up (uses)
	spoke    bool                   // one of them has spoken PMI or PMIx
	mixture  *mixture.Job           // what its agents say of MPI libraries; nil: nothing yet
	waiting  []int                  // hosts, by index, whose agents wait for our word on that
	warned   bool                   // that they may not go together
	dropped  bool                   // one of it could not be started: what did start is ended, and fails nobody
}

// place is a program of a job on a host.
type place struct{ host, app int }

// over says that no process of a spawned job is left.
func (j *jobRun) over() bool { return j.asked != nil && j.left == 0 }

// program is a program of the job as it is told of.
func (j *jobRun) program(app int) string {
	if j.Number > 0 {
		return fmt.Sprintf("%s of spawned job %d", j.apps[app].Argv[0], j.Number)
	}
	return j.apps[app].Argv[0]
}

// add gives a job its number and ids, on hosts of the run.
func (r *roster) add(j *jobRun, plan *job.Plan, hosts []int) {
	r.who = r.who.Grow(plan, hosts)
	j.Job = r.who.Job(r.who.Jobs() - 1)
	j.silent, j.left = j.Size(), j.Size()
	for _, p := range plan.Placements {
		r.hosts[hosts[p.Host]].created++
	}
	r.jobs, r.ranks = append(r.jobs, j), append(r.ranks, make([]process, j.Size())...)
}

// running are the processes that run.
func (r *roster) running() (ids idset.Set) {
	for id := range r.ranks {
		if r.ranks[id].state == rankRunning {
			ids.Add(id)
		}
	}
	return ids
}

// jobOf is the job of a process.
func (r *roster) jobOf(id int) *jobRun { return r.jobs[r.who.Process(id).Job] }

// rankName is how users know a process.
func (r *roster) rankName(id int) string { return r.who.Process(id).String() }

// where is a process with its host, as users find it.
func (r *roster) where(id int) string {
	return fmt.Sprintf("%s (%s, pid %d)", r.rankName(id), r.hosts[r.who.HostOf(id)].Name, r.ranks[id].pid)
}

// excused says that a process's end is nobody's failure.
func (r *roster) excused(id int) bool { return r.ranks[id].wanted || r.jobOf(id).dropped }

// busy says that something is still to come of the host.
func (r *roster) busy(h int) bool {
	s := r.hosts[h]
	return s.created+s.running+s.outputs > 0 || s.state.dropped()
}

// live are the hosts that still take frames.
func (r *roster) live() (list []int) {
	for h, host := range r.hosts {
		if host.state.open() {
			list = append(list, h)
		}
	}
	return list
}

// maxNamed is how many jobs' processes are named in one line.
const maxNamed = 5

// ranksOn names a host's processes, "ranks 8-15 and rank 0 of spawned job 1": those of jobs of which
// something is left there, else all.
func (r *roster) ranksOn(h int) string {
	var all, left idset.Set
	for _, j := range r.jobs {
		var s idset.Set
		over := true
		first, end := j.IDs()
		for id := first; id < end; id++ {
			if r.who.HostOf(id) == h {
				s.Add(id)
				over = over && r.ranks[id].state.over()
			}
		}
		all = all.Union(s)
		if !over {
			left = left.Union(s)
		}
	}
	if left.Empty() {
		return r.named(all)
	}
	return r.named(left)
}

// named is processes as users know them.
func (r *roster) named(ids idset.Set) string {
	of := make([]idset.Set, r.who.Jobs())
	for id := range ids.All() {
		p := r.who.Process(id)
		of[p.Job].Add(p.Rank)
	}
	var parts []string
	for number, s := range of {
		if s.Empty() {
			continue
		}
		if len(parts) == maxNamed {
			parts = append(parts, "others")
			break
		}
		name := s.Named("rank")
		if number > 0 {
			name += fmt.Sprintf(" of spawned job %d", number)
		}
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		return "no ranks"
	}
	return strings.Join(parts, " and ")
}

// left is those of the processes that a frame names which are not over.
func (r *roster) left(targets string) (left idset.Set, err error) {
	ids, err := idset.Within(targets, len(r.ranks))
	if err != nil {
		return left, fmt.Errorf("processes that are to get a signal, of %d that there are: %w", len(r.ranks), err)
	}
	for id := range ids.All() {
		if !r.ranks[id].state.over() {
			left.Add(id)
		}
	}
	return left, nil
}

// speaks is what a process speaks with its agent, as its host has said; false: it has not said so.
func (r *roster) speaks(id int) (job.Protocol, bool) {
	p, told := r.jobOf(id).protocol[place{r.who.HostOf(id), r.who.Placed(id).App}]
	return p, told
}

// takenOn is the CPUs of each process that is bound on a host and has not ended.
func (r *roster) takenOn(host int) (taken []idset.Set) {
	for id := range r.ranks {
		if cpus := r.who.Placed(id).CPUs; !cpus.Empty() && r.who.HostOf(id) == host && !r.ranks[id].state.over() {
			taken = append(taken, cpus)
		}
	}
	return taken
}

// mixtureOf is what the agents say of a job's libraries.
func (r *roster) mixtureOf(j *jobRun) *mixture.Job {
	if j.mixture != nil {
		return j.mixture
	}
	var programs []string
	for i := range j.apps {
		programs = append(programs, j.program(i))
	}
	j.mixture = mixture.New(programs, j.Job)
	for h, s := range r.hosts {
		if s.state.finished() {
			j.mixture.Drop(h)
		}
	}
	return j.mixture
}

// shared is what all parts of a run have in common.
type shared struct {
	*orders
	*roster
}
