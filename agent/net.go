package agent

import (
	"fmt"

	"github.com/mpiup/mpiup/agent/mpinet"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// netChoice is what the MPI libraries of one job's ranks are told here; the zero value tells nothing.
type netChoice struct {
	host   mpinet.Host
	choice mpinet.Choice
	ports  network.Ports
	files  map[string]rdma.Param // that Open MPI's own files set
}

// chooseNet makes the choice for a job. A job of one host does as it likes unless it was asked: its ranks
// do not need TCP, and a wrong choice could only harm.
func (st *step) chooseNet() (n netChoice, err error) {
	l := st.launch
	if l.Exec != nil || len(l.Procs) == 0 {
		return n, nil
	}
	asked, err := network.ParseWish(l.Job.Net)
	if err != nil {
		return n, fmt.Errorf("--net: %w", err)
	}
	if n.ports, err = network.ParsePorts(l.Job.MpiPorts); err != nil {
		return n, fmt.Errorf("--mpi-ports: %w", err)
	}
	if !n.ports.IsZero() && n.ports.Len() < len(l.Procs) { // UCX would look for a free one for ever
		return n, fmt.Errorf("--mpi-ports %s has fewer ports than there are ranks here, %d; each listens on one of its own", n.ports, len(l.Procs))
	}
	if !asked.IsZero() || l.Job.Hosts > 1 {
		if err := st.chooseInterface(&n, asked); err != nil {
			return n, err
		}
	}
	if st.speaks(apiv1.Pmi_PMI_PMIX) && (n.choice.Name != "" || !n.ports.IsZero()) {
		n.files = st.mcaFiles()
	}
	for _, param := range []string{"btl_tcp_if_include", "btl_tcp_if_exclude"} {
		if file := n.files["OMPI_MCA_"+param].File; file != "" && n.choice.Name != "" {
			st.s.notice(!asked.IsZero(), "Open MPI's %s sets %s, which stays: Open MPI is not told of interface %s", file, param, n.choice.Name)
		}
	}
	return n, nil
}

// chooseInterface says which with -v, once for all hosts that choose the same for the same reason.
func (st *step) chooseInterface(n *netChoice, asked network.Wish) error {
	links, err := mpinet.Links()
	if err != nil && asked.IsZero() {
		st.s.log.Info("no interface is chosen for MPI", "cause", err)
		return nil
	}
	if err != nil {
		return err
	}
	n.host = mpinet.Read(sysfs.Host(), links, st.fabric.hcas)
	if n.choice, err = mpinet.Choose(n.host, asked); err != nil {
		return err
	}
	if n.choice.Name != "" {
		st.s.notice(false, "MPI libraries use interface %s for TCP, since %s", n.choice.Name, n.choice.Why)
	}
	return nil
}

// networkVariables are a rank's. What its program's own environment says stays, and so do Open MPI's files.
func (p *proc) networkVariables(app *apiv1.App) []string {
	n := &p.step.net
	speaks := mpinet.PMI
	switch p.step.protocolOf(p.spec.App) {
	case apiv1.Pmi_PMI_NONE:
		speaks = mpinet.Nothing
	case apiv1.Pmi_PMI_PMIX:
		speaks = mpinet.PMIx
	}
	return mpinet.Variables(n.host, n.choice, n.ports, speaks, func(name string) bool { return n.files[name].File != "" || p.has(app, name) })
}
