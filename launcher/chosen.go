package launcher

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// choices is what agents say of the protocols that the ranks of each app get. The zero value is
// ready for use.
type choices struct {
	apps map[appID]*appChoices
}

// appID is a program of a job.
type appID struct{ job, app uint32 }

type appChoices struct {
	distinct []choice
	heard    map[int]bool // hosts, by index
}

// choice is one answer and the hosts that gave it.
type choice struct {
	pmi          apiv1.Pmi
	library, why string
	hosts        []namedHost
}

type namedHost struct {
	index int
	name  string
}

// maxReason bounds what an agent may have shown of a choice, in bytes.
const maxReason = 512

// add takes what a host says of an app that has ranks on so many hosts. All have answered when it
// returns true.
func (c *choices) add(host int, name string, hosts int, m *apiv1.Chosen) (all bool, err error) {
	id := appID{m.Job, m.App}
	a := c.apps[id]
	if a == nil {
		a = &appChoices{heard: map[int]bool{}}
		if c.apps == nil {
			c.apps = map[appID]*appChoices{}
		}
		c.apps[id] = a
	}
	if a.heard[host] {
		return false, fmt.Errorf("chose a protocol for program %d of job %d twice", m.App, m.Job)
	}
	a.heard[host] = true
	library, why := clipped(m.Library), clipped(m.Why)
	i := slices.IndexFunc(a.distinct, func(d choice) bool { return d.pmi == m.Pmi && d.library == library && d.why == why })
	if i < 0 {
		i = len(a.distinct)
		a.distinct = append(a.distinct, choice{pmi: m.Pmi, library: library, why: why})
	}
	a.distinct[i].hosts = append(a.distinct[i].hosts, namedHost{host, name})
	return len(a.heard) == hosts, nil
}

// of is what the first host said of an app.
func (c *choices) of(job, app uint32) (choice, bool) {
	if a := c.apps[appID{job, app}]; a != nil {
		return a.distinct[0], true
	}
	return choice{}, false
}

// lines says what was chosen for an app and why, one line for each distinct choice.
func (c *choices) lines(job, app uint32, program string) (lines []string) {
	if a := c.apps[appID{job, app}]; a != nil {
		for _, d := range a.distinct {
			lines = append(lines, fmt.Sprintf("%s: %s: %s, since %s", hostNames(d.hosts), program, pmiName(d.pmi), d.why))
		}
	}
	return lines
}

// conflict is a sentence about hosts of one app that use different protocols or libraries, whose
// ranks cannot talk to each other; "" when all agree. Where a library lies is no difference.
func (c *choices) conflict(job, app uint32, program string) string {
	a := c.apps[appID{job, app}]
	if a == nil {
		return ""
	}
	var kinds []choice
	for _, d := range a.distinct {
		d.library = libraryName(d.library)
		i := slices.IndexFunc(kinds, func(k choice) bool { return k.pmi == d.pmi && k.library == d.library })
		if i < 0 {
			kinds = append(kinds, d)
			continue
		}
		kinds[i].hosts = slices.Concat(kinds[i].hosts, d.hosts)
	}
	if len(kinds) < 2 {
		return ""
	}
	const most = 4
	var parts []string
	for _, k := range kinds[:min(len(kinds), most)] {
		library := k.library
		if library == "" {
			library = "no MPI library found"
		}
		parts = append(parts, fmt.Sprintf("%s on %s (%s)", library, hostNames(k.hosts), pmiName(k.pmi)))
	}
	if n := len(kinds) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("warning: %s would use different MPI libraries, which cannot talk to each other: %s; use one image on all hosts, or choose with --mpi",
		program, strings.Join(parts, ", "))
}

// onChosen takes an agent's choice of a protocol, and says all of an app's once they are there.
func (r *run) onChosen(h int, m *apiv1.Chosen) error {
	program, hosts := r.appHosts(m.Job, m.App)
	if hosts == 0 {
		return fmt.Errorf("chose a protocol for program %d of job %d, which is not there", m.App, m.Job)
	}
	all, err := r.chosen.add(h, r.host(h).name, hosts, m)
	if err != nil || !all {
		return err
	}
	if r.cfg.Log.Enabled(context.Background(), slog.LevelInfo) {
		for _, line := range r.chosen.lines(m.Job, m.App, program) {
			r.say("%s", line)
		}
	}
	if text := r.chosen.conflict(m.Job, m.App, program); text != "" {
		r.say("%s", text)
	}
	return nil
}

// appHosts is an app's program and on how many hosts it has ranks.
func (r *run) appHosts(job, app uint32) (program string, hosts int) {
	if int(job) >= len(r.jobs) || int(app) >= len(r.jobs[job].apps) {
		return "", 0
	}
	j := r.jobs[job]
	on := map[int]bool{}
	for _, p := range j.plan.Placements {
		if p.App == int(app) {
			on[p.Host] = true
		}
	}
	program = j.apps[app].Argv[0]
	if job > 0 {
		program += fmt.Sprintf(" of spawned job %d", job)
	}
	return program, len(on)
}

// pmiName is a protocol as users know it.
func pmiName(p apiv1.Pmi) string {
	switch p {
	case apiv1.Pmi_PMI_FD:
		return "PMI-1"
	case apiv1.Pmi_PMI_PORT:
		return "PMI-1 over a port"
	case apiv1.Pmi_PMI_2:
		return "PMI-2"
	case apiv1.Pmi_PMI_PMIX:
		return "PMIx"
	case apiv1.Pmi_PMI_NONE:
		return "no protocol"
	}
	return "protocol " + strconv.Itoa(int(p))
}

// libraryName is a library without where it lies: "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)".
func libraryName(library string) string {
	name, _, _ := strings.Cut(library, " (")
	return name
}

func clipped(s string) string {
	if len(s) > maxReason {
		return strings.ToValidUTF8(s[:maxReason], "") + "..."
	}
	return s
}

// hostNames names hosts in their order: "host w0", "hosts w0, w1, w2, w3 and 5 more".
func hostNames(hosts []namedHost) string {
	const most = 4
	hosts = slices.SortedFunc(slices.Values(hosts), func(a, b namedHost) int { return a.index - b.index })
	var names []string
	for _, h := range hosts {
		names = append(names, h.name)
	}
	if len(names) == 1 {
		return "host " + names[0]
	}
	text := "hosts " + strings.Join(names[:min(len(names), most)], ", ")
	if n := len(names) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
