package outfit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology"
)

// Seats says where the ranks of a launch would sit here, by the same choices as New's, and on what machine; on is nil
// where that is not known. What would stop their start is told as such.
func Seats(m *apiv1.Launch, on *layout.Layout, machine *topology.Machine, h Host) *apiv1.Seats {
	o, err := seated(m, on, machine, h)
	if err != nil {
		o = &Outfit{job: Job{Launch: &Launch{Launch: &apiv1.Launch{}}}, host: h}
	}
	reply := o.Seats(on, h.HCAs)
	if err != nil {
		reply.Error = err.Error()
	}
	return reply
}

// Seats says where the job's ranks sit here, on which machine with which HCAs.
func (o *Outfit) Seats(on *layout.Layout, hcas rdma.Inventory) *apiv1.Seats {
	reply := &apiv1.Seats{Machine: apiv1.PackMachine(on)}
	inv := o.host.GPUs
	if len(inv.GPUs) == 0 {
		inv = o.host.FileGPUs
	}
	units := inv.Units()
	for i, u := range units {
		d := &apiv1.SeatDevice{Name: fmt.Sprint("GPU", i), Text: u.GPU.Model, NearCpus: u.GPU.Near.String()}
		if u.MIG != nil {
			d.Text += ", a MIG device"
		}
		reply.Gpus = append(reply.Gpus, d)
	}
	for _, hca := range hcas.Hardware() {
		d := &apiv1.SeatDevice{Name: hca.Name, NearCpus: hca.Near.String(), Missing: hca.Missing}
		for _, p := range hca.Ports {
			d.Text += fmt.Sprintf("port %d %s %s %s ", p.Number, p.State, p.Layer, p.Speed)
		}
		reply.Hcas = append(reply.Hcas, d)
	}
	for _, p := range o.job.Procs {
		seat := &apiv1.Seat{Rank: p.Rank}
		for _, n := range o.gpus.units[p.Rank] {
			seat.Gpus = append(seat.Gpus, uint32(n))
		}
		if len(seat.Gpus) == 0 && len(units) > 0 && gpu.SetAlready(inv.Vendor, o.given(o.job.Apps[p.App])) == "" {
			seat.Gpus, seat.AllGpus = []uint32{p.LocalRank % uint32(len(units))}, true
		}
		for _, v := range o.fabricVariables(p) {
			if v.Name != "UCX_NET_DEVICES" {
				continue
			}
			for port := range strings.SplitSeq(v.Value, ",") {
				name, _, _ := strings.Cut(port, ":")
				seat.Hcas = append(seat.Hcas, name)
			}
		}
		reply.Seats = append(reply.Seats, seat)
	}
	return reply
}

// seated makes the choices on which seats depend, for a launch that makes sense.
func seated(m *apiv1.Launch, on *layout.Layout, machine *topology.Machine, h Host) (*Outfit, error) {
	if m.Job == nil || len(m.Procs) > apiv1.MaxProcs || m.Exec != nil {
		return nil, errors.New("no job whose ranks have seats")
	}
	for _, p := range m.Procs {
		if p == nil || int(p.App) >= len(m.Apps) || m.Apps[p.App] == nil {
			return nil, errors.New("a rank without a program")
		}
	}
	l, err := Parse(m)
	if err != nil {
		return nil, err
	}
	o := &Outfit{job: Job{Launch: l, Bound: l.Bind(on, machine)}, host: h}
	for _, a := range m.Apps {
		o.job.Programs = append(o.job.Programs, Program{App: a})
	}
	for _, choose := range []func() error{func() error { return l.unfit }, o.chooseFabric, o.chooseGPUs} {
		if err := choose(); err != nil {
			return nil, err
		}
	}
	return o, nil
}
