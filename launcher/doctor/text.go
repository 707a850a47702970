package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mpiup/mpiup/internal/visible"
)

var marks = map[string]string{Pass: "ok  ", Unknown: "??  ", Warn: "WARN", Fail: "FAIL"}

// Detail is how much of a report is printed.
type Detail int

// The details.
const (
	Troubles Detail = iota // what hurts a job, for who asked for something else
	Usual                  // that first, then what is not known or was asked for by name; what else passed is counted
	Full                   // all, in the order of the checks
)

// Text prints the report for people: a line for each row, its fix below, and the matrix of ways at last.
func (r *Report) Text(w io.Writer, how Detail) error {
	var rows []Row
	for i, row := range r.Rows {
		if how == Full || rank(row.Verdict) >= rank(Warn) || how == Usual && (row.Verdict == Unknown || i >= r.judged) {
			rows = append(rows, row)
		}
	}
	if how != Full {
		slices.SortStableFunc(rows, func(a, b Row) int { return rank(b.Verdict) - rank(a.Verdict) })
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", marks[row.Verdict], row.Check, r.who(row.Hosts), row.Text)
		if row.Fix != "" {
			fmt.Fprintf(t, "\t\t\t→ %s\n", row.Fix)
		}
	}
	t.Flush()
	if how != Troubles {
		r.matrix(&b)
		r.fabricTables(&b)
		fmt.Fprintf(&b, "%s\n", r.summary(how))
	}
	var out strings.Builder
	for line := range strings.Lines(b.String()) { // tabwriter pads empty cells
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, visible.Text(out.String()))
	return err
}

// who is hosts for a cell.
func (r *Report) who(hosts []string) string {
	if len(hosts) == len(r.Hosts) && len(hosts) > 1 {
		return fmt.Sprintf("all %d", len(hosts))
	}
	return few(hosts)
}

func (r *Report) summary(how Detail) string {
	n := map[string]int{}
	for _, row := range r.Rows {
		n[row.Verdict]++
	}
	well := fmt.Sprintf("%d passed", n[Pass])
	if how == Usual && n[Pass] > 0 {
		well += " (-v lists them)"
	}
	if n[Unknown] > 0 {
		well += fmt.Sprintf(", %d unknown", n[Unknown])
	}
	if len(r.Hosts) > 0 {
		well = visible.Count(len(r.Hosts), "host") + ": " + well
	}
	return fmt.Sprintf("%s, %s, %s", well, visible.Count(n[Warn], "warning"), visible.Count(n[Fail], "failure"))
}

// maxMatrix is how many hosts fit side by side on a screen; more are in the JSON.
const maxMatrix = 16

// matrix is round-trip time and bandwidth from row to column.
func (r *Report) matrix(b *strings.Builder) {
	at := map[[2]string]Way{}
	measured := false
	for _, p := range r.Ways {
		at[[2]string{p.From, p.To}] = p
		measured = measured || p.Rate > 0
	}
	if !measured {
		return
	}
	if len(r.Hosts) > maxMatrix {
		fmt.Fprintf(b, "\nways between %d hosts: see --json\n", len(r.Hosts))
		return
	}
	fmt.Fprint(b, "\nround trip and bandwidth of one TCP connection, from row to column\n")
	square(b, r.Hosts, func(from, to string) string { return cell(at, from, to) })
	b.WriteString("\n")
}

// square is a table of hosts by hosts.
func square(b *strings.Builder, hosts []string, cell func(from, to string) string) {
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "\t"+strings.Join(hosts, "\t")+"\n")
	for _, from := range hosts {
		fmt.Fprint(t, from)
		for _, to := range hosts {
			fmt.Fprint(t, "\t"+cell(from, to))
		}
		fmt.Fprint(t, "\n")
	}
	t.Flush()
}

// fabricTables are what --fabric measured between each two hosts, a square for each test.
func (r *Report) fabricTables(b *strings.Builder) {
	if r.Fabric == nil {
		return
	}
	hosts := r.Fabric.Hosts
	for i := range r.Fabric.Measured {
		m := &r.Fabric.Measured[i]
		at := m.between()
		switch {
		case len(at) == 0:
		case len(hosts) > maxMatrix:
			fmt.Fprintf(b, "\n%s between %d hosts: see --json\n", m.Test, len(hosts))
		default:
			fmt.Fprintf(b, "\n%s, from row to column\n", m.Test)
			square(b, hosts, func(from, to string) string { return m.cell(at, from, to) })
			b.WriteString("\n")
		}
	}
}

func (m *Measured) cell(at map[[2]string]Value, from, to string) string {
	v, ok := at[[2]string{from, to}]
	switch {
	case from == to:
		return "-"
	case !ok:
		return "."
	case v.Error != "":
		return "FAILED"
	case m.lower(v.Value, m.Median):
		return m.show(v.Value) + " !"
	}
	return m.show(v.Value)
}

func cell(at map[[2]string]Way, from, to string) string {
	p, ok := at[[2]string{from, to}]
	switch {
	case from == to:
		return "-"
	case !ok:
		return "?"
	case p.Error != "":
		return "BROKEN"
	}
	rtt := time.Duration(p.RTT * float64(time.Microsecond)).Round(time.Microsecond)
	return fmt.Sprintf("%v %s", rtt, rate(p.Rate))
}
