// Package jobdata is what a rank is told of its job, and of jobs that it connects to: by its environment, by the answer to
// its first request (REQ), and by what it may ask of ranks of other jobs. PURE.
//
//	Job, Machine ──Environment──▶ PMIX_*, OMPI_MCA_*   of one rank
//	             ──Pack─────────▶ KVALs of the job, a node.arr for each host, an app.arr for each program,
//	                              a pblob for each rank          to be packed once for each dialect
//	             ──PackJob──────▶ the same, a pdata for each rank   to ranks of other jobs that ask for the job
//	             ──PackRank─────▶ KVALs of one rank                 and that ask for one rank of it
//
// Types are as openpmix include/pmix_common.h says: Open MPI reads values by the type it expects.
//
// A Job that nobody changes may be used from any goroutine. The package does not know which ranks run, nor what they
// put: that is modex's.
package jobdata

import (
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Job is one job of the run, equal on all hosts but for Here, Crowded, Getenv and Binding.
type Job struct {
	Namespace string      // its name in PMIx, hard to guess: who knows it was told by the job; at most 255 bytes
	Size      int         // ranks
	Hosts     []Host      // all of them, in the order of their numbers
	Here      int         // index of this host in Hosts; -1: it has no rank here
	Apps      []int       // the program of each rank (MPI_APPNUM); nil: one program
	Universe  int         // slots of the job (MPI_UNIVERSE_SIZE); 0: as many as ranks
	Command   string      // of its programs, for PMIX_QUERY_NAMESPACE_INFO; "": not told
	Mapping   string      // PMI_process_mapping, see job.ProcessMapping; "": not told
	Parent    bfrops.Proc // that spawned it; without a namespace: no rank did

	Crowded bool // there are more ranks than processors here: they should yield while they wait
	// Getenv is what the user has set for a rank of this host, in its own program's environment or
	// the container's; "": nothing. nil: nothing for anybody.
	Getenv func(rank int, name string) string

	Binding func(rank int) (locstr, cpuset string) // of this host's ranks, see PMIX_LOCALITY_STRING; nil: not bound
}

// Host is one machine of a job.
type Host struct {
	Name  string // as ranks see it: gethostname(2)
	Ranks []int  // ascending
}

// Machine is what is one for all jobs of this host.
type Machine struct {
	Address    string // of the server: "127.0.0.1:41235"; never IPv6, whose port libpmix up to 5.0 loses
	SessionDir string // where ranks may make files, which are removed in the end; "": nowhere
	Shared     string // where Open MPI is to have its shared memory (leftover.Claim); "": where it has it of its own accord
	HwlocXML   string // hwloc's version 2 XML; "": none
}

// Proc names a rank of the job.
func (j *Job) Proc(rank int) bfrops.Proc {
	return bfrops.Proc{Namespace: j.Namespace, Rank: uint32(rank)}
}

// HereRanks are the job's ranks of this host, ascending.
func (j *Job) HereRanks() []int {
	if j.Here < 0 {
		return nil
	}
	return j.Hosts[j.Here].Ranks
}

// IsHere says whether a rank is on this host.
func (j *Job) IsHere(rank int) bool {
	_, here := slices.BinarySearch(j.HereRanks(), rank)
	return here
}

// UserHas is what the user has set for a rank of this host; "": nothing.
func (j *Job) UserHas(rank int, name string) string {
	if j.Getenv == nil {
		return ""
	}
	return j.Getenv(rank, name)
}

const maxNamespace = 255 // PMIX_MAX_NSLEN

// Validate refuses what no launcher sends.
func (j *Job) Validate() error {
	switch {
	case j.Namespace == "" || len(j.Namespace) > maxNamespace:
		return fmt.Errorf("%q cannot be a PMIx namespace: 1 to %d bytes", j.Namespace, maxNamespace)
	case j.Here < -1 || j.Here >= len(j.Hosts):
		return fmt.Errorf("host %d of a PMIx job of %d hosts", j.Here, len(j.Hosts))
	case j.Apps != nil && len(j.Apps) != j.Size:
		return fmt.Errorf("programs of %d ranks in a PMIx job of %d", len(j.Apps), j.Size)
	}
	seen := make([]bool, j.Size)
	n := 0
	for _, h := range j.Hosts {
		if !slices.IsSorted(h.Ranks) {
			return fmt.Errorf("host %s: ranks are not in order", h.Name)
		}
		for _, r := range h.Ranks {
			if r < 0 || r >= len(seen) || seen[r] {
				return fmt.Errorf("host %s: rank %d of a job of %d ranks is named twice or out of range", h.Name, r, len(seen))
			}
			seen[r] = true
			n++
		}
	}
	if n != len(seen) {
		return fmt.Errorf("hosts for %d of %d ranks", n, len(seen))
	}
	for r, app := range j.Apps {
		if app < 0 || app >= len(seen) {
			return fmt.Errorf("rank %d: program %d of a job of %d ranks", r, app, len(seen))
		}
	}
	return nil
}
