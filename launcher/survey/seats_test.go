package survey_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/survey"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/drawing"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// there is an agent on a machine of the corpus.
type there struct {
	survey.Agent // what seats do not ask
	on           *layout.Layout
	machine      *topology.Machine
	host         outfit.Host
	reply        func(*apiv1.Seats)
}

func (a *there) Checkup(_ context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	seats := outfit.Seats(r.Launch, a.on, a.machine, a.host)
	if a.reply != nil {
		a.reply(seats)
	}
	return &apiv1.CheckupReply{Seats: seats}, nil
}

func agentOn(t *testing.T, name string) *there {
	t.Helper()
	files := machine.FS(t, name)
	m, err := discover.Machine(sysfs.New(files), 4096)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := discover.FindCgroups(sysfs.New(files)).Limit(m)
	if err != nil {
		t.Fatal(err)
	}
	on, err := m.Layout(limits.CPUs)
	if err != nil {
		t.Fatal(err)
	}
	gpus := gpu.Read(sysfs.New(files), func(string) (string, bool) { return "", false })
	hcas := rdma.Read(sysfs.New(files), rdma.Config{Survey: true})
	return &there{on: on, machine: m, host: outfit.Host{FileGPUs: gpus, GPUs: gpus, HCAs: hcas}}
}

// drawn is a job's picture on hosts of one machine.
func drawn(t *testing.T, a *there, hosts, ranks int, wish gpu.Wish, env ...string) (text string, shown drawing.Shown) {
	t.Helper()
	j := survey.Seating{Apps: []job.App{{Argv: []string{"./train"}, N: ranks, Env: env}}, GPUs: wish}
	var list []job.Host
	var asked []survey.Host
	near := a.host.GPUs.Units()
	for i := range hosts {
		h := job.Host{Name: fmt.Sprint("w", i), Slots: ranks / hosts, Layout: a.on}
		for _, u := range near {
			h.NearGPUs = append(h.NearGPUs, u.GPU.Near)
		}
		list, asked = append(list, h), append(asked, survey.Host{Name: h.Name, Agent: a})
	}
	var err error
	if j.Plan, err = placement.Place(list, j.Apps, placement.Policy{}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := placement.SVG(&b, j.Plan, j.Apps, survey.Seats(context.Background(), asked, j)); err != nil {
		t.Fatal(err)
	}
	return b.String(), drawing.Is(t, b.String())
}

// Each rank is drawn with the CPUs, the GPU and the HCA that its agent would give it.
func TestRanksOnBigMachines(t *testing.T) {
	a := agentOn(t, "h100")
	text, shown := drawn(t, a, 2, 16, gpu.Wish{PerRank: 1})
	golden.Is(t, "testdata/h100.svg", text)
	for _, want := range []string{"rank 0: CPUs 0-47, GPU0, mlx5_0", "rank 15: CPUs 48-95, GPU7, mlx5_7"} {
		if !strings.Contains(strings.Join(shown.Tips, "\n"), want) {
			t.Errorf("%q is not in %q", want, shown.Tips)
		}
	}
	for _, tt := range []struct {
		name, machine string
		ranks         int
		wish          gpu.Wish
		env, want     string
	}{
		{"ranks see all GPUs", "h100", 16, gpu.Wish{}, "", "rank 0: CPUs 0-47, (GPU0) sees all, mlx5_0"},
		{"the user chose", "h100", 16, gpu.Wish{}, "CUDA_VISIBLE_DEVICES=3", "rank 0: CPUs 0-47, mlx5_0"},
		{"more than there are", "h100", 32, gpu.Wish{PerRank: 1}, "", "16 ranks with 1 GPUs each need 16, and this host has 8"},
		{"xGMI", "mi300x", 16, gpu.Wish{PerRank: 1}, "", "GPU1, mlx5_"},
		{"one node", "container", 4, gpu.Wish{}, "", "rank 0"},
	} {
		var env []string
		if tt.env != "" {
			env = append(env, tt.env)
		}
		_, shown := drawn(t, agentOn(t, tt.machine), 2, tt.ranks, tt.wish, env...)
		if all := strings.Join(append(shown.Tips, shown.Texts...), "\n"); !strings.Contains(all, tt.want) {
			t.Errorf("%s: %q is not in\n%s", tt.name, tt.want, all)
		}
	}
}

// 512 ranks are readable, and of 100 hosts the first are drawn and the rest counted.
func TestManyHostsAreDrawn(t *testing.T) {
	text, shown := drawn(t, agentOn(t, "h100"), 64, 512, gpu.Wish{PerRank: 1})
	all := strings.Join(shown.Texts, "\n")
	if len(text) > 4<<20 || !strings.Contains(all, "rank 511\n") || !strings.Contains(all, "w63") {
		t.Errorf("%d bytes", len(text))
	}
	text, shown = drawn(t, agentOn(t, "h100"), 100, 800, gpu.Wish{})
	all = strings.Join(shown.Texts, "\n")
	if len(text) > 4<<20 || !strings.Contains(all, "the first 64 hosts; the plan above has 36 more") {
		t.Errorf("%d bytes, %q", len(text), shown.Texts[:3])
	}
}

// What a host tells of its machine is bounded and shown; it does nothing else.
func TestSeatsOfHostileHosts(t *testing.T) {
	const nasty = "\"/><script>alert(1)</script>\x1b[2J\x00\u202e\n&"
	a := agentOn(t, "h100")
	for name, reply := range map[string]func(*apiv1.Seats){
		"names": func(s *apiv1.Seats) {
			s.Error = nasty
			for _, d := range append(s.Gpus, s.Hcas...) {
				d.Name, d.Text, d.Missing = nasty, strings.Repeat(nasty, 1000), nasty
			}
		},
		"numbers": func(s *apiv1.Seats) {
			for _, seat := range s.Seats {
				seat.Gpus, seat.Hcas = append(seat.Gpus, 1<<31, 9), append(seat.Hcas, "mlx5_99", nasty)
			}
			s.Gpus[0].NearCpus, s.Gpus[1].NearCpus = "0-4294967295", "x"
		},
		"no machine":   func(s *apiv1.Seats) { s.Machine = nil },
		"half of one":  func(s *apiv1.Seats) { s.Machine.Numa = s.Machine.Numa[:3] },
		"nothing":      func(s *apiv1.Seats) { *s = apiv1.Seats{} },
		"other ranks":  func(s *apiv1.Seats) { s.Seats = append(s.Seats, nil, &apiv1.Seat{Rank: 1 << 31}) },
		"many devices": func(s *apiv1.Seats) { s.Gpus = append(s.Gpus, make([]*apiv1.SeatDevice, 1<<20)...) },
	} {
		a.reply = reply
		if text, _ := drawn(t, a, 2, 16, gpu.Wish{PerRank: 1}); len(text) > 4<<20 {
			t.Errorf("%s: %d bytes", name, len(text))
		}
	}
}

// Hosts are asked for their seats in words that make no sense by nobody but a launcher that lies.
func TestLaunchesWithoutSeats(t *testing.T) {
	a := agentOn(t, "h100")
	for name, l := range map[string]*apiv1.Launch{
		"empty":      {},
		"no program": {Job: &apiv1.Job{Hosts: 2}, Procs: []*apiv1.Proc{{App: 7}}},
		"nil":        {Job: &apiv1.Job{}, Apps: []*apiv1.App{nil}, Procs: []*apiv1.Proc{nil}},
		"CPUs":       {Job: &apiv1.Job{}, Apps: []*apiv1.App{{Argv: []string{"a"}}}, Procs: []*apiv1.Proc{{Cpus: "x"}}},
		"fabric":     {Job: &apiv1.Job{Fabric: &apiv1.Fabric{Use: "x"}}, Apps: []*apiv1.App{{}}, Procs: []*apiv1.Proc{{}}},
		"GPUs":       {Job: &apiv1.Job{GpuBind: "map:99"}, Apps: []*apiv1.App{{}}, Procs: []*apiv1.Proc{{}}},
		"an exec":    {Job: &apiv1.Job{}, Exec: &apiv1.Exec{}},
		"a wish":     {Job: &apiv1.Job{Hosts: 2, GpuBind: "x"}, Apps: []*apiv1.App{{}}, Procs: []*apiv1.Proc{{LocalRank: 1 << 31}}},
	} {
		if s := outfit.Seats(l, a.on, a.machine, a.host); s.Error == "" || len(s.Seats) > 0 {
			t.Errorf("%s: %v", name, s.Seats)
		}
	}
}
