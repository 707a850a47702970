package jobdata

import (
	"iter"
	"slices"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Place is where a rank is.
type Place struct {
	Rank, Host, Local int // Local: its place on its host
	inApp             int // and in its program
}

// Places are all ranks, by host.
func (j *Job) Places() iter.Seq[Place] {
	return func(yield func(Place) bool) {
		counts := map[int]int{}
		inApp := make([]int, j.Size)
		for r := range inApp {
			inApp[r] = counts[j.appOf(r)]
			counts[j.appOf(r)]++
		}
		for i, h := range j.Hosts {
			for l, r := range h.Ranks {
				if !yield(Place{r, i, l, inApp[r]}) {
					return
				}
			}
		}
	}
}

// rankValues is what is true of one rank.
func (j *Job) rankValues(p Place) []bfrops.KVal {
	value := func(key string, t bfrops.Type, data any) bfrops.KVal {
		return bfrops.KVal{Key: key, Value: bfrops.Value{Type: t, Data: data}}
	}
	values := []bfrops.KVal{
		value("pmix.hname", bfrops.String, j.Hosts[p.Host].Name),
		value("pmix.nodeid", bfrops.Uint32, uint64(p.Host)),
		value("pmix.lrank", bfrops.Uint16, uint64(p.Local)),
		value("pmix.nrank", bfrops.Uint16, uint64(p.Local)),
		value("pmix.appnum", bfrops.Uint32, uint64(j.appOf(p.Rank))),
		value("pmix.reinc", bfrops.Uint32, uint64(0)),
		value("pmix.grank", bfrops.ProcRank, uint64(p.Rank)),
		value("pmix.apprank", bfrops.ProcRank, uint64(p.inApp)),
	}
	if j.spawned() { // PRRTE has it here, and libpmix 7 looks nowhere else for a rank's own
		values = append(values, value("pmix.parent", bfrops.ProcType, j.Parent))
	}
	if p.Host != j.Here || j.Binding == nil {
		return values
	}
	locstr, cpuset := j.Binding(p.Rank)
	if locstr != "" {
		values = append(values, value("pmix.locstr", bfrops.String, locstr))
	}
	if cpuset != "" {
		values = append(values, value("pmix.cpuset", bfrops.String, cpuset))
	}
	return values
}

// spawned says whether a rank spawned the job.
func (j *Job) spawned() bool { return j.Parent.Namespace != "" }

func (j *Job) appOf(rank int) int {
	if j.Apps == nil {
		return 0
	}
	return j.Apps[rank]
}

func (j *Job) appSizes() []int {
	var sizes []int
	for r := range j.Size {
		app := j.appOf(r)
		for len(sizes) <= app {
			sizes = append(sizes, 0)
		}
		sizes[app]++
	}
	return sizes
}

// firstOf is the lowest rank of a program.
func (j *Job) firstOf(app int) int { return max(slices.Index(j.Apps, app), 0) }
