package topology

import (
	"cmp"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
)

// addNodes hangs each NUMA node at the object with its CPUs, in a group of its own where none
// has them. Nodes with CPUs come first: programs that take "the first memory here" mean them.
func (b *builder) addNodes(p *Parts) map[int]*Object {
	parts := slices.Clone(p.Nodes)
	if len(parts) == 0 {
		parts = []NodePart{{OS: 0, CPUs: p.Online, Memory: p.Memory}}
	}
	slices.SortFunc(parts, func(x, y NodePart) int { return cmp.Compare(x.OS, y.OS) })
	cpus := nodeCPUs(parts, p)
	nodes := make(map[int]*Object, len(parts))
	for _, without := range []bool{false, true} {
		for i := range parts {
			if n := &parts[i]; n.CPUs.Intersect(p.Online).Empty() == without {
				nodes[n.OS] = b.addNode(n, cpus[i])
			}
		}
	}
	return nodes
}

func (b *builder) addNode(n *NodePart, cpus idset.Set) *Object {
	o := &Object{Type: TypeNUMANode, OS: n.OS, Memo: &n.Memory, Subtype: n.Kind, Infos: n.Infos,
		CPUs: cpus, Nodes: idset.Of(n.OS)}
	o.Parent = b.memoryParent(cpus)
	o.Parent.Memory = append(o.Parent.Memory, o)
	return o
}

func (b *builder) memoryParent(cpus idset.Set) *Object {
	parent := b.root
	if !cpus.Empty() {
		parent = b.around(cpus)
	}
	if parent.Type == TypePU {
		parent = parent.Parent
	}
	if parent != b.root && parent.CPUs.Equal(cpus) {
		return parent
	}
	for _, c := range parent.Children { // one that an earlier node made
		if c.Type == TypeGroup && c.CPUs.Equal(cpus) && !cpus.Empty() {
			return c
		}
	}
	if g := b.insertGroup(parent, cpus, Group{Kind: GroupMemory}); g != nil {
		return g
	}
	return parent
}

// nodeCPUs is which CPUs each node is near. A node that overlaps an earlier one has none, unless it is a GPU's
// memory, which lies beside main memory. A node without CPUs is near the CPUs of the nodes that the firmware names,
// else of those that are nearest to it, if the distances tell some of them apart (hwloc's rule).
func nodeCPUs(parts []NodePart, p *Parts) []idset.Set {
	sets := make([]idset.Set, len(parts))
	var taken idset.Set
	for i, n := range parts {
		sets[i] = n.CPUs.Intersect(p.Online)
		if n.Kind == GPUMemory {
			continue
		}
		if sets[i].Overlaps(taken) {
			sets[i] = idset.Set{}
		}
		taken = taken.Union(sets[i])
	}
	own := slices.Clone(sets)
	for i, n := range parts {
		if !sets[i].Empty() {
			continue
		}
		near := n.Near
		if len(near) == 0 {
			near = p.Latency.nearest(n.OS)
		}
		for _, os := range near {
			if j := slices.IndexFunc(parts, func(n NodePart) bool { return n.OS == os }); j >= 0 {
				sets[i] = sets[i].Union(own[j])
			}
		}
	}
	return sets
}

// nearest is the nodes nearest to a node; none if it is as far from all others, or nearer to one
// than to itself.
func (l *Latency) nearest(os int) (nodes []int) {
	if l == nil {
		return nil
	}
	from := slices.Index(l.Nodes, os)
	if from < 0 {
		return nil
	}
	row := l.Values[from]
	least := ^uint64(0)
	for to, d := range row {
		if to == from || d > least {
			continue
		}
		if d < least {
			least, nodes = d, nil
		}
		nodes = append(nodes, l.Nodes[to])
	}
	if least <= row[from] || len(nodes) == len(row)-1 {
		return nil
	}
	return nodes
}

// groupByDistance makes groups of the nodes that are nearest to each other, then groups of those
// groups, as hwloc does.
func (b *builder) groupByDistance(p *Parts, nodes map[int]*Object) {
	if p.Latency == nil || !p.Latency.sane() {
		return
	}
	sets := make([]idset.Set, len(p.Latency.Nodes))
	for i, os := range p.Latency.Nodes {
		if nodes[os] == nil {
			return
		}
		sets[i] = nodes[os].CPUs
	}
	values := p.Latency.Values
	for round := 0; len(sets) > 2; round++ {
		of, n := cluster(values)
		if n == 0 {
			return
		}
		groups := make([]idset.Set, n)
		for i, g := range of {
			if g >= 0 {
				groups[g] = groups[g].Union(sets[i])
			}
		}
		for _, cpus := range groups {
			if cpus.Empty() {
				return
			}
			parent := b.around(cpus)
			if parent.CPUs.Equal(cpus) {
				if parent.Group != nil && parent.Group.Kind > GroupDistance { // hwloc keeps the lesser number
					parent.Group = &Group{Kind: GroupDistance, Subkind: round}
				}
				continue
			}
			if b.insertGroup(parent, cpus, Group{Kind: GroupDistance, Subkind: round}) == nil {
				return
			}
		}
		sets, values = groups, mean(values, of, n)
	}
}

// sane: symmetric, and each nearest to itself.
func (l *Latency) sane() bool {
	for i, row := range l.Values {
		for j := range row[:i] {
			if row[j] != l.Values[j][i] || row[j] <= row[i] || row[j] <= l.Values[j][j] {
				return false
			}
		}
	}
	return true
}

// cluster finds who is linked to whom by the smallest distance there is: of[i] is i's cluster, -1
// for none. One cluster of all is none.
func cluster(values [][]uint64) (of []int, n int) {
	least := ^uint64(0)
	for i, row := range values {
		for j, d := range row {
			if i != j {
				least = min(least, d)
			}
		}
	}
	of = slices.Repeat([]int{-1}, len(values))
	alone := 0
	for i := range of {
		if of[i] >= 0 {
			continue
		}
		of[i] = n
		members := []int{i}
		for k := 0; k < len(members); k++ {
			for j, d := range values[members[k]] {
				if of[j] < 0 && d == least {
					of[j] = n
					members = append(members, j)
				}
			}
		}
		if len(members) == 1 {
			of[i] = -1
			alone++
			continue
		}
		n++
	}
	if n == 1 && alone == 0 {
		return of, 0
	}
	return of, n
}

// mean is the distances between clusters.
func mean(values [][]uint64, of []int, n int) [][]uint64 {
	sum, count := make([][]uint64, n), make([][]uint64, n)
	for g := range n {
		sum[g], count[g] = make([]uint64, n), make([]uint64, n)
	}
	for i, row := range values {
		for j, d := range row {
			if of[i] >= 0 && of[j] >= 0 {
				sum[of[i]][of[j]] += d
				count[of[i]][of[j]]++
			}
		}
	}
	for g := range n {
		for h := range n {
			sum[g][h] /= count[g][h]
		}
	}
	return sum
}
