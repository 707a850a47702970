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
	base  []int   // id of rank 0, by job
}

// Join is the roster with one more host, whose index is the last.
func (r Roster) Join() Roster {
	r.hosts++
	return r
}

// Grow is the roster with one more job, whose ranks are on these hosts. They get the next ids. Of a roster it may be called once.
func (r Roster) Grow(hosts []int) Roster {
	r.base = append(r.base, len(r.host))
	for _, h := range hosts {
		r.host = append(r.host, int32(h)) // beyond what older values see
	}
	return r
}

// Hosts is how many hosts there are or were.
func (r Roster) Hosts() int { return r.hosts }

// Processes is how many processes there are or were: ids are below it.
func (r Roster) Processes() int { return len(r.host) }

// Jobs is how many jobs there are or were.
func (r Roster) Jobs() int { return len(r.base) }

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
	number, same := slices.BinarySearch(r.base, id)
	if !same {
		number--
	}
	return job.Process{Job: number, Rank: id - r.base[number]}
}

// ID is the id of a rank of a job that there is.
func (r Roster) ID(p job.Process) int { return r.base[p.Job] + p.Rank }

// IDs are the ids of a job, from its first to before its last plus one.
func (r Roster) IDs(number int) (first, end int) {
	if number+1 < len(r.base) {
		return r.base[number], r.base[number+1]
	}
	return r.base[number], len(r.host)
}

// Next is the job that Grow would add, and the id of its rank 0.
func (r Roster) Next() (number, first int) { return len(r.base), len(r.host) }

// On are the processes of a host.
func (r Roster) On(host int) (ids idset.Set) {
	for id, h := range r.host {
		if int(h) == host {
			ids.Add(id)
		}
	}
	return ids
}

// HostsOf are the hosts of a job, in their order, each once.
func (r Roster) HostsOf(number int) (hosts []int) {
	first, end := r.IDs(number)
	on := make([]bool, r.hosts)
	for _, h := range r.host[first:end] {
		on[h] = true
	}
	for h, has := range on {
		if has {
			hosts = append(hosts, h)
		}
	}
	return hosts
}
