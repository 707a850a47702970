package job

import (
	"fmt"
	"slices"
	"strings"
)

// maxMapping is the longest value that PMI-1 carries (PMI_keyval_t of MPICH; vallen_max of our server).
const maxMapping = 866

// ProcessMapping is the value of PMI_process_mapping for ranks on nodes, by rank: which ranks
// share memory. "Node" means a host of ours, a pod, even where two pods share a machine. It
// returns "" when there are no ranks or the value would be longer than PMI-1 carries; MPI
// libraries then compare host names.
//
// The value is a list of blocks (X,Y,Z): nodes X to X+Y-1 with Z consecutive ranks each. A list that gives fewer
// ranks than there are begins again. Intel MPI (2021.18) does not know that, so such a list is used only where the
// whole one would be too long. Only this form is used: MPICH up to 4.0 crashes on the shorter ones that MPICH's
// src/mpl/src/mpl_rankmap.c writes today. Node numbers that leave gaps are closed up, because clients use them as
// indices.
func ProcessMapping(nodeOfRank []int) string {
	if len(nodeOfRank) == 0 {
		return ""
	}
	nodes := dense(nodeOfRank)
	if whole := vector(nodes); whole != "" {
		return whole
	}
	return vector(nodes[:period(nodes)])
}

// vector spells nodes out, or is "" when that is too long.
func vector(nodes []int) string {
	var b strings.Builder
	b.WriteString("(vector")
	for _, k := range blocks(nodes) {
		fmt.Fprintf(&b, ",(%d,%d,%d)", k.first, k.nodes, k.each)
		if b.Len() >= maxMapping {
			return ""
		}
	}
	b.WriteByte(')')
	return b.String()
}

// dense numbers nodes from 0 without gaps, keeping their order.
func dense(nodes []int) []int {
	ids := slices.Compact(slices.Sorted(slices.Values(nodes)))
	out := make([]int, len(nodes))
	for i, n := range nodes {
		out[i], _ = slices.BinarySearch(ids, n)
	}
	return out
}

// period is the length of the shortest beginning of s that, repeated, gives s (the last time perhaps cut short). It
// is the length less the longest border, found as Knuth, Morris and Pratt do.
func period(s []int) int {
	border := make([]int, len(s)+1)
	border[0] = -1
	for i, k := 0, -1; i < len(s); {
		for k >= 0 && s[i] != s[k] {
			k = border[k]
		}
		i++
		k++
		border[i] = k
	}
	return len(s) - border[len(s)]
}

type block struct{ first, nodes, each int }

// blocks joins equal neighbours, then runs of consecutive nodes with equally many ranks.
func blocks(nodes []int) []block {
	var out []block
	for i := 0; i < len(nodes); {
		j := i
		for j < len(nodes) && nodes[j] == nodes[i] {
			j++
		}
		each := j - i
		if n := len(out); n > 0 && out[n-1].each == each && out[n-1].first+out[n-1].nodes == nodes[i] {
			out[n-1].nodes++
		} else {
			out = append(out, block{nodes[i], 1, each})
		}
		i = j
	}
	return out
}
