package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
)

// Timeline writes a report for a person: how it ended, what it was, and what happened when.
func Timeline(w io.Writer, r *Report) error {
	t := &page{w: w}
	t.line("Job %s: %s", plain(r.Job), plain(strings.Join(r.Command, " ")))
	t.line("%s on %s, %s, for %s, exit code %d", r.Begun.UTC().Format(time.DateTime), plain(r.Launcher), "mpiup "+plain(r.Mpiup), took(r), r.ExitCode)
	if v := r.Verdict; v != nil {
		t.line("")
		t.line("Verdict: %s", plain(string(v.Kind)))
		for _, list := range [][]string{v.Evidence, v.Advice} {
			for _, l := range list {
				t.line("  %s", plain(l))
			}
		}
	}
	t.line("")
	t.hosts(r)
	t.line("")
	for i, e := range r.Events {
		if r.Dropped > 0 && i == len(r.Events)/2 {
			t.line("            … %d events are left out", r.Dropped)
		}
		t.line("%10.3f  %-9s %s", e.At, plain(e.Kind), e.sentence())
	}
	t.ranks(r)
	for _, l := range r.LeftOut {
		t.line("left out, since a sealed report has at most %d KiB: %s", MaxSealed>>10, plain(l))
	}
	return t.err
}

func took(r *Report) time.Duration { return r.Ended.Sub(r.Begun).Round(time.Millisecond) }

func (e Event) sentence() string {
	words := []string{}
	if e.Host != "" {
		words = append(words, plain(e.Host))
	}
	if e.Ranks != "" {
		one := "ranks "
		if !strings.ContainsAny(e.Ranks, "-,") {
			one = "rank "
		}
		words = append(words, one+plain(e.Ranks))
	}
	if e.Text != "" {
		words = append(words, plain(e.Text))
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
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *page) hosts(r *Report) {
	on := map[string]idset.Set{}
	for _, rank := range r.Ranks {
		if rank.Job == 0 && rank.Rank >= 0 && rank.Rank < 1<<20 {
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
			words = append(words, "node "+plain(h.Node))
		}
		p.line("Host %s: %s", plain(h.Name), strings.Join(words, ", "))
	}
}

// ranks shows the last lines of the ranks that did not end well.
func (p *page) ranks(r *Report) {
	for _, rank := range r.Ranks {
		if len(rank.Last) == 0 || rank.End == "exit code 0" {
			continue
		}
		p.line("")
		p.line("Last lines of rank %d on %s (%s):", rank.Rank, plain(rank.Host), plain(rank.End))
		for _, l := range rank.Last {
			p.line("  %s", plain(l))
		}
	}
}

// plain is text without what would move a terminal's cursor.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
