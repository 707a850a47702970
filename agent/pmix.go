package agent

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
)

// pmixHost is the PMIx server of a session: one for all its jobs, on a loopback port of its own,
// from the first job on whose ranks here speak PMIx. Other jobs of the session are known to it
// too, so that ranks can connect with theirs. The zero value is one that has not begun.
type pmixHost struct {
	beginning sync.Mutex // held while the server is being made

	mu     sync.Mutex
	server *pmix.Server     // guarded by mu; nil: not begun
	joined map[uint32]error // guarded by mu; by job number, what Add said
}

// startPMIx serves the job's ranks with PMIx.
func (s *session) startPMIx(st *ranks.Job) (*pmix.Server, error) {
	h := &s.pmix
	h.beginning.Lock()
	defer h.beginning.Unlock()
	if h.running() == nil {
		if err := s.beginPMIx(st.MachineXML()); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.join(st) // know, of another goroutine, may not have come so far
	return h.server, h.joined[st.Launch.Job.Number]
}

// beginPMIx starts the server and makes all jobs known to it.
func (s *session) beginPMIx(machine string) error {
	lis, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	dir, remove := s.agent.host.SessionDir(s.id)
	server, err := pmix.New(pmix.Config{
		Address: lis.Addr().String(), SessionDir: dir, HwlocXML: machine,
		Check: s.maySpeak, Log: s.log,
		Process: s.processOf,
		Engine:  s.engine, Spawn: s.spawn,
		Hooks: pmix.Hooks{
			OnInit:     func(id int) { s.setPMI(id, apiv1.PmiState_PMI_RUNNING) },
			OnFinalize: func(id int) { s.setPMI(id, apiv1.PmiState_PMI_FINALIZED) },
			OnAbort:    s.aborted,
			OnControl:  s.control,
			OnError:    s.pmixError,
			OnLog:      s.logged,
			OnNotice:   func(text string) { s.notice(true, "%s", text) },
			OnEvent:    s.raised,
		},
	})
	if err != nil {
		lis.Close()
		remove()
		return err
	}
	h := &s.pmix
	h.mu.Lock()
	h.server, h.joined = server, map[uint32]error{}
	for _, st := range s.steps() {
		h.join(st)
	}
	h.mu.Unlock()
	s.wg.Go(func() { // the caller is one of wg too, so it is not waited for yet
		defer remove()
		if err := server.Run(s.serving, lis); s.serving.Err() == nil {
			s.notice(true, "PMIx ended: %v", err)
		}
		if err := server.Cleanup(); err != nil {
			s.log.Info("what ranks asked to be removed", "cause", err)
		}
	})
	return nil
}

// processOf is a process of this host and the program that it was started with.
func (s *session) processOf(id int) (pid int, program string) {
	p := s.proc(uint32(id))
	if p == nil {
		return 0, ""
	}
	return p.Pid(), p.Program()
}

// control tells the launcher that a rank wants processes to get a signal.
func (s *session) control(id int, targets []int, signal int, end bool) {
	s.send((&apiv1.Control{
		Rank: uint32(id), Targets: idset.Of(targets...).String(), Signal: int32(signal), End: end}).Frame())
}

// running is the server, nil before it has begun.
func (h *pmixHost) running() *pmix.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server
}

// know tells the server of a new job, if it has begun; a job without ranks here is none of its
// ranks' failures.
func (h *pmixHost) know(st *ranks.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		return // join follows
	}
	h.join(st)
	if err := h.joined[st.Launch.Job.Number]; err != nil && len(st.Launch.Procs) == 0 {
		st.Notice(true, "PMIx: job %d: %v", st.Launch.Job.Number, err)
	}
}

// join adds a job once. mu is held.
func (h *pmixHost) join(st *ranks.Job) {
	if _, done := h.joined[st.Launch.Job.Number]; done || !st.Served() || st.Launch.Job.Namespace == "" {
		return
	}
	j, err := st.PMIxJob()
	if err == nil {
		err = h.server.Add(j)
	}
	h.joined[st.Launch.Job.Number] = err
}

// forget is told of a job that is over.
func (h *pmixHost) forget(o *apiv1.JobOver) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil {
		h.server.JobOver(int(o.Job), o.Mute)
		delete(h.joined, o.Job)
	}
}

// setPMI notes how far a rank's library has come.
func (s *session) setPMI(id int, state apiv1.PmiState) {
	if st := s.jobOf(uint32(id)); st != nil {
		st.SetPMI(id-int(st.Launch.Job.Base), state)
	}
}

// userVariable is what the user exported for the command line's programs, else the container's.
func (s *session) userVariable(name string) string {
	var exported []string
	if first := s.job(0); first != nil && len(first.Launch.Apps) > 0 {
		exported = first.Launch.Apps[0].Env
	}
	for _, list := range [][]string{exported, s.agent.cfg.Env} {
		for _, kv := range list {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
	}
	return ""
}

// pmixError sees to a rank whose PMIx cannot go on. It runs on a connection's goroutine.
func (s *session) pmixError(id int, err error) {
	var (
		protocol   *pmix.ProtocolError
		refused    *pmix.RefusedError
		unfinished *pmix.UnfinishedError
		gone       *kvs.GoneError
	)
	p := s.proc(uint32(id))
	switch {
	case p == nil || p.Released():
	case errors.As(err, &protocol), errors.As(err, &refused):
		p.Fail(err.Error())
	case errors.As(err, &unfinished):
		s.while(func() { p.WireupFailed(err, []int{id}) })
	case errors.As(err, &gone):
		s.while(func() { p.WireupFailed(err, gone.Gone) })
	default:
		s.while(func() { p.WireupFailed(err, nil) })
	}
}

// maxLogged bounds what the ranks of a session may have shown by PMIx_Log, in bytes: unlike output
// it waits for no credit.
const maxLogged = 16 << 20

// logged shows what a rank wants shown (PMIx_Log) with its output. The launcher's credit for it
// is more than the pump has out, which it ignores.
func (s *session) logged(id int, stderr bool, text string) {
	if n := s.logLen.Add(int64(len(text))); n > maxLogged {
		if n-int64(len(text)) <= maxLogged {
			s.notice(true, "ranks log through PMIx beyond %d MiB for their host; the rest is not shown", maxLogged>>20)
		}
		return
	}
	o := &apiv1.Output{Rank: uint32(id), Data: []byte(text), Partial: !strings.HasSuffix(text, "\n"), TimeNs: time.Now().UnixNano()}
	if stderr {
		o.Stream = apiv1.Stream_STDERR
	}
	if st := s.jobOf(o.Rank); st != nil {
		st.Show(id, job.Stream(o.Stream), o.Data)
	}
	s.send(o.Frame())
}

// maySpeak lets only the session's ranks here and their descendants speak on its port.
func (s *session) maySpeak(ctx context.Context, c net.Conn) error {
	return ranks.MaySpeak(ctx, s.agent.super, s.id, nil, c)
}
