package launcher

import (
	"fmt"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/mixture"
)

// alone is the ranks that ended well without having spoken to mpiup, though they had an MPI library:
// one that does not understand what it was offered runs each rank as rank 0 of 1, and nothing fails.
// The zero value is none.
type alone struct {
	order []appID
	of    map[appID]*aloneApp
}

type aloneApp struct {
	ranks   int
	library string // of the first
}

func (a *alone) add(id appID, library string) {
	if a.of == nil {
		a.of = map[appID]*aloneApp{}
	}
	app := a.of[id]
	if app == nil {
		app = &aloneApp{library: fmt.Sprintf("%.512s", library)}
		a.of[id] = app
		a.order = append(a.order, id)
	}
	app.ranks++
}

// noteAlone counts a rank that has ended.
func (r *run) noteAlone(m *apiv1.Exited) {
	if m.Library == "" || m.Pmi != apiv1.PmiState_PMI_NEVER || m.Code != 0 || m.Signal != 0 || m.StoppedByUs {
		return
	}
	j := r.jobOf(int(m.Rank))
	if j.size() > 1 {
		r.alone.add(appID{uint32(j.number), uint32(j.plan.Placements[int(m.Rank)-j.base].App)}, m.Library)
	}
}

// sayAlone warns of them, where there are several of one program: a single one may well want to be
// alone.
func (r *run) sayAlone() {
	for _, id := range r.alone.order {
		app := r.alone.of[id]
		if app.ranks < 2 {
			continue
		}
		offered := r.cfg.PMI
		j := r.jobs[id.job]
		if j.mixture != nil {
			if c, ok := j.mixture.First(int(id.app)); ok {
				offered = c.Pmi
			}
		}
		r.say("warning: %d ranks of %s use %s and never spoke to mpiup, which offered %s: if they called MPI_Init, each was alone, as rank 0 of 1; %s",
			app.ranks, j.program(int(id.app)), app.library, mixture.Protocol(offered), aloneAdvice(app.library, offered))
	}
}

// aloneAdvice is what to do where a library did not take what was offered.
func aloneAdvice(library string, offered apiv1.Pmi) string {
	openMPI := strings.HasPrefix(library, "Open MPI")
	switch {
	case openMPI && offered != apiv1.Pmi_PMI_PMIX:
		return "Open MPI needs --mpi pmix"
	case openMPI:
		return "see whether a wrapper takes PMIX_* or FLUX_JOB_ID out of their environment"
	case offered == apiv1.Pmi_PMI_PMIX:
		return "try --mpi pmi1"
	case offered == apiv1.Pmi_PMI_FD, offered == apiv1.Pmi_PMI_2:
		return "try --mpi pmi-port if a wrapper closes descriptors, --mpi pmix if the library was built for PMIx only"
	}
	return fmt.Sprintf("try another protocol than %s with --mpi", mixture.Protocol(offered))
}

// appID is a program of a job.
type appID struct{ job, app uint32 }
