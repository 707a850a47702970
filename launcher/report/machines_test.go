package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/placement"
)

// tellsMachine notes what a host of 96 CPUs, 8 GPUs and 8 HCAs tells of ranks from the first on; kind makes its machine another one.
func tellsMachine(t *testing.T, r *Recorder, host string, first, kind int) {
	t.Helper()
	var threads []layout.Thread
	for cpu := range 96 {
		in := layout.Thread{CPU: cpu}
		in.In[layout.Core], in.In[layout.NUMA], in.In[layout.Package] = cpu/2, cpu/48, cpu/48
		threads = append(threads, in)
	}
	l, err := layout.New(threads)
	if err != nil {
		t.Fatal(err)
	}
	m, seats := placement.Machine{Layout: l}, map[int]placement.Seat{-1: {GPUs: []int{0}}, 1 << 31: {GPUs: []int{0}}}
	for i := range 8 {
		near := idset.Range(i/4*48, i/4*48+47)
		m.GPUs = append(m.GPUs, placement.Device{Name: fmt.Sprint("GPU", i), Text: fmt.Sprint("H100 of kind ", kind), Near: near})
		m.HCAs = append(m.HCAs, placement.Device{Name: fmt.Sprint("mlx5_", i), Text: "port 1 ACTIVE InfiniBand 400 Gb/sec", Near: near})
		seats[first+i] = placement.Seat{GPUs: []int{i}, HCAs: []string{fmt.Sprint("mlx5_", i)}}
	}
	r.Seats(host, fmt.Sprint(kind), seats, func() placement.Machine { return m })
}

// TestMachines keeps one machine of 64 hosts that are alike, and draws one. Of hosts that are all different those for which there is room are kept.
func TestMachines(t *testing.T) {
	for _, tt := range []struct {
		name         string
		kinds        int
		least, most  int // machines that are kept
		hosts, drawn int
	}{
		{"alike", 1, 1, 1, 64, 1},
		{"two kinds", 2, 2, 2, 64, 2},
		{"all different", 500, 10, maxMachines, 500, 64},
	} {
		r := Recorder{}
		r.Begin(Report{Begun: time.Unix(1000, 0)})
		for h := range tt.hosts {
			r.Host(Host{Name: fmt.Sprint("w", h), Slots: 8}, begun)
			for i := range 8 {
				r.Rank(Rank{Rank: 8*h + i, Host: fmt.Sprint("w", h), CPUs: fmt.Sprint(12*i, "-", 12*i+11)})
			}
		}
		for h := range tt.hosts {
			tellsMachine(t, &r, fmt.Sprint("w", h), 8*h, h%tt.kinds)
		}
		text, err := json.Marshal(r.Report(Report{}).Machines)
		if n := len(r.report.Machines); err != nil || n < tt.least || n > tt.most || len(text) > maxMachine+1024 {
			t.Errorf("%s: %d machines, %d bytes, %v", tt.name, n, len(text), err)
		}
		text, _ = json.Marshal(r.Report(Report{Job: "j"}))
		back, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		plan, machines := back.Ran()
		if err := placement.Ran(&b, plan, machines); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), `class="host"`); n > tt.drawn || b.Len() > 4<<20 {
			t.Errorf("%s: %d hosts are drawn in %d bytes", tt.name, n, b.Len())
		}
		for _, want := range map[int][]string{1: {"w[0-63] alike, each with   8 ranks of 8 slots", "ranks 0-504 by 8: CPUs 0-11, GPU0, mlx5_0", "GPU7 H100 of kind 0: ranks 7-511 by 8"},
			2: {"w[0,2,4", "w[1,3,5", "GPU0 H100 of kind 1: ranks 8-504 by 16"}}[tt.kinds] {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: %q is not drawn", tt.name, want)
			}
		}
	}
}

// What a host tells of others' ranks, or of what it does not have, changes nothing.
func TestSeatsOfOthers(t *testing.T) {
	r := Recorder{}
	r.Begin(Report{Begun: time.Unix(1000, 0)})
	r.Host(Host{Name: "w0"}, begun)
	r.Host(Host{Name: "w1"}, begun)
	r.Rank(Rank{Rank: 0, Host: "w0"})
	r.Rank(Rank{Rank: 1, Host: "w1"})
	r.Rank(Rank{Job: 1, Rank: 0, Host: "w0"})
	tellsMachine(t, &r, "w0", 0, 0)
	tellsMachine(t, &r, "nobody", 0, 1)
	is := r.Report(Report{})
	if is.Ranks[0].Seat == nil || is.Ranks[1].Seat != nil || is.Ranks[2].Seat != nil || is.Hosts[0].Machine != 1 || is.Hosts[1].Machine != 0 || len(is.Machines) != 1 {
		t.Errorf("%+v", is)
	}
	r.Seats("w1", "nothing", map[int]placement.Seat{1: {HCAs: make([]string, 9000)}}, func() placement.Machine { return placement.Machine{} })
	if is := r.Report(Report{}); is.Hosts[1].Machine != 0 || is.Ranks[1].Seat != nil {
		t.Errorf("a host that tells nothing: %+v", is)
	}
}

// A report may be anybody's: machines all of whose sets overlap, and as many hosts as a file has room for, are drawn in little time and room.
func TestRanOfAnybodysReport(t *testing.T) {
	all := make([]string, layout.MaxThreads)
	for i := range all {
		all[i] = fmt.Sprint(i, ",0-", layout.MaxThreads-1)
	}
	all[0] = "0-1"
	r := &Report{}
	for i := range 2 * maxMachines {
		r.Machines = append(r.Machines, Machine{Cores: all[:len(all)/(i+1)], NUMA: all[:len(all)/(i+1)], Packages: []string{"0-3", "1-8191", "x"}, GPUs: []Device{{Near: "x"}}})
	}
	for i := range 20_000 {
		name := fmt.Sprint("w", i)
		r.Hosts = append(r.Hosts, Host{Name: name, Machine: i})
		r.Ranks = append(r.Ranks, Rank{Rank: i, Host: name, CPUs: "0-8191", Seat: &placement.Seat{GPUs: []int{-1, 0, 1 << 40}}})
	}
	begun := time.Now()
	plan, machines := r.Ran()
	var b strings.Builder
	if err := placement.Ran(&b, plan, machines); err != nil || b.Len() > 16<<20 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("%v", took)
	}
	l := machines[1].Layout
	if l == nil || len(l.Objects(layout.Core)) != 1 || l.Objects(layout.Core)[0].String() != "0-1" || len(l.Objects(layout.Package)) != 1 {
		t.Errorf("%+v", l)
	}
}
