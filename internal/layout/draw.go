package layout

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
)

// Draw is Open MPI's picture of a set of CPUs: packages in brackets, cores between slashes, a
// letter for each hardware thread (opal/mca/hwloc/base/hwloc_base_util.c of Open MPI 4.1).
//
//	[BB/../../..][../../../..]     both threads of the first core
func (l *Layout) Draw(cpus idset.Set) string {
	var b strings.Builder
	for place, cpu := range l.cpus {
		switch {
		case place == 0:
			b.WriteByte('[')
		case l.of[Package][place] != l.of[Package][place-1]:
			b.WriteString("][")
		case l.of[Core][place] != l.of[Core][place-1]:
			b.WriteByte('/')
		}
		if cpus.Contains(cpu) {
			b.WriteByte('B')
		} else {
			b.WriteByte('.')
		}
	}
	b.WriteByte(']')
	return b.String()
}

// Name is Open MPI's text of a set of CPUs, with logical numbers:
//
//	socket 0[core 0[hwt 0-1]], socket 0[core 1[hwt 0]]
func (l *Layout) Name(cpus idset.Set) string {
	var cores []string
	var threads idset.Set // of one core that are in cpus, counted within it
	first := 0            // place of that core's first thread
	for place, cpu := range l.cpus {
		if l.of[Core][place] != l.of[Core][first] {
			first, threads = place, idset.Set{}
		}
		if cpus.Contains(cpu) {
			threads.Add(place - first)
		}
		if last := place+1 == len(l.cpus) || l.of[Core][place+1] != l.of[Core][place]; last && !threads.Empty() {
			cores = append(cores, fmt.Sprintf("socket %d[core %d[hwt %s]]", l.of[Package][place], l.of[Core][place], threads))
		}
	}
	return strings.Join(cores, ", ")
}

// NameByPackage is Open MPI 5's text of a set of CPUs (PRRTE 3, src/hwloc), with logical numbers of cores;
// of hardware threads where those count as CPUs, or a core is not in it as a whole.
//
//	package[0][core:0-1]    package[1][hwt:8-9]
func (l *Layout) NameByPackage(cpus idset.Set, threads bool) string {
	for _, core := range l.Objects(Core) {
		threads = threads || cpus.Overlaps(core) && !cpus.Covers(core)
	}
	kind, what := Core, "core"
	if threads {
		kind, what = HWThread, "hwt"
	}
	var parts []string
	var in idset.Set
	for place, cpu := range l.cpus {
		if cpus.Contains(cpu) {
			in.Add(l.of[kind][place])
		}
		if last := place+1 == len(l.cpus) || l.of[Package][place+1] != l.of[Package][place]; last && !in.Empty() {
			parts = append(parts, fmt.Sprintf("package[%d][%s:%s]", l.of[Package][place], what, in))
			in = idset.Set{}
		}
	}
	return strings.Join(parts, ",")
}

// Locality is what PMIx tells ranks of where others of their host are (pmix.locstr), in the form
// of Open MPI 4 and 5 (pmix-wire: PMIX_LOCALITY_STRING): two letters for each kind, and the logical
// numbers of the objects that the CPUs belong to.
//
//	NM0:SK0:L30:L20-1:L10-1:CR0-1:HT0-3
func (l *Layout) Locality(cpus idset.Set) string {
	var parts []string
	for _, level := range []struct {
		name string
		kind Kind
	}{{"NM", NUMA}, {"SK", Package}, {"L3", L3}, {"L2", L2}, {"L1", L1}, {"CR", Core}, {"HT", HWThread}} {
		var in idset.Set
		for place, cpu := range l.cpus {
			if n := l.of[level.kind][place]; n >= 0 && cpus.Contains(cpu) {
				in.Add(n)
			}
		}
		if !in.Empty() {
			parts = append(parts, level.name+in.String())
		}
	}
	return strings.Join(parts, ":")
}
