package outfit

import (
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// chooseNet makes the choice for a job. A job of one host does as it likes unless it was asked: its ranks
// do not need TCP, and a wrong choice could only harm.
func (o *Outfit) chooseNet() error {
	l := o.job.Launch
	if l.idle() {
		return nil
	}
	asked, ports := l.wishes.net, l.wishes.ports
	if !ports.IsZero() && ports.Len() < len(l.Procs) { // UCX would look for a free one for ever
		return fmt.Errorf("--mpi-ports %s has fewer ports than there are ranks here, %d; each listens on one of its own", ports, len(l.Procs))
	}
	if l.Needs().Interfaces {
		if err := o.chooseInterface(); err != nil {
			return err
		}
	}
	if o.speaks(apiv1.Pmi_PMI_PMIX) && (o.net.Name != "" || !ports.IsZero()) {
		o.mcaFiles = o.host.MCAFiles
	}
	for _, param := range []string{"btl_tcp_if_include", "btl_tcp_if_exclude"} {
		if file := o.mcaFiles["OMPI_MCA_"+param].File; file != "" && o.net.Name != "" {
			o.notice(!asked.IsZero(), "Open MPI's %s sets %s, which stays: Open MPI is not told of interface %s", file, param, o.net.Name)
		}
	}
	return nil
}

// chooseInterface says which with -v, once for all hosts that choose the same for the same reason. Where interfaces
// cannot be read, that is an error for who asked for one.
func (o *Outfit) chooseInterface() (err error) {
	asked := o.job.Launch.wishes.net
	if o.host.InterfacesErr != nil {
		if asked.IsZero() {
			return nil
		}
		return o.host.InterfacesErr
	}
	if o.net, err = Choose(o.host.Interfaces, asked); err != nil {
		return err
	}
	if o.net.Name != "" {
		o.notice(false, "MPI libraries use interface %s for TCP, since %s", o.net.Name, o.net.Why)
	}
	return nil
}

// networkVariables are a rank's. What its program's own environment says stays, and so do Open MPI's files.
func (o *Outfit) networkVariables(p *apiv1.Proc) []string {
	program := o.job.Programs[p.App]
	set := o.given(program.App)
	speaks := pmi
	switch program.Protocol {
	case apiv1.Pmi_PMI_NONE:
		speaks = nothing
	case apiv1.Pmi_PMI_PMIX:
		speaks = pmix
	}
	return variablesOf(o.host.Interfaces, o.net, o.job.Launch.wishes.ports, speaks,
		func(name string) bool { return o.mcaFiles[name].File != "" || set(name) })
}
