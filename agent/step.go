package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/stdio"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/topology/usable"
)

// step is one job's processes on this host: what a Launch asked for.
type step struct {
	s      *session
	launch *apiv1.Launch
	engine *kvs.Engine // nil without PMI
	up     *upstream
	server *pmi.Server  // nil without PMI
	port   *pmiPort     // nil unless ranks connect by TCP
	pmix   *pmix.Server // nil unless ranks speak PMIx
	logLen atomic.Int64 // bytes that ranks had shown by PMIx_Log
	tee    *stdio.Tee   // nil: output goes to the launcher only
	oom    uint64       // OOM kills of the container before the start

	ctx  context.Context // ends what serves the processes: PMI, pumps
	kill context.CancelFunc
	wg   sync.WaitGroup // everything that serves the processes
	over chan struct{}  // closed when start has returned

	mu      sync.Mutex
	procs   map[uint32]*proc // started, by rank, guarded by mu
	stopped bool             // no further process is started, guarded by mu
}

func newStep(s *session, l *apiv1.Launch) *step {
	st := &step{s: s, launch: l, procs: make(map[uint32]*proc), over: make(chan struct{})}
	st.ctx, st.kill = context.WithCancel(context.Background())
	st.up = newUpstream(s.link)
	return st
}

// checkLaunch bounds what a launcher may ask for.
func checkLaunch(l *apiv1.Launch) error {
	switch {
	case l.Number == 0 || l.Number > maxNumber:
		return fmt.Errorf("launch with number %d; 1 to %d are possible", l.Number, uint64(maxNumber))
	case len(l.Procs) == 0 || len(l.Procs) > maxProcs:
		return fmt.Errorf("launch of %d processes; 1 to %d are possible", len(l.Procs), maxProcs)
	case l.Size == 0 || l.Size > maxRanks || int(l.Size) < len(l.Procs):
		return fmt.Errorf("launch of %d processes of a job of %d", len(l.Procs), l.Size)
	case l.Terminal && len(l.Procs) != 1:
		return errors.New("launch of several processes on one terminal")
	}
	seen := make(map[uint32]bool, len(l.Procs))
	for _, p := range l.Procs {
		if p.Rank >= l.Size || seen[p.Rank] || int(p.App) >= len(l.Apps) {
			return fmt.Errorf("launch: rank %d is out of range or there twice", p.Rank)
		}
		seen[p.Rank] = true
	}
	for i, a := range l.Apps {
		if len(a.Argv) == 0 || a.Argv[0] == "" {
			return fmt.Errorf("launch: program %d has no name", i)
		}
	}
	return nil
}

// start starts the processes in order and tells the launcher of each. The first that cannot
// be started ends the attempt: the launcher will stop the rest.
func (st *step) start() {
	defer close(st.over)
	l := st.launch
	st.oom, _ = usable.OOMKills(os.DirFS("/"))
	if err := st.prepare(); err != nil {
		st.s.send(&apiv1.Frame{Body: &apiv1.Frame_StartFailed{StartFailed: &apiv1.StartFailed{
			Rank: l.Procs[0].Rank, Phase: apiv1.StartPhase_START_INIT, Text: err.Error()}}})
		return
	}
	dirs := st.directories()
	stdin := make(map[uint32]bool, len(l.Stdin))
	for _, r := range l.Stdin {
		stdin[r] = true
	}
	for _, p := range l.Procs {
		if st.isStopped() {
			return
		}
		pr := newProc(st, p, dirs[p.App], stdin[p.Rank])
		if failed := pr.start(); failed != nil && !st.isStopped() {
			st.s.send(&apiv1.Frame{Body: &apiv1.Frame_StartFailed{StartFailed: failed}})
			return
		}
	}
}

// prepare makes what the ranks share: the PMI engine, and a port when they want one.
func (st *step) prepare() error {
	l := st.launch
	st.s.audit(l)
	st.startTee()
	if l.Exec || l.Pmi == apiv1.Pmi_PMI_NONE {
		return nil
	}
	// The name is one for the job and no other's: a launcher's sessions begin alike on all hosts.
	cfg := kvs.Config{KVSName: "mpiup-" + st.s.id[:16], Size: int(l.Size)}
	for _, p := range l.Procs {
		cfg.Local = append(cfg.Local, int(p.Rank))
	}
	if len(l.Procs) < int(l.Size) {
		cfg.Upstream, cfg.Names = st.up, st.up
	}
	var err error
	if st.engine, err = kvs.New(cfg); err != nil {
		return fmt.Errorf("PMI: %w", err)
	}
	if l.Pmi == apiv1.Pmi_PMI_PMIX {
		if err := st.startPMIx(); err != nil {
			return fmt.Errorf("PMIx: %w", err)
		}
		return nil
	}
	if l.Pmi == apiv1.Pmi_PMI_PORT {
		if st.port, err = newPMIPort(st); err != nil {
			return fmt.Errorf("PMI port: %w", err)
		}
	}
	st.server = st.newPMI()
	return nil
}

// directories is the working directory of each program of the launch.
func (st *step) directories() []string {
	dirs := make([]string, len(st.launch.Apps))
	for i, a := range st.launch.Apps {
		dirs[i] = a.Wdir
		if a.Wdir == "" {
			dirs[i] = st.s.agent.cfg.Dir
			continue
		}
		if a.WdirExplicit {
			continue // a missing one is the start's error
		}
		if err := dirExists(a.Wdir); err != nil {
			dirs[i] = st.s.agent.cfg.Dir
			st.s.notice(true, "the launcher's working directory %s is not there (%v), so %s is used; set --wdir to choose",
				a.Wdir, errors.Unwrap(err), dirs[i])
		}
	}
	return dirs
}

// deliver handles the frames of a running step. It may not block.
func (st *step) deliver(f *apiv1.Frame) error {
	switch b := f.Body.(type) {
	case *apiv1.Frame_Signal:
		return st.signal(b.Signal)
	case *apiv1.Frame_Input:
		return st.input(b.Input)
	case *apiv1.Frame_Credit:
		if p := st.proc(b.Credit.Rank); p != nil {
			p.pump.Grant(int(min(b.Credit.Bytes, maxWindow)))
		}
	case *apiv1.Frame_Resize:
		for _, p := range st.all() {
			p.files.Resize(uint16(b.Resize.Rows), uint16(b.Resize.Columns))
		}
	case *apiv1.Frame_FenceResult:
		st.up.fenceResult(b.FenceResult)
	case *apiv1.Frame_NameResult:
		st.up.nameResult(b.NameResult)
	case *apiv1.Frame_FetchResult:
		st.up.fetchResult(b.FetchResult)
	case *apiv1.Frame_FetchRequest:
		st.answerFetch(b.FetchRequest)
	case *apiv1.Frame_Event, *apiv1.Frame_Gone: // nobody here has asked to be told
	default:
		return fmt.Errorf("frame %T is not for an agent", f.Body)
	}
	return nil
}

func (st *step) proc(rank uint32) *proc {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.procs[rank]
}

// isStopped tells that a stop has begun: what cannot be started any more is no failure.
func (st *step) isStopped() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.stopped
}

func (st *step) all() []*proc {
	st.mu.Lock()
	defer st.mu.Unlock()
	list := make([]*proc, 0, len(st.procs))
	for _, p := range st.procs {
		list = append(list, p)
	}
	return list
}

func (st *step) signal(s *apiv1.Signal) error {
	if s.Number <= 0 || s.Number > 64 {
		return fmt.Errorf("signal %d does not exist", s.Number)
	}
	to := st.all()
	if len(s.Ranks) > 0 {
		to = to[:0]
		for _, r := range s.Ranks {
			if p := st.proc(r); p != nil {
				to = append(to, p)
			}
		}
	}
	for _, p := range to {
		p.process.Signal(syscall.Signal(s.Number)) // one that has ended needs none
	}
	return nil
}

func (st *step) input(in *apiv1.Input) error {
	ranks := in.Ranks
	if len(ranks) == 0 {
		ranks = st.launch.Stdin
	}
	for _, r := range ranks {
		p := st.proc(r)
		if p == nil || p.input == nil {
			continue
		}
		if len(in.Data) > 0 {
			if err := p.input.Write(in.Data); err != nil {
				return err
			}
		}
		if in.Eof {
			p.input.CloseWrite()
		}
	}
	return nil
}

func (st *step) answerFetch(r *apiv1.FetchRequest) {
	res := &apiv1.FetchResult{Id: r.Id}
	if st.engine != nil {
		owner := int(r.Owner)
		if r.AnyOwner {
			owner = kvs.AnyOwner
		}
		if r.Wait && !r.AnyOwner {
			st.wg.Go(func() { st.answerAwait(r) })
			return
		}
		res.Value, res.Found = st.engine.LocalGet(owner, r.Key)
	}
	st.s.send(&apiv1.Frame{Body: &apiv1.Frame_FetchResult{FetchResult: res}})
}

// stop ends the processes: TERM, grace, CONT and KILL, then whatever of theirs is left. It
// returns when nothing is, or after a bound that only a process in uninterruptible sleep
// reaches.
func (st *step) stop(why string, grace time.Duration) {
	st.mu.Lock()
	st.stopped = true
	for _, p := range st.procs {
		p.markStopped()
	}
	st.mu.Unlock()
	left := st.s.agent.super.StopSession(context.Background(), st.s.id, min(grace, maxGrace))
	if len(left) > 0 {
		st.s.notice(true, "processes %v do not end (stopped for: %s); they wait for a device or file system", left, why)
	}
}

// grace is the time between TERM and KILL that the launcher asked for.
func (st *step) grace() time.Duration { return time.Duration(st.launch.GraceMs) * time.Millisecond }

const maxGrace = time.Hour

// wait returns when all processes have ended and all that served them has.
func (st *step) wait() {
	<-st.over
	for _, p := range st.all() {
		<-p.done
	}
	if st.port != nil {
		st.port.close()
	}
	if st.engine != nil {
		st.engine.Close(errors.New("the job has ended"))
	}
	st.kill()
	st.wg.Wait()
}
