package ranks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/loopback"
	"golang.org/x/sys/unix"
)

// pmiDescriptor is the number a rank inherits its PMI socket under: the first after the
// standard streams.
const pmiDescriptor = 3

// newPMI is the server for this host's ranks of a job.
func newPMI(st *Job) *pmi.Server {
	l := st.Launch
	apps := make(map[int]int, len(l.Procs))
	for _, p := range l.Procs {
		apps[int(p.Rank)] = int(p.App)
	}
	return pmi.New(pmi.Job{
		Space:     st.space,
		AppNum:    func(rank int) int { return apps[rank] },
		Universe:  int(l.Job.PmiUniverse),
		Mapping:   l.Job.Mapping,
		HwlocXML:  st.hint.path,
		Log:       st.s.Log,
		Reconnect: st.port != nil,
		Spawned:   l.Job.Spawned,
		Spawn: func(ctx context.Context, r job.Spawn) (int, error) {
			return st.s.Session.Spawn(ctx, int(l.Job.Number), r)
		},
		PlainBarriers: slices.ContainsFunc(l.Apps, func(a *apiv1.App) bool { return !pmi.GroupBarriers(a.Argv, a.Env) }),
		Processes:     pmi.Processes{Lives: st.s.Lives, Sleeps: st.s.Sleeps},
		Hooks: pmi.Hooks{
			OnInit:     func(rank int, who client.Process) { st.SetPMI(rank, apiv1.PmiState_PMI_RUNNING, who) },
			OnFinalize: func(rank int) { st.SetPMI(rank, apiv1.PmiState_PMI_FINALIZED, client.Process{}) },
			OnSecond: func(s client.Second) {
				if p := st.started(uint32(s.Rank)); p != nil {
					p.TellSecond(s)
				}
			},
			OnAbort: func(rank, code int, text string) {
				if p := st.started(uint32(rank)); p != nil {
					p.aborted.Store(true) // before the launcher, which then ends all, knows
				}
				st.send(AbortOf(st.id(rank), code, text, nil).Frame())
			},
		},
	})
}

// wiring is how one rank finds its PMI server.
type wiring struct {
	env    []string
	ours   net.Conn // nil unless theirs is inherited
	theirs *os.File // the rank's end, as pmiDescriptor
}

// wire prepares the way between a rank and its server.
func (p *Process) wire() (w wiring, err error) {
	st, l := p.Job, p.Job.Launch
	switch st.protocolOf(p.Spec.App) {
	case apiv1.Pmi_PMI_NONE:
		return w, nil
	case apiv1.Pmi_PMI_PMIX:
		w.env = st.pmix.Environment(int(l.Job.Number), int(p.Spec.Rank))
		return w, nil
	case apiv1.Pmi_PMI_PORT:
		w.env = []string{"PMI_PORT=" + st.port.addr, "PMI_ID=" + strconv.Itoa(st.port.gate.ID(int(p.Spec.Rank)))}
	default:
		if w.ours, w.theirs, err = pmiPair(st.s.Identify); err != nil {
			return w, err
		}
		// PMI_ID must not stand beside PMI_FD (pmi-wire.md 3.2).
		w.env = []string{"PMI_FD=" + strconv.Itoa(pmiDescriptor)}
		if st.protocolOf(p.Spec.App) == apiv1.Pmi_PMI_2 {
			w.env = append(w.env, pmi2Variable)
		}
	}
	// With PMI_PORT, rank and size are for scripts: the library learns both over the connection.
	w.env = append(w.env, fmt.Sprint("PMI_RANK=", p.Spec.Rank), fmt.Sprint("PMI_SIZE=", l.Job.Size))
	if l.Job.Spawned {
		w.env = append(w.env, "PMI_SPAWNED=1")
	}
	return w, nil
}

// pmiPair is a rank's PMI connection: ours, which tells who writes, and the descriptor it inherits.
func pmiPair(identify func(pid int) client.Process) (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("PMI socket: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "pmi")
	defer f.Close()
	theirs = os.NewFile(uintptr(fds[1]), "pmi of a rank")
	if ours, err = net.FileConn(f); err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("PMI socket: %w", err)
	}
	if c, ok := ours.(*net.UnixConn); ok {
		if known, err := client.NewCredentials(c, identify); err == nil { // else nobody is told apart
			ours = known
		}
	}
	return ours, theirs, nil
}

// servePMI answers a rank until its connection ends, and sees to what follows from how it did.
// The connection stays open until the process has ended: a rank that waits for one that is
// gone is stopped by the launcher, and should not print errors of its own before. So does one that
// aborts: clients up to MPICH 4.0 wait there (simple_pmi.c, PMI_Abort), and say "readline failed".
func (p *Process) servePMI(conn net.Conn, serve func(context.Context) error) {
	defer conn.Close()
	st := p.Job
	err := serve(st.ctx)
	var (
		protocol   *pmi.ProtocolError
		unfinished *pmi.UnfinishedError
		gone       *kvs.GoneError
	)
	switch {
	case p.aborted.Load():
		p.awaitEnd(AbortBound)
		return
	case err == nil || st.ctx.Err() != nil:
		return
	case errors.As(err, &protocol):
		p.Fail(job.BreachPMI, protocol.Error())
	case errors.As(err, &unfinished):
		p.Left(unfinished.Error())
	case errors.As(err, &gone):
		p.WireupFailed(err, gone.Gone)
	default:
		p.WireupFailed(err, nil)
	}
	select {
	case <-p.over:
	case <-st.ctx.Done():
	}
}

// exitBound is how long the end of a rank's connection waits to be explained by the end of its
// process, which says more.
const exitBound = time.Second

// WireupFailed tells the launcher that a rank's PMI cannot go on because of others, after the
// exits of those others (ids) if they come.
func (p *Process) WireupFailed(err error, culprits []int) {
	var heavy *kvs.FenceLimitError
	cause := apiv1.Stranding_STRANDED
	if errors.As(err, &heavy) {
		cause = apiv1.Stranding_STRANDED_BY_LIMIT
	}
	p.strand(cause, err.Error(), culprits)
}

// Left tells the launcher that a rank has ended its own connection after MPI_Init, and how, after its exit if that comes.
func (p *Process) Left(how string) {
	p.strand(apiv1.Stranding_STRANDED_BY_LEAVING, how, []int{int(p.ID)})
}

func (p *Process) strand(cause apiv1.Stranding, text string, culprits []int) {
	st := p.Job
	late, cancel := awake.Within(st.ctx, exitBound)
	defer cancel()
	for _, id := range culprits {
		culprit := st.s.Jobs.Process(uint32(id))
		if culprit == nil {
			continue
		}
		select {
		case <-culprit.told:
		case <-late.Done():
		}
		if st.ctx.Err() != nil {
			return
		}
	}
	if !st.isStopped() {
		gone := idset.Of(culprits...).Sub(idset.Of(int(p.ID)))
		st.send((&apiv1.WireupFailed{Rank: p.ID, Text: text, Cause: cause, Gone: gone.String()}).Frame())
	}
}

// AbortBound is how long a rank that aborts is held for a launcher that says nothing.
const AbortBound = 2 * time.Second

// awaitEnd waits for the process's end, for at most that long.
func (p *Process) awaitEnd(bound time.Duration) {
	late, cancel := awake.Within(p.Job.ctx, bound)
	defer cancel()
	select {
	case <-p.over:
	case <-late.Done():
	}
}

// AbortOf is an MPI_Abort as the launcher is told of it. targets are the processes to end; nil, or
// with the rank among them, it is the run.
func AbortOf(id, code int, text string, targets []int) *apiv1.Aborted {
	a := &apiv1.Aborted{Rank: uint32(id), Code: int32(code), Text: text}
	if !slices.Contains(targets, id) {
		a.Targets = idset.Of(targets...).String()
	}
	return a
}

// pmiPort is where ranks connect that got PMI_PORT and PMI_ID, because something between us and
// them closes descriptors.
type pmiPort struct {
	step *Job
	gate *pmi.Gate
	addr string
}

func newPMIPort(st *Job) (*pmiPort, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := &pmiPort{step: st, gate: pmi.NewGate(st.RanksHere()), addr: l.Addr().String()}
	lb := loopback.New(loopback.Config{
		Name:  "PMI",
		Check: func(ctx context.Context, c net.Conn) (client.Process, error) { return st.s.MaySpeak(ctx, nil, c) },
		Admit: port.admit,
		Log:   st.s.Log,
	})
	st.wg.Go(func() {
		if err := lb.Run(st.ctx, l); st.ctx.Err() == nil {
			st.s.Notice(true, "PMI port ended: %v", err)
		}
	})
	return port, nil
}

// admit takes a connection from who knows a rank's id.
func (pp *pmiPort) admit(c net.Conn, who client.Process) (serve func(context.Context), err error) {
	rank, leave, err := pp.gate.Admit(c)
	if err != nil {
		return nil, err
	}
	return func(context.Context) {
		defer leave()
		if err := pmi.Welcome(c, rank, int(pp.step.Launch.Job.Size)); err != nil {
			pp.step.s.Log.Info("a rank that connected is hung up on", "rank", rank, "cause", err)
			return
		}
		if p := pp.step.started(uint32(rank)); p != nil {
			known := client.Known{Conn: c, Process: who}
			p.servePMI(known, pp.step.server.Meet(known, rank))
		}
	}, nil
}
