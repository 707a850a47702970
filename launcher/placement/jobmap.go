package placement

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// JobMap is the plan as Open MPI's --display-map shows it, in the words of the policy's rules: those of 4.1
// (orte/runtime/data_type_support) or of 5 (PRRTE 3, src/runtime/data_type_support). Scripts look for
// the lines of nodes and processes.
func JobMap(plan *job.Plan, p Policy) string {
	const line = "=============================================================\n"
	var b strings.Builder
	if p.Rules == OpenMPI5 {
		fmt.Fprintf(&b, "\n========================   JOB MAP   ========================\nData for JOB mpiup@1 offset 0 Total slots allocated %d\n%s\n\n",
			plan.Universe, p.words(plan))
	} else {
		fmt.Fprintf(&b, " Data for JOB [1,1] offset 0 Total slots allocated %d\n\n ========================   JOB MAP   ========================\n\n", plan.Universe)
	}
	for h, ranks := range ranksByHost(plan) {
		host := plan.Hosts[h]
		node, process := " Data for node: ", " \tProcess OMPI jobid: [1,1]"
		if p.Rules == OpenMPI5 {
			node, process = node[1:], "        Process jobid: mpiup@1"
		}
		fmt.Fprintf(&b, "%s%s\tNum slots: %d\tMax slots: 0\tNum procs: %d\n", node, host.Name, host.Slots, len(ranks))
		for _, rank := range ranks {
			pl := plan.Placements[rank]
			fmt.Fprintf(&b, "%s App: %d Process rank: %d Bound: %s\n", process, pl.App, pl.Rank, p.Bound(host.Layout, pl.CPUs, ":"))
		}
		b.WriteByte('\n')
	}
	if p.Rules == OpenMPI5 {
		return b.String() + line
	}
	return b.String() + " " + line
}

// Bound is what Open MPI says of a rank's CPUs; with 4.1's rules between stands before their picture.
// Without CPUs it is "N/A".
func (p Policy) Bound(l *layout.Layout, cpus idset.Set, between string) string {
	switch {
	case l == nil || cpus.Empty():
		return "N/A"
	case p.Rules == OpenMPI5:
		return l.NameByPackage(cpus, p.Binding.HWThreads)
	}
	return l.Name(cpus) + between + l.Draw(cpus)
}

// words are the lines of 5's map on the policies.
func (p Policy) words(plan *job.Plan) string {
	m, r := &p.Binding.Map, p.ranking()
	by, rank, bind := "SLOT", "SLOT", "NONE"
	switch {
	case m.Object != layout.None:
		by = strings.ToUpper(m.Object.String())
	case p.MapBy == ByNode, p.PerNode > 0:
		by = "NODE"
	}
	switch {
	case r.By == "object":
		rank = "SPAN"
	case r.By != "":
		rank = strings.ToUpper(r.By)
	case p.MapBy == ByNode:
		rank = "NODE"
	}
	for _, pl := range plan.Placements {
		if !pl.CPUs.Empty() {
			bind = p.bindWord()
		}
	}
	by = "BY" + by + ":NOOVERSUBSCRIBE"
	if p.Oversubscribe {
		by = strings.Replace(by, ":NO", ":", 1)
	}
	if m.Span {
		by += ":SPAN"
	}
	ppr, pe, kind := "N/A", "N/A", "CORE"
	if m.Policy == "ppr" {
		object := "node"
		if m.Object != layout.None {
			object = m.Object.String()
		}
		ppr = fmt.Sprintf("%d:%s", max(m.N, p.PerNode), object)
	}
	if m.PE > 0 {
		pe = fmt.Sprint(m.PE)
	}
	if p.Binding.HWThreads {
		kind = "HWT"
	}
	return fmt.Sprintf("    Mapping policy: %s  Ranking policy: %s Binding policy: %s\n    Cpu set: N/A  PPR: %s  Cpus-per-rank: %s  Cpu Type: %s\n",
		by, rank, bind, ppr, pe, kind)
}

// bindWord is what ranks are bound to, where they are.
func (p Policy) bindWord() string {
	m := &p.Binding.Map
	to := layout.NUMA // mpiup's default
	switch {
	case p.Binding.Bind.Said:
		return strings.ToUpper(p.Binding.Bind.To.String())
	case m.PE > 0 && p.Binding.HWThreads:
		to = layout.HWThread
	case m.PE > 0:
		to = layout.Core
	case m.Object != layout.None:
		to = m.Object
	}
	return strings.ToUpper(to.String()) + ":IF-SUPPORTED"
}
