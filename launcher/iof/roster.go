package iof

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/job"
)

// roster names processes of a run by their ids: those of the first job by their rank, those of
// a job that came later (Sink.Grow) by job and rank in it.
//
//	id    0 1 2 3 | 4 5 | 6 7 8
//	tag   0 1 2 3 | 1.0 1.1 | 2.0 2.1 2.2
//
// A nil roster knows the first job only. It may be used by any number of goroutines.
type roster struct {
	mu    sync.RWMutex
	bases []int // id of rank 0, by job, guarded by mu
	end   int   // the next job's, guarded by mu
}

func newRoster(ranks int) *roster { return &roster{bases: []int{0}, end: ranks} }

// next is the number of a job that grow would add, and the id of its rank 0.
func (o *roster) next() (number, base int) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return len(o.bases), o.end
}

func (o *roster) grow(size int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bases = append(o.bases, o.end)
	o.end += size
}

func (o *roster) of(id int) job.Process {
	if o == nil {
		return job.Process{Rank: id}
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	number, same := slices.BinarySearch(o.bases, id)
	if !same {
		number--
	}
	return job.Process{Job: number, Rank: id - o.bases[number]}
}

// tag is how a process is called before its lines.
func (o *roster) tag(id int) string { return o.of(id).Tag() }

// rankPath is the layout of per-rank files of a job: rank.N/stdout and rank.N/stderr, as Open MPI's --output-filename
// has them below its job. N is as wide as the highest rank (rank.00 of 11). Those of a job that came later are below
// job.M. PRRTE 3 calls jobs by name (src/common/pmix_iof.c of PMIx 5).
func (c *Config) rankPath(number, ranks int) func(rank int, s job.Stream) string {
	width := len(strconv.Itoa(max(ranks-1, 0)))
	below := ""
	switch {
	case c.Style == OpenMPI5Style && (number > 0 || !c.NoJobID):
		below = fmt.Sprintf("%s@%d", c.JobName, number+1)
	case c.Style == OpenMPIStyle && (number > 0 || !c.NoJobID):
		below = strconv.Itoa(number + 1)
	case number > 0:
		below = fmt.Sprintf("job.%d", number)
	}
	return func(rank int, s job.Stream) string {
		if c.File != "" {
			words := []string{c.File, below, fmt.Sprintf("%0*d", width, rank), s.String()[len("std"):]}
			return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ".")
		}
		return filepath.Join(below, fmt.Sprintf("rank.%0*d", width, rank), s.String())
	}
}
