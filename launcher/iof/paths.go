package iof

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
)

// process is a process as users know it.
func (c *Config) process(id int) job.Process {
	if c.Process == nil {
		return job.Process{Rank: id}
	}
	return c.Process(id)
}

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
