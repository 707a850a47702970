package job

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// expand reads a mapping as MPICH does: blocks in order, again from the start until every rank
// has its node.
func expand(t *testing.T, mapping string, size int) []int {
	t.Helper()
	body, ok := strings.CutPrefix(mapping, "(vector,")
	if !ok || !strings.HasSuffix(body, ")") {
		t.Fatalf("%q is no mapping", mapping)
	}
	var nodes []int
	for len(nodes) < size {
		for b := range strings.SplitSeq(strings.TrimSuffix(body, "),")[1:], ",(") {
			var n [3]int
			for i, f := range strings.Split(strings.Trim(b, ")"), ",") {
				n[i], _ = strconv.Atoi(f)
			}
			for y := range n[1] {
				for range n[2] {
					nodes = append(nodes, n[0]+y)
				}
			}
		}
	}
	return nodes[:size]
}

func TestProcessMapping(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes []int
		want  string
	}{
		{"none", nil, ""},
		{"one rank", []int{0}, "(vector,(0,1,1))"},
		{"2 nodes of 4, in blocks", []int{0, 0, 0, 0, 1, 1, 1, 1}, "(vector,(0,2,4))"},
		{"2 nodes of 4, in turn", []int{0, 1, 0, 1, 0, 1, 0, 1}, "(vector,(0,2,1),(0,2,1),(0,2,1),(0,2,1))"},
		{"4, 2 and 2", []int{0, 0, 0, 0, 1, 1, 2, 2}, "(vector,(0,1,4),(1,2,2))"},
		{"in turn, cut short", []int{0, 1, 2, 0, 1}, "(vector,(0,3,1),(0,2,1))"},
		{"backwards", []int{1, 1, 0, 0}, "(vector,(1,1,2),(0,1,2))"},
		{"numbers with gaps", []int{7, 7, 3}, "(vector,(1,1,2),(0,1,1))"},
		{"one node", []int{5, 5, 5}, "(vector,(0,1,3))"},
		{"in turn, too often to say", slices.Repeat([]int{0, 1, 2}, 200), "(vector,(0,3,1))"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ProcessMapping(tt.nodes)
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got != "" && !slices.Equal(expand(t, got, len(tt.nodes)), dense(tt.nodes)) {
				t.Errorf("%s means %v, not %v", got, expand(t, got, len(tt.nodes)), tt.nodes)
			}
		})
	}
}

func TestProcessMappingOfAnyPlacement(t *testing.T) {
	for range 2000 {
		nodes := make([]int, 1+rand.IntN(40))
		kinds := 1 + rand.IntN(6)
		for i := range nodes {
			nodes[i] = rand.IntN(kinds)
		}
		got := ProcessMapping(nodes)
		if !slices.Equal(expand(t, got, len(nodes)), dense(nodes)) {
			t.Fatalf("%v became %s", nodes, got)
		}
	}
}

func TestProcessMappingTooLong(t *testing.T) {
	nodes := make([]int, 4000)
	for i := range nodes {
		nodes[i] = i * i * 7919 % 61
	}
	if got := ProcessMapping(nodes); len(got) > maxMapping {
		t.Errorf("a mapping of %d bytes", len(got))
	}
	nodes = nil
	for i := range 4000 {
		nodes = append(nodes, i%2000*i/2000) // no pattern
	}
	if got := ProcessMapping(nodes); got != "" {
		t.Errorf("a mapping of %d bytes", len(got))
	}
}
