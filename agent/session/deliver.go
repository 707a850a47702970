package session

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
)

// enter counts a stream that was admitted. While the agent looks for its answer, as on a machine that stalls, it is not the launcher
// that is silent. Of no session nothing is counted.
func (s *session) enter() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	s.answering++
}

// answers says that the answer to a stream's Open is known and goes out.
func (s *session) answers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answering--
	s.answered = s.table.cfg.Clock.Now()
}

// carried says that a stream carries the session, beside one that has just come.
func (s *session) carried() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams > 1
}

// leave takes a stream out that broke with an error, or whose session is over.
func (s *session) leave(err error) error {
	s.mu.Lock()
	s.streams--
	if s.streams == 0 {
		s.table.cfg.Clock.Pace(wire.Quick) // the lease of a closed stream is short
		s.lostAt = s.table.cfg.Clock.Now()
		if s.undrain != nil {
			s.undrain()
		}
	}
	over := s.life.Err() != nil
	ends := s.state >= closing
	missed := s.streams == 0 && !over && !ends && !errors.Is(err, wire.ErrReplaced)
	s.missed = s.missed || missed
	s.mu.Unlock()
	if over {
		return nil
	}
	if missed {
		s.log.Info("connection lost", "cause", err)
	}
	return err
}

// carry runs the session over one stream until that breaks or the session is over.
func (s *session) carry(ctx context.Context, stream wire.Stream, received uint64) error {
	s.mu.Lock()
	if s.state == closed { // it was found while it went
		s.mu.Unlock()
		return nil
	}
	s.carriers.Add(1)
	defer s.carriers.Done()
	resumed := s.missed
	s.missed = false
	s.mu.Unlock()
	if resumed {
		s.log.Info("connection resumed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(s.life, cancel)()
	defer cancel()
	return s.link.Run(ctx, stream, received, s.deliver)
}

// deliver handles one frame. It runs on the stream's reading goroutine and may not block.
func (s *session) deliver(f *apiv1.Frame) error {
	if s.record != nil {
		s.back()
		s.note(f)
	}
	switch b := f.Body.(type) {
	case *apiv1.Frame_Launch:
		return s.launch(b.Launch)
	case *apiv1.Frame_Stop:
		s.stop(b.Stop.Why, b.Stop.Now)
	case *apiv1.Frame_Bye:
		s.bye()
	case *apiv1.Frame_Hold:
		return s.keep(b.Hold)
	default:
		if s.jobs.Number(0) == nil {
			return fmt.Errorf("frame %T before Launch", f.Body)
		}
		return s.deliverToJobs(f)
	}
	return nil
}

// deliverToJobs handles the frames of a session that was launched. Processes are named by id.
func (s *session) deliverToJobs(f *apiv1.Frame) error {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Signal:
		return s.signal(b.Signal)
	case *apiv1.Frame_Input:
		return s.input(b.Input)
	case *apiv1.Frame_Credit:
		if p := s.jobs.Process(b.Credit.Rank); p != nil {
			p.Grant(b.Credit.Bytes)
		}
	case *apiv1.Frame_Resize:
		for _, p := range s.jobs.Processes() {
			p.Resize(b.Resize)
		}
	case *apiv1.Frame_Proceed:
		if st := s.jobs.Number(b.Proceed.Job); st != nil { // else it is over
			return st.Proceed(b.Proceed.Refused)
		}
	case *apiv1.Frame_JobOver:
		s.jobOver(b.JobOver)
	case *apiv1.Frame_Rendezvous:
		if st := s.jobs.Number(b.Rendezvous.Job); st != nil {
			st.Rendezvous(b.Rendezvous)
		}
	case *apiv1.Frame_CopyData:
		st := s.jobs.Number(b.CopyData.Job)
		if st == nil {
			return fmt.Errorf("bytes of files for job %d, which has none", b.CopyData.Job)
		}
		return st.CopyData(b.CopyData.Data)
	default:
		return s.exchange.Deliver(f)
	}
	return nil
}

func (s *session) signal(sig *apiv1.Signal) error {
	if sig.Number <= 0 || sig.Number > 64 {
		return fmt.Errorf("signal %d does not exist", sig.Number)
	}
	to := s.jobs.Processes()
	if len(sig.Ranks) > 0 {
		to = to[:0]
		for _, id := range sig.Ranks {
			if p := s.jobs.Process(id); p != nil {
				to = append(to, p)
			}
		}
	}
	for _, p := range to {
		if sig.Once {
			p.Ask(syscall.Signal(sig.Number))
		} else {
			p.Signal(syscall.Signal(sig.Number)) // one that has ended needs none
		}
	}
	return nil
}

// input writes to the standard input of the processes that the first job's Launch names; a spawned job has none.
func (s *session) input(in *apiv1.Input) error {
	for _, id := range s.jobs.Number(0).Launch.Stdin {
		p := s.jobs.Process(id)
		if p == nil {
			continue
		}
		if err := p.Take(in); err != nil {
			return err
		}
	}
	return nil
}

// jobOver lets a spawned job go, of which nothing is left anywhere, once its output is out.
func (s *session) jobOver(o *apiv1.JobOver) {
	st := s.jobs.Number(o.Job)
	if st == nil || o.Job == 0 {
		return
	}
	s.exchange.Forget(o)
	s.while(func() {
		st.Wait()
		s.jobs.Remove(st)
	})
}
