package agent

import (
	"fmt"

	"github.com/mpiup/mpiup/agent/mpinet"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// netChoice is what the MPI libraries of one job's ranks are told here; the zero value tells nothing.
type netChoice struct {
	host   mpinet.Host
	choice mpinet.Choice
	ports  network.Ports
}

// chooseNet makes the choice for a job. A job of one host does as it likes unless it was asked: its ranks
// do not need TCP, and a wrong choice could only harm.
func (st *step) chooseNet() (n netChoice, err error) {
	l := st.launch
	if l.Exec || len(l.Procs) == 0 {
		return n, nil
	}
	asked, err := network.ParseWish(l.Net)
	if err != nil {
		return n, fmt.Errorf("--net: %w", err)
	}
	if n.ports, err = network.ParsePorts(l.MpiPorts); err != nil {
		return n, fmt.Errorf("--mpi-ports: %w", err)
	}
	if !n.ports.IsZero() && n.ports.Len() < len(l.Procs) { // UCX would look for a free one for ever
		return n, fmt.Errorf("--mpi-ports %s has fewer ports than there are ranks here, %d; each listens on one of its own", n.ports, len(l.Procs))
	}
	if asked.IsZero() && l.Hosts < 2 {
		return n, nil
	}
	links, err := mpinet.Links()
	if err != nil {
		if asked.IsZero() {
			st.s.log.Info("no interface is chosen for MPI", "cause", err)
			return n, nil
		}
		return n, err
	}
	n.host = mpinet.Read(sysfs.Host(), links)
	if n.choice, err = mpinet.Choose(n.host, asked); err != nil {
		return n, err
	}
	if n.choice.Name != "" {
		st.s.notice(false, "MPI libraries use interface %s for TCP, since %s", n.choice.Name, n.choice.Why)
	}
	return n, nil
}

// networkVariables are a rank's. What its program's own environment says stays.
func (p *proc) networkVariables(app *apiv1.App) []string {
	n := &p.step.net
	speaks := mpinet.PMI
	switch p.step.protocolOf(p.spec.App) {
	case apiv1.Pmi_PMI_NONE:
		speaks = mpinet.Nothing
	case apiv1.Pmi_PMI_PMIX:
		speaks = mpinet.PMIx
	}
	return mpinet.Variables(n.host, n.choice, n.ports, speaks, func(name string) bool { return p.has(app, name) })
}
