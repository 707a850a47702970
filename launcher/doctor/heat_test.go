package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/drawing"
	"github.com/mpiup/mpiup/test/golden"
)

// measured are ways between hosts, each of 1 GB/s and 50 µs but as change has it.
func measured(n int, change func(p *Way, from, to int)) *Report {
	r := &Report{}
	for i := range n {
		r.Hosts = append(r.Hosts, fmt.Sprint("w", i))
	}
	for i := range n {
		for k := range n {
			p := Way{From: r.Hosts[i], To: r.Hosts[k], RTT: 50, Rate: 1000}
			if change(&p, i, k); i != k {
				r.Ways = append(r.Ways, p)
			}
		}
	}
	return r
}

// One bad adapter is a row and a column; what is broken, missing or worse one way than back has a sign.
func TestHeatMap(t *testing.T) {
	r := measured(5, func(p *Way, from, to int) {
		switch {
		case from == 3 || to == 3:
			p.Rate = 200
		case from == 0 && to == 1:
			p.Rate, p.RTT, p.Error = 0, 0, "nobody answers <there>"
		case from == 1 && to == 2:
			p.Rate, p.RTT = 400, 120
		case from == 2 && to == 4:
			p.Rate, p.RTT = 0, 0
		}
	})
	var b strings.Builder
	if err := r.SVG(&b); err != nil {
		t.Fatal(err)
	}
	golden.Is(t, "testdata/heat.svg", b.String())
	shown := drawing.Is(t, b.String())
	all := strings.Join(append(shown.Texts, shown.Tips...), "\n")
	for _, want := range []string{
		"median 1.0 GB/s, worst 200 MB/s (w0 → w3)\nslow on most of its ways: w3\n" +
			"1 way × not passed\n1 way ? not measured\n1 way ≠ much worse than the way back\n",
		"w0 → w1: nobody answers <there>",
		"≠ 400 MB/s", "w1 → w2: 400 MB/s, the median is 1.0 GB/s; the way back has 1.0 GB/s", "≠ 120 µs",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
}

// From two hosts to more than a picture has.
func TestHeatMapOfAnySize(t *testing.T) {
	sizes := map[int]int{0: 4 << 10, 1: 4 << 10, 2: 8 << 10, 16: 200 << 10, 17: 200 << 10, 64: 2 << 20, 200: 8 << 20}
	for n, most := range sizes {
		var b strings.Builder
		if err := measured(n, func(*Way, int, int) {}).SVG(&b); err != nil || b.Len() > most {
			t.Errorf("%d hosts: %d bytes, %v", n, b.Len(), err)
		}
		shown := drawing.Is(t, b.String())
		if left := strings.Contains(strings.Join(shown.Texts, "\n"), "the first 128 of them"); left != (n > 128) {
			t.Errorf("%d hosts: what is left out is said: %v", n, left)
		}
	}
}

// What agents and benchmarks tell is shown, and does nothing else.
func TestHeatMapOfHostileHosts(t *testing.T) {
	const nasty = "\"/><script>\x1b[31m\u202e\n\xff&'" // a name, an error
	r := measured(2, func(p *Way, _, _ int) { p.Error = strings.Repeat(nasty, 100) })
	for i := range r.Ways {
		r.Ways[i].From = strings.Replace(r.Ways[i].From, "w", nasty, 1)
		r.Ways[i].To = strings.Replace(r.Ways[i].To, "w", nasty, 1)
	}
	r.Hosts = []string{nasty + "0", nasty + "1"}
	r.Fabric = &Fabric{Measured: []Measured{{Test: nasty, Unit: nasty, Values: []Value{
		{From: r.Hosts[0], To: r.Hosts[1], Value: 1e300}, {From: r.Hosts[1], To: r.Hosts[0], Value: -1}}}}}
	var b strings.Builder
	if err := r.SVG(&b); err != nil {
		t.Fatal(err)
	}
	drawing.Is(t, b.String())
}
