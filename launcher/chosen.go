package launcher

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/mixture"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// awaits says that a job's agents are to wait for our word on their libraries, since there is more than one
// answer to compare: several programs, or several hosts.
func (r *run) awaits(j *jobRun) bool {
	return r.cfg.PMI == apiv1.Pmi_PMI_AUTO && r.exec == nil && r.cfg.Explain == 0 && (len(j.apps) > 1 || len(j.hosts) > 1)
}

// mixtureOf is what the agents say of a job's libraries.
func (r *run) mixtureOf(j *jobRun) *mixture.Job {
	if j.mixture != nil {
		return j.mixture
	}
	var programs []string
	for i := range j.apps {
		programs = append(programs, j.program(i))
	}
	places := make([]mixture.Place, len(j.plan.Placements))
	for i, p := range j.plan.Placements {
		places[i] = mixture.Place{Host: j.hosts[p.Host], App: p.App}
	}
	j.mixture = mixture.New(programs, places)
	for _, h := range r.places.hosts() {
		if h.Finished() {
			j.mixture.Drop(h.Index)
		}
	}
	return j.mixture
}

// program is a program of the job as it is told of.
func (j *jobRun) program(app int) string {
	if j.number > 0 {
		return fmt.Sprintf("%s of spawned job %d", j.apps[app].Argv[0], j.number)
	}
	return j.apps[app].Argv[0]
}

// onChosen takes an agent's choice of a protocol, and says all of a program's once they are there.
func (r *run) onChosen(h int, m *apiv1.Chosen) error {
	if int(m.Job) >= len(r.jobs) || int(m.App) >= len(r.jobs[m.Job].apps) {
		return fmt.Errorf("chose a protocol for program %d of job %d, which is not there", m.App, m.Job)
	}
	j := r.jobs[m.Job]
	last, err := r.mixtureOf(j).Add(mixture.Host{Index: h, Name: r.host(h).Name}, m)
	if err != nil {
		return err
	}
	if m.Waits && !slices.Contains(j.waiting, h) {
		j.waiting = append(j.waiting, h)
	}
	if last && r.cfg.Log.Enabled(context.Background(), slog.LevelInfo) {
		for _, line := range j.mixture.Lines(int(m.App)) {
			r.say("%s", line)
		}
	}
	r.judgeMixture(j)
	return nil
}

// judgeMixture lets the agents that wait start a job's processes, or not, once all have said what they chose.
func (r *run) judgeMixture(j *jobRun) {
	if j.dropped {
		r.proceed(j, "another process of the job could not be started")
		return
	}
	if r.job == jobStopping || j.mixture == nil || !j.mixture.Complete() {
		return
	}
	judged, text := j.mixture.Judge()
	switch {
	case judged == mixture.Hopeless && j.asked != nil:
		r.drop(j, verdict.Fault{Event: verdict.Mixed, Text: text}.Sentence())
		return
	case judged == mixture.Hopeless:
		r.fail(verdict.Fault{Event: verdict.Mixed, Node: -1, ID: -1, Text: text})
		return
	case judged == mixture.Doubtful && !j.warned:
		j.warned = true
		r.say("warning: the ranks use MPI libraries that may not be able to talk to each other: %s; use one library and one image for all, or choose with --mpi", text)
	}
	r.proceed(j, "")
}

// proceed answers the agents that wait with a job.
func (r *run) proceed(j *jobRun, refused string) {
	for _, h := range j.waiting {
		r.send(h, (&apiv1.Proceed{Job: uint32(j.number), Refused: refused}).Frame())
	}
	j.waiting = nil
}

// notAwaited: jobs whose agents wait need not wait for a host that is gone.
func (r *run) notAwaited(h int) {
	for _, j := range r.jobs {
		if j.mixture != nil && !j.mixture.Complete() {
			j.mixture.Drop(h)
			r.judgeMixture(j)
		}
	}
}
