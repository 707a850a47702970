package ranks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/reap/program"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// choose looks at each program of a job here before any of them is started: which protocol its ranks
// get, and which library they load, of which the launcher is told, and whether its hwloc is old.
func (st *Job) choose(dirs []string) {
	l := st.Launch
	st.awaits = l.Job.Await && st.space != nil && len(l.Procs) > 0
	st.programs, st.shards, st.uses = make([]outfit.Program, len(l.Apps)), make([]bool, len(l.Apps)), make([]atomic.Bool, len(l.Apps))
	here := make([]bool, len(l.Apps))
	for _, p := range l.Procs {
		here[p.App] = true
	}
	for app := range l.Apps {
		p := &st.programs[app]
		p.App, p.Dir = st.apps[app], dirs[app]
		var c mpilib.Choice
		if here[app] && l.Exec == nil {
			c = st.choice(app, dirs[app])
			p.OldHwloc, p.NCCL, p.Torch, p.First = c.OldHwloc, c.NCCL, c.Torch, c.First
			p.OpenMPI = strings.HasPrefix(c.Library, "Open MPI")
			st.shards[app] = c.Shards
			st.uses[app].Store(c.Library != "" && c.Sure && !c.Mention)
		}
		switch {
		case st.space == nil:
			p.Protocol = apiv1.Pmi_PMI_NONE
		case l.Job.Pmi != apiv1.Pmi_PMI_AUTO:
			p.Protocol, c.Why = l.Job.Pmi, "it was asked for"
		case here[app]:
			p.Protocol = apiv1.Pmi(c.Protocol)
			if c.Library == "" && l.Job.Spawned {
				st.likeParent(p, &c)
			}
		}
		if p.Protocol == apiv1.Pmi_PMI_PMIX && c.Sure && !c.Mention {
			st.sure.Store(true)
		}
		if here[app] && l.Exec == nil && st.space != nil {
			st.send((&apiv1.Chosen{
				Job: l.Job.Number, App: uint32(app), Pmi: p.Protocol, Library: c.Library, Why: c.Why, Sure: c.Sure && !c.Mention, Waits: st.awaits, Nccl: c.NCCL}).Frame())
		}
	}
}

// awaitWord waits for the launcher's word on what was chosen here and elsewhere. It is asked for after
// choose, so that all that is prepared meanwhile costs no time.
func (st *Job) awaitWord() error {
	if !st.awaits {
		return nil
	}
	select {
	case why := <-st.word:
		if why != "" {
			return errors.New(why)
		}
	case <-st.may.Done():
	}
	return nil
}

// Proceed is the launcher's word on the job's libraries.
func (st *Job) Proceed(refused string) error {
	select {
	case st.word <- refused:
		return nil
	default:
		return fmt.Errorf("a second word on the libraries of job %d", st.Launch.Job.Number)
	}
}

// likeParent gives a spawned program that does not show what it needs what its parent's job got
// here.
func (st *Job) likeParent(p *outfit.Program, c *mpilib.Choice) {
	parent := st.s.Jobs.Of(st.Launch.Job.Parent)
	if parent == nil || len(parent.Launch.Procs) == 0 {
		return
	}
	<-parent.over // it has been chosen for, since one of its ranks spawned
	p.Protocol = parent.protocolOf(parent.Launch.Procs[0].App)
	c.Why += ", and the ranks that spawned it got this"
}

// protocolOf is how ranks of a program here speak with us. PMI_NONE: they do not.
func (st *Job) protocolOf(app uint32) apiv1.Pmi {
	if int(app) >= len(st.programs) {
		return apiv1.Pmi_PMI_NONE
	}
	return st.programs[app].Protocol
}

// speaks says that a program of the job here uses one of the protocols.
func (st *Job) speaks(which ...apiv1.Pmi) bool {
	return slices.ContainsFunc(st.Launch.Procs, func(p *apiv1.Proc) bool { return slices.Contains(which, st.protocolOf(p.App)) })
}

// choice looks for the MPI library of a program as its ranks are started.
func (st *Job) choice(app int, dir string) mpilib.Choice {
	a := st.apps[app]
	env := outfit.Environment(st.s.Env, nil, a.Env, nil)
	for i, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			env[i] = "PATH=" + program.SearchPath(a.Path, path, a.AlsoWdir)
		}
	}
	return st.s.Libs.Look(mpilib.Query{Argv: a.Argv, Env: env, Dir: dir, Guess: st.guess()})
}

// maxGuessWhy bounds the launcher's words on its guess, in bytes.
const maxGuessWhy = 256

// guess is what the launcher guesses of programs that show no MPI library.
func (st *Job) guess() job.Guess {
	g := st.Launch.Job.Guess
	if g == nil || g.Why == "" || g.Pmi != apiv1.Pmi_PMI_FD && g.Pmi != apiv1.Pmi_PMI_PMIX {
		return job.Guess{}
	}
	return job.Guess{Protocol: job.Protocol(g.Pmi), Firm: g.Firm, Why: visible.Line(g.Why[:min(len(g.Why), maxGuessWhy)])}
}

// pmi2Variable asks MPICH since 4.2 for PMI-2; a build without it, as in the wheels, then dies in
// MPI_Init, under Hydra too. Older MPICH, and Slurm's libpmi2, were built for one of the two.
const pmi2Variable = "MPIR_CVAR_PMI_VERSION=2"

// Speaks says that the rank is offered a server to speak with.
func (p *Process) Speaks() bool { return p.Job.protocolOf(p.Spec.App) != apiv1.Pmi_PMI_NONE }

// Silent says that the rank has not spoken, and could and still may.
func (p *Process) Silent() bool { return p.Speaks() && p.mute() }

// Phase is how far the rank's MPI library has come; inFence are ids that wait for others.
func (p *Process) Phase(inFence idset.Set) apiv1.RankPhase {
	if !p.Speaks() {
		return apiv1.RankPhase_PHASE_NONE
	}
	if inFence.Contains(int(p.ID)) {
		return apiv1.RankPhase_PHASE_FENCE
	}
	switch p.State() {
	case apiv1.PmiState_PMI_RUNNING:
		return apiv1.RankPhase_PHASE_RUNNING
	case apiv1.PmiState_PMI_FINALIZED:
		return apiv1.RankPhase_PHASE_FINALIZED
	}
	if !p.usesMPI() {
		return apiv1.RankPhase_PHASE_NONE
	}
	return apiv1.RankPhase_PHASE_NEVER
}

// Whether ranks of a program are MPI's is known here alone: phases, ps, metrics and the launcher's verdicts go by it. What a program may load is a
// guess, as for any script of a Python that has mpi4py.
//
//	the program surely loads a library ────────────────────────────┐
//	a rank of it has spoken to its server, in MPI_Init ────────────┼─▶ MPI's ─Chosen{seen}─▶ the launcher
//	a rank has a library in its memory, and no framework that may ─┘
//	be built with one, as torch

// usesMPI says that the rank's program is MPI's.
func (p *Process) usesMPI() bool {
	app := int(p.Spec.App)
	return app < len(p.Job.uses) && p.Job.uses[app].Load()
}

// useMPI notes that a program is MPI's, by one of its ranks, and tells the launcher where it wants to know.
func (p *Process) useMPI(library string) {
	st, app := p.Job, int(p.Spec.App)
	if app >= len(st.uses) || st.uses[app].Swap(true) || !st.Launch.Job.TellUse {
		return
	}
	st.send((&apiv1.Chosen{Job: st.Launch.Job.Number, App: p.Spec.App, Pmi: st.protocolOf(p.Spec.App), Library: library, Seen: true}).Frame())
}
