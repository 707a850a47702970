package report

import (
	"encoding/json"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/launcher/placement"
)

// Machine is one that hosts of the run have, as far as it may be used.
type Machine struct {
	Cores    []string `json:"cores,omitempty"` // the CPUs of each, by the kernel's numbers: "0,64"
	NUMA     []string `json:"numa,omitempty"`
	Packages []string `json:"packages,omitempty"`
	GPUs     []Device `json:"gpus,omitempty"`
	HCAs     []Device `json:"hcas,omitempty"`
}

// Device is a GPU or an HCA of a Machine.
type Device struct {
	Name    string `json:"name"`
	Text    string `json:"text,omitempty"`    // its model or ports
	Near    string `json:"near,omitempty"`    // CPUs
	Missing string `json:"missing,omitempty"` // why it cannot be used
}

// Bounds of what hosts tell of their machines.
const (
	maxMachines = 64
	maxMachine  = 128 << 10 // bytes of all machines in JSON: some fifty of 128 CPUs with GPUs and HCAs
	maxDevices  = 64        // of a machine, of each kind, and of a rank
	maxSeats    = 16 << 10  // devices of all ranks
)

// machines are those that are told, each once.
type machines struct {
	of    map[string]int // 1 + index in Report.Machines, by who they are; 0: there was no room
	bytes int
	seats int // devices of ranks
}

// Seats notes what a host tells of its machine, which is the same as others' of this name, and of the seats of its ranks of the first job.
func (r *Recorder) Seats(host, name string, seats map[int]placement.Seat, told func() placement.Machine) {
	for id, seat := range seats {
		n := len(seat.GPUs) + len(seat.HCAs)
		if id < 0 || id >= len(r.report.Ranks) || n > 2*maxDevices || r.machines.seats+n > maxSeats {
			continue
		}
		if p := &r.report.Ranks[id]; p.Host == host && p.Job == 0 && p.Seat == nil && n > 0 {
			r.machines.seats += n
			seat.HCAs = slices.Clone(seat.HCAs)
			for i, hca := range seat.HCAs {
				seat.HCAs[i] = short(hca)
			}
			p.Seat = &seat
		}
	}
	for i := range r.report.Hosts {
		if r.report.Hosts[i].Name == host {
			r.report.Hosts[i].Machine = r.machine(name, told)
		}
	}
}

// machine is 1 + the index of what a host tells; 0: it tells nothing, or there are too many.
func (r *Recorder) machine(name string, told func() placement.Machine) int {
	if i, known := r.machines.of[name]; known || len(r.machines.of) >= 2*maxMachines {
		return i
	}
	if r.machines.of == nil {
		r.machines.of = map[string]int{}
	}
	r.machines.of[name] = 0
	m := told()
	is := Machine{GPUs: devices(m.GPUs), HCAs: devices(m.HCAs)}
	if l := m.Layout; l != nil {
		is.Cores, is.NUMA, is.Packages = texts(l.Objects(layout.Core)), texts(l.Objects(layout.NUMA)), texts(l.Objects(layout.Package))
	}
	packed, err := json.Marshal(is)
	if len(is.Cores)+len(is.GPUs)+len(is.HCAs) == 0 || err != nil || len(r.report.Machines) >= maxMachines || r.machines.bytes+len(packed) > maxMachine {
		return 0
	}
	r.machines.bytes += len(packed)
	r.report.Machines = append(r.report.Machines, is)
	r.machines.of[name] = len(r.report.Machines)
	return len(r.report.Machines)
}

func texts(sets []idset.Set) (list []string) {
	for _, s := range sets {
		list = append(list, s.String())
	}
	return list
}

func devices(told []placement.Device) (list []Device) {
	for _, d := range told[:min(len(told), maxDevices)] {
		list = append(list, Device{short(d.Name), short(d.Text), d.Near.String(), short(d.Missing)})
	}
	return list
}

func short(text string) string { return cut(secret.MaskText(text), maxText/4) }

// Ran is where the ranks of the first job were: its hosts, and what machine each is with what ranks had of it, as far as the report tells.
func (r *Report) Ran() (*job.Plan, []placement.Machine) {
	plan, kinds := &job.Plan{}, make([]placement.Machine, min(len(r.Machines), maxMachines))
	for i := range kinds {
		kinds[i] = r.Machines[i].drawn()
	}
	named := map[string]*Host{}
	for i := range r.Hosts {
		named[r.Hosts[i].Name] = &r.Hosts[i]
	}
	var all []placement.Machine
	index, local := map[string]int{}, map[string]int{}
	for _, p := range r.Ranks {
		if p.Job != 0 {
			continue
		}
		h, known := index[p.Host]
		if !known {
			h = len(plan.Hosts)
			index[p.Host] = h
			m := placement.Machine{}
			is := job.Host{Name: p.Host}
			if host := named[p.Host]; host != nil {
				if is.Slots = host.Slots; host.Machine > 0 && host.Machine <= len(kinds) {
					m = kinds[host.Machine-1]
				}
			}
			m.Seats = map[int]placement.Seat{}
			plan.Hosts, all = append(plan.Hosts, is), append(all, m)
		}
		cpus, _ := idset.Within(p.CPUs, layout.MaxThreads)
		if p.Seat != nil {
			all[h].Seats[len(plan.Placements)] = *p.Seat
		}
		plan.Placements = append(plan.Placements, job.Placement{Rank: job.Rank(p.Rank), Host: h, LocalRank: local[p.Host], CPUs: cpus})
		local[p.Host]++
	}
	return plan, all
}

// drawn is the machine as it is drawn, without ranks. A report may be anybody's: what makes no sense is not there.
func (m Machine) drawn() (is placement.Machine) {
	var threads []layout.Thread
	numa, packages := homes(m.NUMA), homes(m.Packages)
	for cpu, core := range homes(m.Cores) {
		t := layout.Thread{CPU: cpu}
		for _, k := range layout.Kinds() {
			t.In[k] = -1
		}
		t.In[layout.Core] = core
		for k, of := range map[layout.Kind]map[int]int{layout.NUMA: numa, layout.Package: packages} {
			if i, known := of[cpu]; known {
				t.In[k] = i
			}
		}
		threads = append(threads, t)
	}
	slices.SortFunc(threads, func(a, b layout.Thread) int { return a.CPU - b.CPU })
	is.Layout, _ = layout.New(threads) // nil where it is none
	is.GPUs, is.HCAs = drawnDevices(m.GPUs), drawnDevices(m.HCAs)
	return is
}

// homes are the indices of the sets in which CPUs are. Of sets that overlap, as no machine's do, the first is taken.
func homes(list []string) map[int]int {
	of := map[int]int{}
	var all idset.Set
	for i, text := range list[:min(len(list), layout.MaxThreads)] {
		cpus, err := idset.Within(text, layout.MaxThreads)
		if err != nil || cpus.Overlaps(all) {
			continue
		}
		all = all.Union(cpus)
		for cpu := range cpus.All() {
			of[cpu] = i
		}
	}
	return of
}

func drawnDevices(list []Device) (all []placement.Device) {
	for _, d := range list[:min(len(list), maxDevices)] {
		near, _ := idset.Within(d.Near, layout.MaxThreads)
		all = append(all, placement.Device{Name: d.Name, Text: d.Text, Missing: d.Missing, Near: near})
	}
	return all
}
