package agent

import (
	"fmt"
	"syscall"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// deliver handles one frame. It runs on the stream's reading goroutine and may not block.
func (s *session) deliver(f *apiv1.Frame) error {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Launch:
		return s.onLaunch(b.Launch)
	case *apiv1.Frame_Stop:
		s.stop(b.Stop.Why, b.Stop.Now)
	case *apiv1.Frame_Bye:
		s.mu.Lock()
		s.done = true
		s.mu.Unlock()
		s.end("the launcher is done")
	default:
		if s.job(0) == nil {
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
		if p := s.proc(b.Credit.Rank); p != nil {
			p.Grant(b.Credit.Bytes)
		}
	case *apiv1.Frame_Resize:
		for _, p := range s.procs() {
			p.Resize(b.Resize)
		}
	case *apiv1.Frame_FenceResult:
		s.up.fenceResult(b.FenceResult)
	case *apiv1.Frame_NameResult:
		s.up.nameResult(b.NameResult)
	case *apiv1.Frame_FetchResult:
		s.up.fetchResult(b.FetchResult)
	case *apiv1.Frame_SpawnResult:
		s.up.spawnResult(b.SpawnResult)
	case *apiv1.Frame_AskWaits:
		s.answerWaits(b.AskWaits.Id)
	case *apiv1.Frame_AbortNoted:
		s.up.abortNoted(b.AbortNoted)
	case *apiv1.Frame_FetchRequest:
		s.answerFetch(b.FetchRequest)
	case *apiv1.Frame_Proceed:
		return s.proceed(b.Proceed)
	case *apiv1.Frame_JobOver:
		s.jobOver(b.JobOver)
	case *apiv1.Frame_Gone:
		return s.gone(b.Gone)
	case *apiv1.Frame_Event:
		s.event(b.Event)
	case *apiv1.Frame_Rendezvous:
		s.rendezvous(b.Rendezvous)
	case *apiv1.Frame_CopyData:
		return s.copyData(b.CopyData)
	default:
		return fmt.Errorf("frame %T is not for an agent", f.Body)
	}
	return nil
}

func (s *session) signal(sig *apiv1.Signal) error {
	if sig.Number <= 0 || sig.Number > 64 {
		return fmt.Errorf("signal %d does not exist", sig.Number)
	}
	to := s.procs()
	if len(sig.Ranks) > 0 {
		to = to[:0]
		for _, id := range sig.Ranks {
			if p := s.proc(id); p != nil {
				to = append(to, p)
			}
		}
	}
	for _, p := range to {
		p.Signal(syscall.Signal(sig.Number)) // one that has ended needs none
	}
	return nil
}

// input writes to the standard input of the processes that the first job's Launch names; a spawned job has none.
func (s *session) input(in *apiv1.Input) error {
	for _, id := range s.job(0).Launch.Stdin {
		p := s.proc(id)
		if p == nil {
			continue
		}
		if err := p.Take(in); err != nil {
			return err
		}
	}
	return nil
}

// answerFetch answers another host's question for what ranks here have put. The job is known from
// its Launch on, before its ranks run.
func (s *session) answerFetch(r *apiv1.FetchRequest) {
	res := &apiv1.FetchResult{Id: r.Id}
	reply := func() { s.send(res.Frame()) }
	st, rank := s.jobOf(r.Owner), kvs.AnyOwner
	if r.AnyOwner {
		st = s.job(r.Job)
	} else if st != nil {
		rank = int(r.Owner - st.Launch.Job.Base)
	}
	if st == nil || r.AnyOwner || !r.Wait {
		if st != nil {
			res.Value, res.Found = st.Get(rank, r.Key)
		}
		reply()
		return
	}
	s.while(func() {
		var err error
		if res.Value, res.Found, err = st.Await(rank, r.Key, string(r.Not)); err != nil {
			res.Error = err.Error()
		}
		reply()
	})
}

// copyData takes the next bytes of a job's files. Those of a job that is not started any more are
// forgotten.
func (s *session) copyData(m *apiv1.CopyData) error {
	st := s.job(m.Job)
	if st == nil {
		return fmt.Errorf("bytes of files for job %d, which has none", m.Job)
	}
	return st.CopyData(m.Data)
}

// proceed is the launcher's word on a job's libraries.
func (s *session) proceed(p *apiv1.Proceed) error {
	if st := s.job(p.Job); st != nil { // else it is over
		return st.Proceed(p.Refused)
	}
	return nil
}

// rendezvous takes what Horovod's ranks on another host put.
func (s *session) rendezvous(m *apiv1.Rendezvous) {
	if st := s.job(m.Job); st != nil {
		st.Rendezvous(m)
	}
}
