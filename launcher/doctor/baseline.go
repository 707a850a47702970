package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Baseline is what a file keeps of a run, to compare later ones with. Hosts stand by their place in the job, since
// pods of a job get other names when it is started again.
type Baseline struct {
	Version int            `json:"mpiup_fabric_baseline"`
	Hosts   []string       `json:"hosts"`
	Tests   []BaselineTest `json:"tests"`
}

// BaselineTest is one test's.
type BaselineTest struct {
	Test   string         `json:"test"`
	Unit   string         `json:"unit"`
	Shape  string         `json:"shape,omitempty"`
	Median float64        `json:"median"`
	Ways   []BaselinePair `json:"ways,omitempty"`
}

// BaselinePair is one way's value, by places in Hosts.
type BaselinePair struct {
	From  int     `json:"from"`
	To    int     `json:"to"`
	Value float64 `json:"value"`
}

// Bounds of a file.
const (
	baselineVersion = 1
	MaxBaseline     = 64 << 20 // bytes
	maxBaseHosts    = 1 << 16
	maxBaseTests    = 1024
	maxBaseText     = 1024 // bytes of a name
)

// ParseBaseline reads a file's text. What cannot be a baseline is an error that says what is wrong with it.
func ParseBaseline(text []byte) (*Baseline, error) {
	if len(text) > MaxBaseline {
		return nil, fmt.Errorf("a baseline of more than %d bytes", MaxBaseline)
	}
	b := &Baseline{}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("no baseline of mpiup doctor: %w", err)
	}
	switch {
	case b.Version != baselineVersion:
		return nil, fmt.Errorf("a baseline of version %d, and this mpiup knows version %d", b.Version, baselineVersion)
	case len(b.Hosts) > maxBaseHosts || len(b.Tests) > maxBaseTests:
		return nil, fmt.Errorf("a baseline of %d hosts and %d tests", len(b.Hosts), len(b.Tests))
	}
	for _, h := range b.Hosts {
		if len(h) > maxBaseText {
			return nil, fmt.Errorf("a host name of %d bytes", len(h))
		}
	}
	for i := range b.Tests {
		if err := b.Tests[i].check(len(b.Hosts)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (t *BaselineTest) check(hosts int) error {
	if len(t.Test) > maxBaseText || len(t.Unit) > maxBaseText || len(t.Shape) > maxBaseText {
		return fmt.Errorf("test %.40q: its texts are too long", t.Test)
	}
	bad := func(v float64) bool { return !(v > 0 && v < maxValue) }
	if bad(t.Median) {
		return fmt.Errorf("test %q: a median of %v", t.Test, t.Median)
	}
	for _, w := range t.Ways {
		if w.From < 0 || w.From >= hosts || w.To < -1 || w.To >= hosts || bad(w.Value) {
			return fmt.Errorf("test %q: from %d to %d: %v, with %d hosts", t.Test, w.From, w.To, w.Value, hosts)
		}
	}
	return nil
}

// alone is BaselinePair.To of a host that was measured by itself.
const alone = -1

// NewBaseline is what a run found; errors are left out. It has no tests when nothing was measured.
func NewBaseline(f *Fabric) *Baseline {
	b := &Baseline{Version: baselineVersion, Hosts: f.Hosts}
	for i := range f.Measured {
		m := &f.Measured[i]
		m.Finish()
		if m.Median == 0 {
			continue
		}
		t := BaselineTest{Test: m.Test, Unit: m.Unit, Shape: m.Shape, Median: m.Median}
		for _, v := range m.Values {
			from, to := slices.Index(f.Hosts, v.From), alone
			if v.To != "" {
				to = slices.Index(f.Hosts, v.To)
			}
			if v.Error == "" && from >= 0 {
				t.Ways = append(t.Ways, BaselinePair{from, to, v.Value})
			}
		}
		b.Tests = append(b.Tests, t)
	}
	return b
}

// same says that a test is of the same name, unit and shape.
func (t *BaselineTest) same(m *Measured) bool {
	return t.Test == m.Test && t.Unit == m.Unit && t.Shape == m.Shape
}

// test is what the baseline has of a test; nil if it has none.
func (b *Baseline) test(m *Measured) *BaselineTest {
	if b == nil {
		return nil
	}
	i := slices.IndexFunc(b.Tests, func(t BaselineTest) bool { return t.same(m) })
	if i < 0 {
		return nil
	}
	return &b.Tests[i]
}

// places are the baseline's places of this run's hosts: by name where it knows all of them, else one by one
// where there are as many; nil where neither is so.
func (b *Baseline) places(hosts []string) map[string]int {
	at := map[string]int{}
	for _, h := range hosts {
		if i := slices.Index(b.Hosts, h); i >= 0 {
			at[h] = i
		}
	}
	if len(at) == len(hosts) {
		return at
	}
	if len(hosts) != len(b.Hosts) {
		return nil
	}
	for i, h := range hosts {
		at[h] = i
	}
	return at
}

// compare names what is worse than it was.
func (r *Report) compare(check string, f *Fabric, m *Measured) {
	const fix = "look what has changed since (mpiup doctor --write-baseline takes today's values for the next time)"
	old := f.Baseline.test(m)
	if old == nil || f.Written || m.Median == 0 {
		return
	}
	expect := 1.0 // of what ways had: where all are worse, those that are worse than all are named
	if m.lower(m.Median, old.Median) {
		expect = m.Median / old.Median
		what := "the median is "
		if len(m.Values) == 1 {
			what = ""
		}
		r.add(check, Warn, fmt.Sprintf("%s%s, %s the baseline's %s", what, m.show(m.Median), worse, m.show(old.Median)), fix, r.there...)
	}
	places := f.Baseline.places(f.Hosts)
	was := make(map[[2]int]float64, len(old.Ways))
	for _, w := range old.Ways {
		was[[2]int{w.From, w.To}] = w.Value
	}
	before := map[Value]float64{}
	var list []Value
	for _, v := range m.Values {
		from, known := places[v.From]
		to := alone
		if v.To != "" {
			to = places[v.To]
		}
		value := was[[2]int{from, to}]
		if known && v.Error == "" && value > 0 && m.lower(v.Value, expect*value) {
			before[v] = value
			list = append(list, v)
		}
	}
	r.named(check, m, list, fix, func(v Value) string {
		return fmt.Sprintf("%s has %s, %s its baseline %s", v.way(), m.show(v.Value), worse, m.show(before[v]))
	})
}

// forgotten names tests that the baseline has and this run has not.
func (r *Report) forgotten(f *Fabric) {
	if f.File == "" {
		return
	}
	if f.Written {
		r.add("fabric baseline", Pass, "written to "+f.File, "", r.there...)
		return
	}
	if f.Baseline == nil {
		return
	}
	for i := range f.Baseline.Tests {
		t := &f.Baseline.Tests[i]
		if !slices.ContainsFunc(f.Measured, func(m Measured) bool { return t.same(&m) && m.Median > 0 }) {
			shape := ""
			if t.Shape != "" {
				shape = ", " + t.Shape
			}
			r.add("fabric baseline", Warn, fmt.Sprintf("%s has %s%s, which was not measured now", f.File, t.Test, shape),
				"compare like with like: the same programs, hosts and ranks; or write another baseline", r.there...)
		}
	}
}

// Text is the file's content.
func (b *Baseline) Text() ([]byte, error) {
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	return append(text, '\n'), nil
}
