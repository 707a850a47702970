package exchange

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
	"github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
	"github.com/mpiup/mpiup/pmi/pmix/leftover"
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

// PMIx is the server, begun for the first job whose ranks here speak PMIx; st is known to it. An error says why it is not.
func (x *Exchange) PMIx(st *ranks.Job) (*pmix.Server, error) {
	h := &x.pmix
	h.beginning.Lock()
	defer h.beginning.Unlock()
	if h.running() == nil {
		if err := x.beginPMIx(st.MachineXML()); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.join(st) // know, of another goroutine, may not have come so far
	return h.server, h.joined[st.Launch.Job.Number]
}

// runDigits are those of a session's name that all hosts of a run have.
const runDigits = 16

// beginPMIx starts the server and makes all jobs known to it.
func (x *Exchange) beginPMIx(machine string) error {
	lis, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	dir, removeDir := x.Host.SessionDir(x.ID)
	shared, release, err := leftover.Claim(leftover.Shm, x.ID[:min(len(x.ID), runDigits)], x.ID)
	if err != nil {
		x.Log.Debug("shared memory", "dir", leftover.Shm, "cause", err) // most likely there is none
	}
	remove := func() { removeDir(); release() }
	server, err := pmix.New(pmix.Config{
		Machine: jobdata.Machine{Address: lis.Addr().String(), SessionDir: dir, Shared: shared, HwlocXML: machine},
		Check:   func(ctx context.Context, c net.Conn) (client.Process, error) { return x.MaySpeak(ctx, nil, c) },
		Lives:   x.Lives,
		Log:     x.Log,
		Process: func(id int) (pid int, program string) {
			if p := x.Jobs.Process(uint32(id)); p != nil {
				pid, program = p.Pid(), p.Program()
			}
			return pid, program
		},
		Engine: x.Engine, Spawn: x.Spawn,
		Hooks: pmix.Hooks{
			OnInit:     func(id int, who client.Process) { x.setPMI(id, apiv1.PmiState_PMI_RUNNING, who) },
			OnFinalize: func(id int) { x.setPMI(id, apiv1.PmiState_PMI_FINALIZED, client.Process{}) },
			OnSecond: func(s client.Second) {
				if p := x.Jobs.Process(uint32(s.Rank)); p != nil {
					p.TellSecond(s)
				}
			},
			OnAbort: x.aborted,
			OnControl: func(id int, targets []int, signal int, end bool) { // a rank wants processes to get a signal
				x.Send((&apiv1.Control{Rank: uint32(id), Targets: idset.Of(targets...).String(), Signal: int32(signal), End: end}).Frame())
			},
			OnError:  x.pmixError,
			OnLog:    x.show,
			OnNotice: func(text string) { x.Notice(true, "%s", text) },
			OnEvent:  x.raised,
		},
	})
	if err != nil {
		lis.Close()
		remove()
		return err
	}
	h := &x.pmix
	h.mu.Lock()
	h.server, h.joined = server, map[uint32]error{}
	for _, st := range x.Jobs.All() {
		h.join(st)
	}
	h.mu.Unlock()
	x.cfg.Go(func() { // the caller is waited for too, so this is not the session's very end
		defer remove()
		if err := server.Run(x.cfg.Serving, lis); x.cfg.Serving.Err() == nil {
			x.Notice(true, "PMIx ended: %v", err)
		}
		if err := server.Cleanup(); err != nil {
			x.Log.Info("what ranks asked to be removed", "cause", err)
		}
	})
	return nil
}

// running is the server, nil before it has begun.
func (h *pmixHost) running() *pmix.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server
}

// Know tells the PMIx server of a new job, if it has begun; a job without ranks here is none of its
// ranks' failures.
func (x *Exchange) Know(st *ranks.Job) {
	h := &x.pmix
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		return // join follows
	}
	h.join(st)
	if err := h.joined[st.Launch.Job.Number]; err != nil && len(st.Launch.Procs) == 0 {
		x.Notice(true, "PMIx: job %d: %v", st.Launch.Job.Number, err)
	}
}

// join adds a job once. mu is held.
func (h *pmixHost) join(st *ranks.Job) {
	if _, done := h.joined[st.Launch.Job.Number]; done || !st.Served() || st.Launch.Job.Namespace == "" {
		return
	}
	j, err := ranks.PMIxJob(st)
	if err == nil {
		err = h.server.Add(j)
	}
	h.joined[st.Launch.Job.Number] = err
}

// Forget is told of a job that is over.
func (x *Exchange) Forget(o *apiv1.JobOver) {
	h := &x.pmix
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil {
		h.server.JobOver(int(o.Job), o.Mute)
		delete(h.joined, o.Job)
	}
}

// setPMI notes how far a rank's library has come.
func (x *Exchange) setPMI(id int, state apiv1.PmiState, who client.Process) {
	if st := x.Jobs.Of(uint32(id)); st != nil {
		st.SetPMI(id-int(st.Launch.Job.Base), state, who)
	}
}

// pmixError sees to a rank whose PMIx cannot go on. It runs on a connection's goroutine.
func (x *Exchange) pmixError(id int, err error) {
	var (
		protocol *pmix.ProtocolError
		refused  *pmix.RefusedError
		gone     *kvs.GoneError
	)
	p := x.Jobs.Process(uint32(id))
	switch {
	case p == nil || p.Released():
	case errors.As(err, &protocol):
		p.Fail(job.BreachPMIx, protocol.Error())
	case errors.As(err, &refused):
		p.Fail(job.BreachVersion, refused.Error())
	case errors.Is(err, pmix.ErrUnfinished):
		x.cfg.Go(func() { p.Left(err.Error()) })
	case errors.As(err, &gone):
		x.cfg.Go(func() { p.WireupFailed(err, gone.Gone) })
	default:
		x.cfg.Go(func() { p.WireupFailed(err, nil) })
	}
}

// maxLogged bounds what the ranks of a session may have shown by PMIx_Log, in bytes: unlike output
// it waits for no credit.
const maxLogged = 16 << 20

// show shows what a rank wants shown (PMIx_Log) with its output. The launcher's credit for it
// is more than the pump has out, which it ignores.
func (x *Exchange) show(id int, stderr bool, text string) {
	if n := x.logLen.Add(int64(len(text))); n > maxLogged {
		if n-int64(len(text)) <= maxLogged {
			x.Notice(true, "ranks log through PMIx beyond %d MiB for their host; the rest is not shown", maxLogged>>20)
		}
		return
	}
	o := &apiv1.Output{Rank: uint32(id), Data: []byte(text), Partial: !strings.HasSuffix(text, "\n"), TimeNs: time.Now().UnixNano()}
	if stderr {
		o.Stream = apiv1.Stream_STDERR
	}
	if st := x.Jobs.Of(o.Rank); st != nil {
		st.Show(id, job.Stream(o.Stream), o.Data)
	}
	x.Send(o.Frame())
}
