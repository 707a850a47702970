package draw

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/topology"
)

// Text writes the view as lines for a terminal: what the machine is, what may be used of it, then the
// tree of parts, in which neighbours that are alike are one line.
func Text(w io.Writer, v *View) error {
	b := bufio.NewWriter(w)
	v.head(b)
	fmt.Fprintln(b)
	for _, n := range v.lines(v.Machine.Root) {
		n.print(b, "")
	}
	v.linkTable(b)
	v.distances(b)
	remarks(b, "warning:", v.warnings())
	remarks(b, "note:", v.Notes)
	return b.Flush()
}

func remarks(w io.Writer, kind string, all []string) {
	for i, text := range all {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, kind, clean(text))
	}
}

func (v *View) head(w io.Writer) {
	m := v.Machine
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-11s%s\n", name, text)
		}
	}
	row("Machine", strings.Trim(v.Name+", "+v.hardware(), ", "))
	var memory uint64
	for _, n := range v.nodes() {
		memory += n.Memo.Size
	}
	row("Processors", fmt.Sprintf("%s, %s, %s, %s", v.processor(), visible.Count(len(m.All(topology.TypeCore)), "core"),
		visible.Count(m.Root.CPUs.Len(), "CPU"), visible.Count(len(v.nodes()), "NUMA node")))
	if memory > 0 {
		row("Memory", size(memory))
	}
	for _, k := range m.Kinds {
		row("Kind", fmt.Sprintf("%s: %s", clean(k.Name), cpuList(k.CPUs)))
	}
	if off := v.offline(); !off.Empty() {
		row("Offline", cpuList(off))
	}
	s := Summary(v)
	row("Usable", fmt.Sprintf("%s, %s (%s), memory of %s, %s, %s", visible.Count(s.Cores, "core"), visible.Count(s.CPUs, "CPU"), v.Limits.CPUs,
		nodeList(v.usableNodes()), visible.Count(s.GPUs, "GPU"), visible.Count(s.HCAs, "HCA")))
	row("Sharing", v.sharing())
	row("GPUs", v.drivers())
	row("GPUDirect", v.direct())
}

func cpuList(s idset.Set) string {
	if s.Len() == 1 {
		return "CPU " + s.String()
	}
	return "CPUs " + s.String()
}

func nodeList(s idset.Set) string {
	if s.Len() == 1 {
		return "NUMA node " + s.String()
	}
	return "NUMA nodes " + s.String()
}

// line is one line of the tree and what is below it.
type line struct {
	what   string   // "L3 32 MiB"
	more   string   // what follows, ": 8 GiB"
	cpus   []string // of each that the line stands for
	many   int      // how many it stands for
	id     []int    // numbers of each, if what has numbers
	each   [][]int  // the same of each line that this one stands for, below folded ones
	memory bool     // it is a NUMA node
	fold   int      // as many as this, and alike, are one line; 0: never
	below  []*line
}

// alike reports whether two lines differ in their numbers only.
func (l *line) alike(k *line) bool {
	return l.what == k.what && l.more == k.more && l.fold == k.fold && l.fold > 0 && (len(l.cpus) > 0) == (len(k.cpus) > 0) &&
		slices.EqualFunc(l.below, k.below, func(a, b *line) bool { return a.many == b.many && a.alike(b) })
}

// folded makes one line of neighbours that are alike. Below it CPUs' numbers are left out, and those of NUMA nodes, by
// which memory is bound, are given for each neighbour.
func folded(lines []*line) (out []*line) {
	for i := 0; i < len(lines); {
		n := 1
		for i+n < len(lines) && lines[i].alike(lines[i+n]) {
			n++
		}
		if l := lines[i]; n > 1 && n >= l.fold {
			one := *l
			one.many, one.cpus, one.id = 0, nil, nil
			for _, k := range lines[i : i+n] {
				one.many, one.cpus, one.id = one.many+k.many, append(one.cpus, k.cpus...), append(one.id, k.id...)
			}
			for j, k := range one.below {
				for _, other := range lines[i+1 : i+n] {
					k.gather(other.below[j])
				}
				k.forget()
			}
			out = append(out, &one)
		} else {
			out = append(out, lines[i:i+n]...)
		}
		i += n
	}
	return out
}

// gather takes the numbers of a line that stands at the same place below an alike one.
func (l *line) gather(other *line) {
	if len(l.each) == 0 {
		l.each = [][]int{l.id}
	}
	if len(other.each) == 0 {
		l.each = append(l.each, other.id)
	}
	l.each = append(l.each, other.each...)
	for i, k := range l.below {
		k.gather(other.below[i])
	}
}

// forget leaves out numbers that are of the first only, and those of parts, which nobody needs.
func (l *line) forget() {
	if l.cpus, l.id = nil, nil; !l.memory {
		l.each = nil
	}
	for _, k := range l.below {
		k.forget()
	}
}

// maxShown is how many sets of CPUs a line shows before it leaves some out.
const maxShown = 4

func (l *line) String() string {
	var b strings.Builder
	if l.many > 1 {
		fmt.Fprintf(&b, "%d × ", l.many)
	}
	b.WriteString(l.what)
	if len(l.id) > 0 {
		b.WriteString(" " + numbers(l.id))
	}
	if len(l.each) > 0 {
		b.WriteString(" " + eachNumbers(l.each))
	}
	if len(l.cpus) > 0 {
		shown := abridged(l.cpus, maxShown)
		name := ": CPUs "
		if len(shown) == 1 && !strings.ContainsAny(shown[0], ",-") {
			name = ": CPU "
		}
		b.WriteString(name + strings.Join(shown, " | "))
	}
	return b.String() + l.more
}

// numbers is a list in short: "0-3", as it comes when it does not ascend.
func numbers(ids []int) string {
	if !slices.IsSorted(ids) {
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]")
	}
	return idset.Of(ids...).String()
}

// eachNumbers is "0 | 1 | 2 | … | 7".
func eachNumbers(each [][]int) string {
	var shown []string
	for _, ids := range each {
		shown = append(shown, numbers(ids))
	}
	return strings.Join(abridged(shown, maxShown+4), " | ")
}

// abridged is a list that may be so long, else its first few and its last.
func abridged(list []string, most int) []string {
	if len(list) <= most {
		return list
	}
	return append(slices.Clone(list[:maxShown-1]), "…", list[len(list)-1])
}

func (l *line) print(w io.Writer, indent string) {
	fmt.Fprintln(w, l.String())
	for i, k := range l.below {
		mark, next := "├─ ", "│  "
		if i == len(l.below)-1 {
			mark, next = "└─ ", "   "
		}
		fmt.Fprint(w, indent+mark)
		k.print(w, indent+next)
	}
}

// distances draws the matrix of a machine with a readable number of nodes.
func (v *View) distances(w io.Writer) {
	l := v.Machine.Latency
	if l == nil || len(l.Nodes) < 2 {
		return
	}
	if len(l.Nodes) > 16 {
		fmt.Fprintf(w, "\nDistances between %d NUMA nodes: see --json\n", len(l.Nodes))
		return
	}
	fmt.Fprint(w, "\nNUMA distance")
	for _, to := range l.Nodes {
		fmt.Fprintf(w, " %4d", to)
	}
	fmt.Fprintln(w)
	for i, from := range l.Nodes {
		fmt.Fprintf(w, "%13d", from)
		for _, d := range l.Values[i] {
			fmt.Fprintf(w, " %4d", d)
		}
		fmt.Fprintln(w)
	}
}
