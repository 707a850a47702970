package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mpiup/mpiup/agent/incoming"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/ranks"
	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/wire"
)

// checkLaunch bounds what a launcher may ask for. A job may have all its processes on other hosts.
func checkLaunch(l *apiv1.Launch) (*outfit.Launch, error) {
	if err := checkNumbers(l); err != nil {
		return nil, err
	}
	if err := checkFiles(l); err != nil {
		return nil, err
	}
	return outfit.Parse(l)
}

func checkNumbers(l *apiv1.Launch) error {
	switch {
	case l.Job == nil:
		return errors.New("launch of no job")
	case l.Number == 0 || l.Number > identity.MaxNumber:
		return fmt.Errorf("launch with number %d; 1 to %d are possible", l.Number, uint64(identity.MaxNumber))
	case len(l.NumberProof) > identity.MaxProof:
		return fmt.Errorf("launch with a proof of %d bytes; %d are possible", len(l.NumberProof), identity.MaxProof)
	case len(l.Procs) > apiv1.MaxProcs:
		return fmt.Errorf("launch of %d processes; %d are possible", len(l.Procs), apiv1.MaxProcs)
	case len(l.Procs) == 0 && l.Exec != nil:
		return errors.New("launch of a command without a process")
	case l.Job.Size == 0 || l.Job.Size > maxRanks || int(l.Job.Size) < len(l.Procs):
		return fmt.Errorf("launch of %d processes of a job of %d", len(l.Procs), l.Job.Size)
	case l.Job.Base > maxRanks-l.Job.Size:
		return fmt.Errorf("launch of %d ranks from id %d; ids below %d are possible", l.Job.Size, l.Job.Base, maxRanks)
	case l.Job.Number == 0 && (l.Job.Base != 0 || l.Job.Spawned):
		return errors.New("launch: the first job begins at id 0 and nobody spawned it")
	case l.Exec.GetTerminal() && len(l.Procs) != 1:
		return errors.New("launch of several processes on one terminal")
	case len(l.Job.AppOf) > 0 && len(l.Job.AppOf) != int(l.Job.Size):
		return fmt.Errorf("launch: programs of %d ranks of a job of %d", len(l.Job.AppOf), l.Job.Size)
	}
	seen := make(map[uint32]bool, len(l.Procs))
	for _, p := range l.Procs {
		if p.Rank >= l.Job.Size || seen[p.Rank] || int(p.App) >= len(l.Apps) {
			return fmt.Errorf("launch: rank %d is out of range or there twice", p.Rank)
		}
		seen[p.Rank] = true
	}
	for i, a := range l.Apps {
		if len(a.Argv) == 0 || a.Argv[0] == "" && !l.Exec.GetShell() {
			return fmt.Errorf("launch: program %d has no name", i)
		}
	}
	return nil
}

// launch starts what the launcher asks for; ranks only when whatever a dead incarnation of it left is gone.
func (s *session) launch(m *apiv1.Launch) error {
	l, err := checkLaunch(m)
	if err != nil {
		return err
	}
	if no := s.trail.forbids(s.table.cfg.Policy, l.Launch); no != nil { // it claims nothing, and ends nothing of an older launcher
		_, err := s.addJob(l, func(st *ranks.Job) {
			s.trail.refused(l.Launch, no)
			st.Refuse(no.Error())
		})
		return err
	}
	over, err := s.table.lives.Start(s.by().identity, s.by().Life,
		Claim{Number: l.Number, Proof: l.NumberProof}, l.Exec == nil, s.table.cfg.Clock.Now())
	if err != nil {
		s.refuse(fmt.Sprintf("%v host %s", err, s.table.cfg.Name))
		return nil
	}
	if g := s.table.cfg.Gossip(); g != nil {
		g.Claim(s.by().identity, l.Number, s.by().Incarnation, l.NumberProof)
	}
	if l.Exec == nil {
		s.table.pace.launched()
	}
	st, err := s.addJob(l, func(st *ranks.Job) {
		if l.Exec == nil {
			s.clearAway(over)
		}
		st.Start()
	})
	if st != nil {
		s.exchange.Know(st)
	}
	return err
}

// checkHold bounds what another launcher is to be told.
func checkHold(h *apiv1.Hold) error {
	const maxText, commandSize = 4 << 10, 32
	switch {
	case h.Withdrawn != "" && len(h.Withdrawn) <= maxText:
		return nil
	case len(h.Journal) == 0 || len(h.Journal) > maxJournal || len(h.Proof) > identity.MaxProof || len(h.Command) != commandSize ||
		len(h.Text) > maxText || len(h.Withdrawn) > maxText:
		return fmt.Errorf("a run is described in %d bytes, with a proof of %d and a command of %d; %d, %d and %d are possible",
			len(h.Journal), len(h.Proof), len(h.Text), maxJournal, identity.MaxProof, maxText)
	}
	return nil
}

// addJob takes a job and begins to start it; nil when the session starts no more.
func (s *session) addJob(l *outfit.Launch, start func(*ranks.Job)) (*ranks.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, err := s.state.next(evLaunch)
	if err != nil {
		return nil, nil // a Stop overtook it; the launcher knows
	}
	if err := s.jobs.Check(l.Launch); err != nil {
		return nil, err
	}
	s.state = to
	s.table.cfg.Clock.Pace(wire.Quick)
	st := ranks.New(s.exchange.Shared, l, s.teeFor(l.Launch))
	s.jobs.Add(st)
	s.wg.Go(func() { start(st) })
	return st, nil
}

// teeFor is where a job's output goes besides the launcher, nil for nowhere: the worker's own log,
// one for all jobs of the session. mu is held.
func (s *session) teeFor(l *apiv1.Launch) *stdio.Tee {
	cfg := &s.table.cfg
	if !l.Job.WorkerLogs || cfg.Stdout == nil || cfg.Stderr == nil || len(l.Procs) == 0 {
		return nil
	}
	if s.tee == nil {
		tee := stdio.NewTee(cfg.Stdout, cfg.Stderr, s.jobs.Tag)
		s.tee = tee
		s.wg.Go(func() {
			if err := tee.Run(s.serving); err != nil {
				cfg.Log.Warn("worker log", "cause", err)
			}
		})
	}
	return s.tee
}

// checkFiles bounds the files of a Launch.
func checkFiles(l *apiv1.Launch) error {
	switch {
	case len(l.Files) > 0 && (l.Exec != nil || l.Job.Number > 0 || len(l.Procs) == 0):
		return errors.New("launch: files are copied for the ranks of a session's first job")
	case slices.ContainsFunc(l.Apps, func(a *apiv1.App) bool { return int(a.Copied) > len(l.Files) || a.SessionDir && l.Exec != nil }):
		return errors.New("launch: a program is to be copied that is none of the files")
	}
	if err := incoming.Check(ranks.FilesOf(l)); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	return nil
}
