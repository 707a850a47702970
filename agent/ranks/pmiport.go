package ranks

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/lobby"
)

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
	ranks := make([]int, 0, len(st.Launch.Procs))
	for _, p := range st.Launch.Procs {
		ranks = append(ranks, int(p.Rank))
	}
	port := &pmiPort{step: st, gate: pmi.NewGate(ranks), addr: l.Addr().String()}
	lb := lobby.New(lobby.Config{Name: "PMI", Check: func(ctx context.Context, c net.Conn) error { return MaySpeak(ctx, st.s.Super, st.s.ID, nil, c) }, Admit: port.admit, Log: st.s.Log})
	st.wg.Go(func() {
		if err := lb.Run(st.ctx, l); st.ctx.Err() == nil {
			st.Notice(true, "PMI port ended: %v", err)
		}
	})
	return port, nil
}

// variables point a rank at the port.
func (pp *pmiPort) variables(rank uint32) []string {
	return []string{"PMI_PORT=" + pp.addr, "PMI_ID=" + strconv.Itoa(pp.gate.ID(int(rank)))}
}

// admit takes a connection from who knows a rank's id.
func (pp *pmiPort) admit(c net.Conn) (serve func(context.Context), err error) {
	rank, leave, err := pp.gate.Admit(c, int(pp.step.Launch.Job.Size))
	if err != nil {
		return nil, err
	}
	return func(context.Context) {
		defer leave()
		if p := pp.step.started(uint32(rank)); p != nil {
			p.servePMI(c)
		}
	}, nil
}

// MaySpeak lets only the ranks of a session here and their descendants speak on a loopback port,
// where anybody on the host can connect. Where /proc does not show whose a socket is, its user decides.
// What speaks has to know a namespace's or a rank's random bits besides. likely is whose port it is, where that is
// known: Horovod's ranks connect a thousand times.
func MaySpeak(ctx context.Context, super *reap.Supervisor, session string, likely *reap.Process, c net.Conn) error {
	peer, err := lobby.PeerOf(c)
	if err != nil {
		return err
	}
	if super.Holds(ctx, session, likely, peer.Inode, peer.UID) == reap.NotHeld {
		return fmt.Errorf("a process of uid %d holds the other end, and none of this host's ranks or their descendants (the agent is uid %d)",
			peer.UID, os.Getuid())
	}
	return nil
}

// maySpeak is MaySpeak for a rank's own port.
func (st *Job) maySpeak(ctx context.Context, rank int, c net.Conn) error {
	st.mu.Lock()
	p := st.procs[uint32(rank)]
	st.mu.Unlock()
	if p == nil { // it is being started
		return MaySpeak(ctx, st.s.Super, st.s.ID, nil, c)
	}
	return MaySpeak(ctx, st.s.Super, st.s.ID, p.process, c)
}
