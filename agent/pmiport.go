package agent

import (
	"context"
	"net"
	"strconv"

	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/lobby"
)

// pmiPort is where ranks connect that got PMI_PORT and PMI_ID, because something between us and
// them closes descriptors.
type pmiPort struct {
	step *step
	gate *pmi.Gate
	addr string
}

func newPMIPort(st *step) (*pmiPort, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ranks := make([]int, 0, len(st.launch.Procs))
	for _, p := range st.launch.Procs {
		ranks = append(ranks, int(p.Rank))
	}
	port := &pmiPort{step: st, gate: pmi.NewGate(ranks), addr: l.Addr().String()}
	lb := lobby.New(lobby.Config{Name: "PMI", Check: st.s.maySpeak, Admit: port.admit, Log: st.s.log})
	st.wg.Go(func() {
		if err := lb.Run(st.ctx, l); st.ctx.Err() == nil {
			st.s.notice(true, "PMI port ended: %v", err)
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
	rank, leave, err := pp.gate.Admit(c, int(pp.step.launch.Job.Size))
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
