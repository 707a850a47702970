// Package doctor judges what agents found before a job: each host by itself, hosts against each other, and the
// way between each two.
//
//	findings of hosts ─┐
//	facts of hosts ────┼─▶ Judge ──▶ Report: rows of (check, hosts, verdict, text, fix) ──▶ Text, JSON
//	clocks, ways ──────┘                 └─▶ the matrix of ways, with --bandwidth
//	output of benchmarks ─▶ Measured ──▶ Benchmarks, against the median and a Baseline, with --fabric
//
// Hosts that say the same share a row, so that 64 healthy hosts are as many lines as one.
//
// PURE: the launcher asks, and prints.
package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/docs"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/visible"
)

// Host is one host as it was found.
type Host struct {
	Name  string
	Ranks int           // that the command line puts there
	Error string        // why it was not looked at; "": it was, or is to have no ranks
	Wrong bool          // Error: the command line does not fit it
	Open  string        // why its agent may still hold the port at which it answered others; "": it does not
	Found *Found        // nil: it was not looked at
	Skew  time.Duration // its clock before ours
	Doubt time.Duration // by how much Skew may be wrong
}

// Found is what a host's agent found there.
type Found struct {
	Version  string // of the agent; "": not known
	Findings []Finding
	Facts    []Fact // that should be the same on all hosts

	// What benchmarks need.
	GPUs      int
	Addresses []netip.Addr      // of MPI's interface; none: the one its agent is reached at
	Programs  map[string]string // paths by name, of those that were looked for
	Ports     []Port            // active ones of usable HCAs
}

// Port is an HCA's.
type Port struct {
	Device   string // "mlx5_0"
	Number   int
	Ethernet bool // RoCE
	GID      int  // index that RoCE takes; -1: none
}

// Finding is one check of a host by itself.
type Finding struct{ Check, Verdict, Text, Fix string }

// Fact is what a host states; Value "": it cannot tell.
type Fact struct{ Name, Value string }

// found is nothing where the host was not looked at.
func (h *Host) found() Found {
	if h.Found == nil {
		return Found{}
	}
	return *h.Found
}

// Way is what was found from one host to another.
type Way struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Error string  `json:"error,omitempty"` // "": it passes
	Mute  bool    `json:"-"`               // Error: To has no port to answer at
	RTT   float64 `json:"rtt_us,omitempty"`
	Rate  float64 `json:"mb_s,omitempty"` // 10^6 bytes a second; 0: not measured
	MTU   int     `json:"mtu,omitempty"`  // 0: unknown
}

// Row is one finding, of all hosts that share it.
type Row struct {
	Check   string   `json:"check"`
	Verdict string   `json:"verdict"` // pass, unknown, warn, fail
	Hosts   []string `json:"hosts"`
	Text    string   `json:"text"`
	Fix     string   `json:"fix,omitempty"`
}

// The verdicts as words. Unknown is what could not be read: nobody is told that it is well.
const (
	Pass    = "pass"
	Unknown = "unknown"
	Warn    = "warn"
	Fail    = "fail"
)

// Report is everything that was found.
type Report struct {
	Verdict string   `json:"verdict"` // the worst of all rows
	Rows    []Row    `json:"rows"`
	Hosts   []string `json:"hosts"`
	Ways    []Way    `json:"ways,omitempty"`
	Fabric  *Fabric  `json:"fabric,omitempty"` // with --fabric

	SharedDir *SharedTrial `json:"shared,omitempty"` // with --shared
	Checks    []Checked    `json:"checks,omitempty"` // with --check

	there  []string // hosts that answered
	judged int      // rows that nobody has asked for by name
}

// Judge makes the report. Rows are in the order of checks; those of one check have the worst first.
func Judge(hosts []Host, ways []Way) *Report {
	r := &Report{Verdict: Pass}
	for _, h := range hosts {
		r.Hosts = append(r.Hosts, h.Name)
	}
	r.reach(hosts)
	r.plan(hosts)
	r.findings(hosts)
	if len(hosts) > 1 {
		r.facts(hosts)
		r.versions(hosts)
		r.clocks(hosts)
		r.ways(ways)
		r.open(hosts)
	}
	r.worst()
	r.judged = len(r.Rows)
	return r
}

// Listed is the report of findings that are of no host, in their order.
func Listed(findings []Finding) *Report {
	r := &Report{Verdict: Pass, Hosts: []string{}}
	for _, f := range findings {
		r.Rows = append(r.Rows, Row{f.Check, f.Verdict, []string{}, f.Text, f.Fix})
	}
	r.worst()
	return r
}

// worst makes the verdict that of the worst row.
func (r *Report) worst() {
	for _, row := range r.Rows {
		if rank(row.Verdict) > rank(r.Verdict) {
			r.Verdict = row.Verdict
		}
	}
}

func rank(verdict string) int { return slices.Index([]string{Pass, Unknown, Warn, Fail}, verdict) }

// add puts hosts into the row of the same finding, or makes one.
func (r *Report) add(check, verdict, text, fix string, hosts ...string) {
	for i := range r.Rows {
		if o := &r.Rows[i]; o.Check == check && o.Verdict == verdict && o.Text == text && o.Fix == fix {
			o.Hosts = append(o.Hosts, hosts...)
			return
		}
	}
	r.Rows = append(r.Rows, Row{check, verdict, hosts, text, fix})
}

func (r *Report) reach(hosts []Host) {
	var names, errs []string
	for _, h := range hosts {
		if h.Error != "" && !h.Wrong {
			names, errs = append(names, h.Name), append(errs, h.Error)
		}
	}
	texts := hostlist.Alike(names, errs)
	for _, h := range hosts {
		switch {
		case h.Wrong:
			r.add("command line", Fail, h.Error, "correct the command line, or mend the host", h.Name)
		case h.Error != "":
			r.add("agent", Fail, texts[h.Name], "see what mpiup peers says, and its agent's log", h.Name)
		}
	}
	for _, h := range hosts {
		if h.Error == "" {
			r.add("agent", Pass, "answers", "", h.Name)
		}
		if h.Found != nil {
			r.there = append(r.there, h.Name)
		}
	}
}

// plan is the row that says for how many ranks the other checks judge.
func (r *Report) plan(hosts []Host) {
	for _, h := range hosts {
		switch {
		case h.Ranks > 0:
			r.add("plan", Pass, visible.Count(h.Ranks, "rank"), "", h.Name)
		case h.Error == "" && h.Found == nil:
			r.add("plan", Pass, "no rank, not looked at", "", h.Name)
		}
	}
}

// findings adds what each host found by itself, grouped by check in the order in which hosts state them.
func (r *Report) findings(hosts []Host) {
	order := map[string]int{}
	begin := len(r.Rows)
	for _, h := range hosts {
		for _, f := range h.found().Findings {
			if _, known := order[f.Check]; !known {
				order[f.Check] = len(order)
			}
			r.add(f.Check, f.Verdict, f.Text, f.Fix, h.Name)
		}
	}
	slices.SortStableFunc(r.Rows[begin:], func(a, b Row) int {
		return cmp.Or(cmp.Compare(order[a.Check], order[b.Check]), cmp.Compare(rank(b.Verdict), rank(a.Verdict)))
	})
}

// facts compares what should be the same everywhere.
func (r *Report) facts(hosts []Host) {
	var order []string
	values := map[string]map[string][]string{} // hosts by value by fact
	states := map[string]map[string]bool{}     // facts by host
	for _, h := range hosts {
		states[h.Name] = map[string]bool{}
		for _, f := range h.found().Facts {
			if values[f.Name] == nil {
				order = append(order, f.Name)
				values[f.Name] = map[string][]string{}
			}
			values[f.Name][f.Value] = append(values[f.Name][f.Value], h.Name)
			states[h.Name][f.Name] = true
		}
	}
	const library = "MPI library"
	for _, value := range slices.Sorted(maps.Keys(values[library])) {
		for _, row := range docs.KnownOf(value) {
			if level := Pass; row.Kind != docs.Other {
				if row.Condition == "" {
					level = Warn
				}
				r.add("known faults", level, row.Sentence(), "", values[library][value]...)
			}
		}
	}
	for _, name := range order {
		for _, h := range r.there { // a host without GPUs states nothing of them
			if !states[h][name] {
				values[name]["none"] = append(values[name]["none"], h)
			}
		}
		r.same("same "+name, values[name], "use one image, one kind of node and one resource request for all workers")
	}
}

func (r *Report) versions(hosts []Host) {
	values := map[string][]string{}
	for _, h := range hosts {
		if v := h.found().Version; v != "" {
			values[v] = append(values[v], h.Name)
		}
	}
	r.same("same mpiup", values, "use one build on all hosts; only the same protocol works together")
}

// same says who has which value; "" is not known.
func (r *Report) same(check string, values map[string][]string, fix string) {
	unknown := values[""]
	switch {
	case len(values) == 0:
	case len(values) == 1 && unknown != nil:
		r.add(check, Unknown, "no host can tell", "", unknown...)
	case len(values) == 2 && unknown != nil:
		for v, hosts := range values {
			if v != "" {
				r.add(check, Unknown, fmt.Sprintf("%s: %s; of the others it is not known", few(hosts), v), "", slices.Concat(hosts, unknown)...)
			}
		}
	case len(values) == 1:
		for v, hosts := range values {
			r.add(check, Pass, v, "", hosts...)
		}
	default:
		var parts []string
		for v, hosts := range values {
			if v == "" {
				v = "not known"
			}
			parts = append(parts, fmt.Sprintf("%s: %s", few(hosts), v))
		}
		slices.Sort(parts)
		var all []string
		for _, hosts := range values {
			all = append(all, hosts...)
		}
		slices.Sort(all)
		r.add(check, Warn, strings.Join(parts, "; "), fix, all...)
	}
}

// Clocks further apart than this spoil timestamps in merged output; identities break at a day.
const (
	maxSkew = time.Second
	badSkew = 12 * time.Hour
)

func (r *Report) clocks(hosts []Host) {
	var fine []string
	for _, h := range hosts {
		if h.Error != "" || h.Found == nil {
			continue
		}
		off := h.Skew.Abs() - h.Doubt
		text := fmt.Sprintf("%v off the launcher's", h.Skew.Round(time.Millisecond))
		switch {
		case off > badSkew:
			r.add("clocks", Fail, text, "set the node's clock (chrony, systemd-timesyncd): certificates are valid for a day around now", h.Name)
		case off <= maxSkew && h.Doubt > maxSkew:
			r.add("clocks", Unknown, fmt.Sprintf("it took %v to answer, too long to compare clocks", (2*h.Doubt).Round(time.Millisecond)), "", h.Name)
		case off > maxSkew:
			r.add("clocks", Warn, text, "set the node's clock (chrony, systemd-timesyncd); times in merged output are wrong", h.Name)
		default:
			fine = append(fine, h.Name)
		}
	}
	if len(fine) > 0 {
		r.add("clocks", Pass, fmt.Sprintf("within %v of the launcher's", maxSkew), "", fine...)
	}
}

// few is host names for a line.
func few(hosts []string) string { return visible.Few(hosts, 4, ",") }
