// Package model says who is where in a run: the one table of it that the launcher has. PURE.
//
// Hosts have an index and processes an id that stay theirs; both only ever grow. A host that was let go and is reached anew is a new
// one. The first job's processes come first, and those of jobs that ranks spawned follow:
//
//	hosts   0: w0   1: w1   2: w0 again, reached anew after it was let go
//	ids     0 1 2 3 | 4 5   the first job's ranks, then those of jobs that ranks spawned
//	job     0       | 1
//	host    0 0 1 1 | 1 2
//
// Concurrency: a Roster is a value that does not change. One goroutine makes the next from the last (Join, Grow); any goroutine may read
// one that it was handed, also while the next is made.
//
// It does not know what hosts and processes do, nor what hosts are called.
package model

import (
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// Roster is the hosts and processes of a run, by their numbers. The zero value has none.
type Roster struct {
	hosts int
	host  []int32 // by id
	jobs  []*Job
}

// Job is where the ranks of one job are. It does not change.
type Job struct {
	Number   int // 0: the command line's
	Base     int // id of its rank 0
	Plan     *job.Plan
	Hosts    []int     // index in the run of each of Plan.Hosts
	Programs []Program // by index in the job's programs
}

// Program is where the ranks of one program are.
type Program struct {
	Ranks idset.Set
	Hosts int // that have any
	Most  int // ranks on one host
}

// Size is how many ranks the job has.
func (j *Job) Size() int { return len(j.Plan.Placements) }

// IDs are those of its ranks, from the first to before end.
func (j *Job) IDs() (first, end int) { return j.Base, j.Base + j.Size() }

// programs looks the programs of a plan up.
func programs(plan *job.Plan) (list []Program) {
	var on []map[int]int // ranks on each host, by program
	for rank, p := range plan.Placements {
		for len(list) <= p.App {
			list, on = append(list, Program{}), append(on, map[int]int{})
		}
		of := &list[p.App]
		of.Ranks.Add(rank)
		on[p.App][p.Host]++
		of.Hosts, of.Most = len(on[p.App]), max(of.Most, on[p.App][p.Host])
	}
	return list
}

// Join is the roster with one more host, whose index is the last.
func (r Roster) Join() Roster {
	r.hosts++
	return r
}

// Grow is the roster with one more job, whose hosts have these indexes in the run. Its ranks get the next ids. Of a roster it may be called once.
func (r Roster) Grow(plan *job.Plan, hosts []int) Roster {
	j := &Job{Number: len(r.jobs), Base: len(r.host), Plan: plan, Hosts: hosts, Programs: programs(plan)}
	r.jobs = append(r.jobs, j) // beyond what older values see, as below
	for _, p := range plan.Placements {
		r.host = append(r.host, int32(hosts[p.Host]))
	}
	return r
}

// Hosts is how many hosts there are or were.
func (r Roster) Hosts() int { return r.hosts }

// Processes is how many processes there are or were: ids are below it, and the next job's begin there.
func (r Roster) Processes() int { return len(r.host) }

// Jobs is how many jobs there are or were, and the number of the next.
func (r Roster) Jobs() int { return len(r.jobs) }

// Job is a job by its number, which must be one.
func (r Roster) Job(number int) *Job { return r.jobs[number] }

// HostOf is the host of a process, -1 if there is none such.
func (r Roster) HostOf(id int) int {
	if id < 0 || id >= len(r.host) {
		return -1
	}
	return int(r.host[id])
}

// Owns says that a process is on that host, with an id from a frame.
func (r Roster) Owns(host int, id uint32) bool {
	return int64(id) < int64(len(r.host)) && int(r.host[id]) == host
}

// Process is a process's job and rank. The id must be one.
func (r Roster) Process(id int) job.Process {
	number, same := slices.BinarySearchFunc(r.jobs, id, func(j *Job, id int) int { return j.Base - id })
	if !same {
		number--
	}
	return job.Process{Job: number, Rank: id - r.jobs[number].Base}
}

// ID is the id of a rank of a job that there is.
func (r Roster) ID(p job.Process) int { return r.jobs[p.Job].Base + p.Rank }

// Placed is a process as it was planned. The id must be one.
func (r Roster) Placed(id int) job.Placement {
	p := r.Process(id)
	return r.jobs[p.Job].Plan.Placements[p.Rank]
}

// On are the processes of a host.
func (r Roster) On(host int) (ids idset.Set) {
	for id, h := range r.host {
		if int(h) == host {
			ids.Add(id)
		}
	}
	return ids
}
