package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Value is what one run of a test gave.
type Value struct {
	From  string  `json:"from,omitempty"` // "": all hosts together
	To    string  `json:"to,omitempty"`   // "": From by itself
	Value float64 `json:"value,omitempty"`
	Error string  `json:"error,omitempty"` // "": it has a value
}

// Measured is all values of one test.
type Measured struct {
	Test   string  `json:"test"` // its Title
	Unit   string  `json:"unit"`
	Shape  string  `json:"shape,omitempty"` // what a value of all hosts depends on: "16 ranks on 4 hosts"
	Path   string  `json:"program"`
	Median float64 `json:"median,omitempty"` // 0: nothing was measured
	Values []Value `json:"values"`
}

// between is the values of ways, by from and to.
func (m *Measured) between() map[[2]string]Value {
	at := map[[2]string]Value{}
	for _, v := range m.Values {
		if v.To != "" {
			at[[2]string{v.From, v.To}] = v
		}
	}
	return at
}

// Fabric is what --fabric did.
type Fabric struct {
	Hosts    []string          `json:"-"`        // in the job's order
	Found    map[string]string `json:"programs"` // by name: where all hosts have it
	Partly   []string          `json:"-"`        // sentences on programs that only some hosts have
	Without  []string          `json:"-"`        // sentences on programs that were not run, and why that is no fault
	Measured []Measured        `json:"tests"`
	Baseline *Baseline         `json:"-"` // nil: none
	File     string            `json:"baseline,omitempty"`
	Written  bool              `json:"-"` // the baseline was written just now
}

// tolerance is how much worse than the median, or than the baseline, a value may be without being named; worse says so.
const (
	tolerance = 0.10
	worse     = "more than 10 % worse than"
)

// lower says that a value is worse than what it is compared with, by more than the tolerance.
func (m *Measured) lower(value, than float64) bool {
	if m.Unit == Micro {
		return value > (1+tolerance)*than
	}
	return value < (1-tolerance)*than
}

// Finish takes the median of what was measured. Between hosts it is that of hosts' medians, since one slow host of three
// spoils most pairs.
func (m *Measured) Finish() {
	var singles, medians []float64
	of := map[string][]float64{}
	for _, v := range m.Values {
		switch {
		case v.Error != "":
		case v.To == "":
			singles = append(singles, v.Value)
		default:
			of[v.From] = append(of[v.From], v.Value)
			of[v.To] = append(of[v.To], v.Value)
		}
	}
	for _, values := range of {
		medians = append(medians, m.middle(values))
	}
	m.Median = m.middle(append(singles, medians...))
}

// middle is the median, of an even number the better one; 0 of none.
func (m *Measured) middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	if m.Unit == Micro {
		return values[(len(values)-1)/2]
	}
	return values[len(values)/2]
}

// Doubtful finishes m and is the pairs that are worse than the median: to be measured once more, since a busy moment is no slow link.
func (m *Measured) Doubtful() (list []Value) {
	m.Finish()
	for _, v := range m.Values {
		if v.To != "" && v.Error == "" && m.lower(v.Value, m.Median) {
			list = append(list, v)
		}
	}
	return list
}

// Better takes a second measurement of a pair if it is better than the first.
func (m *Measured) Better(again Value) {
	i := slices.IndexFunc(m.Values, func(v Value) bool { return v.From == again.From && v.To == again.To })
	if i < 0 || again.Error != "" {
		return
	}
	old := m.Values[i]
	if (m.Unit == Micro) == (again.Value < old.Value) || old.Error != "" {
		m.Values[i] = again
	}
}

// Benchmarks judges what --fabric did, and puts it into the report.
func (r *Report) Benchmarks(f *Fabric) {
	r.Fabric = f
	r.programs(f)
	for i := range f.Measured {
		m := &f.Measured[i]
		m.Finish()
		check := "fabric: " + m.Test
		begin := len(r.Rows)
		r.failed(check, m)
		r.below(check, m)
		r.compare(check, f, m)
		if len(r.Rows) == begin {
			verdict := Pass
			if m.Median == 0 {
				verdict = Unknown
			}
			r.add(check, verdict, m.fine(f), "", r.there...)
		}
	}
	r.forgotten(f)
	r.worst()
}

const getThem = "put them into the image, or name their directory with --fabric-path"

func (r *Report) programs(f *Fabric) {
	switch {
	case len(f.Hosts) == 0:
		r.add("fabric programs", Unknown, "nothing was measured, since no host was looked at", "")
		return
	case len(f.Found) == 0 && len(f.Partly) == 0:
		var names, ways []string
		for _, p := range Programs {
			names = append(names, p.Name)
			if p.Where != "" {
				ways = append(ways, p.From+": "+p.Where)
			}
		}
		r.add("fabric programs", Warn, "none of "+strings.Join(names, ", ")+" is in the image (PATH, /opt, /usr/local, /usr/lib, /usr/libexec)",
			getThem+" ("+strings.Join(ways, "; ")+")", r.there...)
		return
	}
	for _, sentence := range f.Partly {
		r.add("fabric programs", Warn, sentence, "use one image for all workers", r.there...)
	}
	for _, sentence := range f.Without {
		r.add("fabric programs", Pass, sentence, "", r.there...)
	}
	if len(f.Hosts) < 2 && len(f.Measured) == 0 {
		r.add("fabric programs", Warn, "nothing was measured: one host was looked at, and what is in the image measures between hosts, or GPUs ("+
			strings.Join(slices.Sorted(maps.Keys(f.Found)), ", ")+")", "name the workers, --host w0,w1, or run it where the operator names them", r.there...)
	}
}

// failed tells of tests that did not run: a job would not run either. It tells once of all that failed alike.
func (r *Report) failed(check string, m *Measured) {
	who := map[string][]string{}
	var order []string
	for _, v := range m.Values {
		if v.Error == "" {
			continue
		}
		if who[v.Error] == nil {
			order = append(order, v.Error)
		}
		who[v.Error] = append(who[v.Error], v.way())
	}
	for _, text := range order {
		r.add(check, Fail, few(who[text])+": "+text, "run "+m.Path+" by hand: mpiup run, or mpiup exec HOST", r.there...)
	}
}

func (v Value) way() string {
	switch {
	case v.From == "":
		return "all hosts"
	case v.To == "":
		return v.From
	}
	return v.From + " to " + v.To
}

// below names hosts and pairs that are worse than the median of this run. If all ways of a host are worse, it names
// the host alone.
func (r *Report) below(check string, m *Measured) {
	const fix = "look at the cable, port and node of what is named; mpiup doctor --fabric --json has every value"
	bad, all := map[string]int{}, map[string]int{}
	var list []Value
	for _, v := range m.Values {
		if v.Error != "" || v.From == "" {
			continue
		}
		all[v.From]++
		all[v.To]++
		if m.lower(v.Value, m.Median) {
			bad[v.From]++
			bad[v.To]++
			list = append(list, v)
		}
	}
	whole := func(h string) bool { return h != "" && all[h] > 1 && bad[h] == all[h] }
	var told []string
	for _, v := range list {
		for _, h := range []string{v.From, v.To} {
			if whole(h) && !slices.Contains(told, h) {
				told = append(told, h)
				worst := m.worstOf(h)
				r.add(check, Warn, fmt.Sprintf("all %d ways of %s are %s the median %s; the worst, "+
					"%s, has %s", all[h], h, worse, m.show(m.Median), worst.way(), m.show(worst.Value)), fix, h)
			}
		}
	}
	list = slices.DeleteFunc(list, func(v Value) bool { return whole(v.From) || whole(v.To) })
	r.named(check, m, list, fix, func(v Value) string {
		return fmt.Sprintf("%s has %s, %s the median %s", v.way(), m.show(v.Value), worse, m.show(m.Median))
	})
}

func (m *Measured) worstOf(host string) (worst Value) {
	for _, v := range m.Values {
		if v.Error == "" && (v.From == host || v.To == host) && (worst.Value == 0 || m.lessGood(v.Value, worst.Value)) {
			worst = v
		}
	}
	return worst
}

func (m *Measured) lessGood(a, b float64) bool { return (m.Unit == Micro) == (a > b) }

// maxNamed is how many ways of a test are named, the worst first.
const maxNamed = 8

func (r *Report) named(check string, m *Measured, list []Value, fix string, say func(Value) string) {
	slices.SortStableFunc(list, func(a, b Value) int {
		if m.Unit == Micro {
			a, b = b, a
		}
		return cmp.Compare(a.Value, b.Value)
	})
	for _, v := range list[:min(len(list), maxNamed)] {
		hosts := []string{v.From}
		if v.To != "" {
			hosts = append(hosts, v.To)
		}
		r.add(check, Warn, say(v), fix, hosts...)
	}
	if n := len(list) - maxNamed; n > 0 {
		r.add(check, Warn, fmt.Sprintf("and %d more", n), fix, r.there...)
	}
}

// fine is the row of a test that found nothing.
func (m *Measured) fine(f *Fabric) string {
	if m.Median == 0 {
		return "nothing was measured"
	}
	text := m.show(m.Median)
	if len(m.Values) > 1 {
		text = fmt.Sprintf("median %s of %d", text, len(m.Values))
	}
	if m.Shape != "" {
		text += ", " + m.Shape
	}
	if old := f.Baseline.test(m); old != nil && !f.Written {
		text += ", baseline " + m.show(old.Median)
	}
	return text
}

func (m *Measured) show(v float64) string {
	switch {
	case m.Unit == Micro && v >= 1000:
		return fmt.Sprintf("%.0f µs", v)
	case m.Unit == Micro:
		return fmt.Sprintf("%.4g µs", v)
	}
	return rate(v)
}
