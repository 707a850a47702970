package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// View is which events and last lines are wanted. What does not say what is asked for is left out, but for events, which are on no stream.
// The zero value wants all events, and the lines of the rank whose failure it is, or, where that is not known, of all that did not end
// well.
type View struct {
	Ranks        idset.Set              // of the first job; empty: all
	Host         string                 // "": all
	Stream       string                 // of last lines, "stdout" or "stderr"; "": both
	Since, Until time.Time              // of events; zero: without a bound
	Line         func(line string) bool // of last lines; nil: all
}

// picks says that certain ranks' lines were asked for, however they ended.
func (v View) picks() bool { return !v.Ranks.Empty() || v.Host != "" }

func (v View) event(begun time.Time, e Event) bool {
	at := begun.Add(time.Duration(e.At * float64(time.Second)))
	if at.Before(v.Since) || !v.Until.IsZero() && !at.Before(v.Until) || v.Host != "" && e.Host != v.Host {
		return false
	}
	if v.Ranks.Empty() {
		return true
	}
	ranks, err := idset.Within(e.Ranks, maxRanks)
	return err == nil && !ranks.Intersect(v.Ranks).Empty()
}

func (v View) rank(r Rank, whose *verdict.Verdict) bool {
	if !v.Ranks.Empty() && (r.Job != 0 || !v.Ranks.Contains(r.Rank)) || v.Host != "" && r.Host != v.Host {
		return false
	}
	if v.Stream != "" && r.Stream != v.Stream {
		return false
	}
	if !v.picks() && whose != nil && whose.Rank != nil { // others are its victims, or nobody knows better
		return r.Rank == *whose.Rank && r.Job == whose.Job
	}
	return v.picks() || r.End != "exit code 0"
}

// Timeline writes a report for a person: how it ended, what the guilty rank wrote last, what it was, and what happened when.
func Timeline(w io.Writer, r *Report, view View) error {
	t := &page{w: w}
	t.line("Job %s: %s", visible.Line(r.Job), visible.Line(strings.Join(r.Command, " ")))
	t.line("%s on %s, %s, for %s, exit code %d", r.Begun.UTC().Format(time.DateTime), visible.Line(r.Launcher),
		"mpiup "+visible.Line(r.Mpiup), took(r), r.ExitCode)
	if v := r.Verdict; v != nil {
		t.line("")
		t.line("Verdict: %s", visible.Line(string(v.Kind)))
		for _, list := range [][]string{v.Evidence, v.Crash(), v.Others, v.Advice} {
			for _, l := range list {
				t.line("  %s", visible.Line(l))
			}
		}
		for _, s := range v.Stacks {
			t.line("  %s", visible.Line(s.Sentence()))
		}
		if quoted := v.Quoted(); len(quoted) > 0 {
			t.line("  the file's own words, which whoever can write it may have made up:")
			for _, l := range quoted {
				t.line("  | %s", visible.Line(l))
			}
		}
	}
	t.ranks(r, view)
	t.line("")
	t.hosts(r)
	t.line("")
	for i, e := range r.Events {
		if r.Dropped > 0 && i == len(r.Events)/2 {
			t.line("            … %d events are left out", r.Dropped)
		}
		if view.event(r.Begun, e) {
			t.line("%10.3f  %-9s %s", e.At, visible.Line(e.Kind), e.sentence())
		}
	}
	return t.err
}

func took(r *Report) time.Duration { return r.Ended.Sub(r.Begun).Round(time.Millisecond) }

func (e Event) sentence() string {
	words := []string{}
	if e.Host != "" {
		words = append(words, visible.Line(e.Host))
	}
	if e.Ranks != "" {
		one := "ranks "
		if !strings.ContainsAny(e.Ranks, "-,") {
			one = "rank "
		}
		words = append(words, one+visible.Line(e.Ranks))
	}
	if e.Text != "" {
		words = append(words, visible.Line(e.Text))
	}
	return strings.Join(words, ": ")
}

// page writes lines until one fails.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = visible.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *page) hosts(r *Report) {
	on := map[string]idset.Set{}
	for _, rank := range r.Ranks {
		if rank.Job == 0 { // in range, which parse sees to
			s := on[rank.Host]
			s.Add(rank.Rank)
			on[rank.Host] = s
		}
	}
	for _, h := range r.Hosts {
		words := []string{fmt.Sprintf("%d CPUs", h.CPUs)}
		if h.GPUs > 0 {
			words = append(words, fmt.Sprintf("%d GPUs", h.GPUs))
		}
		if s := on[h.Name]; !s.Empty() {
			words = append(words, "ranks "+s.String())
		}
		if h.Node != "" {
			words = append(words, "node "+visible.Line(h.Node))
		}
		p.line("Host %s: %s", visible.Line(h.Name), strings.Join(words, ", "))
	}
}

// ranks shows last lines, as far as they are wanted.
func (p *page) ranks(r *Report, v View) {
	for _, rank := range r.Ranks {
		lines := rank.Last
		if v.Line != nil {
			lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !v.Line(l) })
		}
		if len(lines) == 0 || !v.rank(rank, r.Verdict) {
			continue
		}
		p.line("")
		p.line("Last lines of rank %d on %s (%s):", rank.Rank, visible.Line(rank.Host), visible.Line(rank.End))
		for _, l := range lines {
			p.line("  %s", visible.Line(l))
		}
	}
}
