package aftermath

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
)

// Wanted says which lines of a log are wanted; the zero value wants all.
type Wanted struct {
	Ranks        idset.Set  // empty: all, and what is no rank's
	Host         string     // "": all
	Stream       string     // "stdout" or "stderr"; "": both, and what is no rank's
	Since, Until time.Time  // zero: without a bound
	Level        logs.Level // and above
}

// Filter picks lines of logs. It belongs to one goroutine, and what it keeps is bounded.
type Filter struct {
	logs  logs.Teller
	want  Wanted
	lacks [4]int // lines that were left out since they do not say what was asked for
	says  [4]bool
	unfit [5]int          // lines that say something else, and the last: that are of a lower level
	ranks map[int]bool    // that lines name, at most maxNames
	hosts map[string]bool // and hosts
	any   bool
	kept  bool
	told  logs.Told
}

const maxNames = 2048

// What a line may lack, and the way to logs that have it.
var lacking = [...]struct{ what, remedy string }{
	{"rank", "mpiup run --tag-output (or --output json) writes it, in the next run"},
	{"host", "mpiup run --tag-with host (or --output json) writes it, in the next run"},
	{"stream", "mpiup run --tag-with stream (or --output json) writes it, in the next run"},
	{"time", "mpiup run --timestamp (or --output json) writes it, in the next run, and kubectl logs --timestamps of this one"},
}

// NewFilter is a filter of the lines that are wanted.
func NewFilter(w Wanted) *Filter {
	return &Filter{want: w, ranks: map[int]bool{}, hosts: map[string]bool{}}
}

// File begins another log.
func (f *Filter) File() { f.logs = logs.Teller{} }

// Kept says that the line that began last is wanted.
func (f *Filter) Kept() bool { return f.kept }

// Told is what the line that began last says.
func (f *Filter) Told() logs.Told { return f.told }

// Begin takes a line, or the beginning of a long one.
func (f *Filter) Begin(line []byte) {
	f.told = f.logs.Tell(line)
	f.kept = f.keep(f.told)
}

func (f *Filter) keep(t logs.Told) bool {
	w := &f.want
	asked := [...]struct{ is, says, fits bool }{
		{!w.Ranks.Empty(), t.Rank >= 0, w.Ranks.Contains(t.Rank)},
		{w.Host != "", t.Host != "", t.Host == w.Host},
		{w.Stream != "", t.Stream != "", t.Stream == w.Stream},
		{!w.Since.IsZero() || !w.Until.IsZero(), !t.Time.IsZero(), !t.Time.Before(w.Since) && (w.Until.IsZero() || t.Time.Before(w.Until))},
	}
	if t.Rank >= 0 && len(f.ranks) < maxNames {
		f.ranks[t.Rank] = true
	}
	if t.Host != "" && len(f.hosts) < maxNames {
		f.hosts[t.Host[:min(len(t.Host), 300)]] = true
	}
	for i, a := range asked {
		f.says[i] = f.says[i] || a.says
	}
	for i, a := range asked {
		switch {
		case !a.is:
		case !a.says:
			f.lacks[i]++
			return false
		case !a.fits:
			f.unfit[i]++
			return false
		}
	}
	if t.Level < w.Level {
		f.unfit[len(asked)]++
		return false
	}
	f.any = true
	return true
}

// Nothing says why no line is wanted of a log whose lines say what was asked for; "": one is wanted, or Lacking tells.
func (f *Filter) Nothing() string {
	if f.any || f.Lacking() != "" {
		return ""
	}
	for i, n := range slices.Backward(f.unfit[:]) { // the lines that fit best
		if n == 0 {
			continue
		}
		switch i {
		case 0:
			return fmt.Sprintf("no line is of %s: the log has lines of %s",
				f.want.Ranks.Named("rank"), idset.Possible(slices.Collect(maps.Keys(f.ranks))...).Named("rank"))
		case 1:
			return fmt.Sprintf("no line says that it is of host %s: those that name a host are of %s; mpiup run --tag-with host writes it into each, in the next run", f.want.Host, hostlist.Listed(slices.Sorted(maps.Keys(f.hosts))))
		case 2:
			return "no line is on " + f.want.Stream
		case 3:
			return "no line is of that time"
		}
		return "no line is of level " + logs.Levels[f.want.Level] + " or above"
	}
	return ""
}

// Lacking is what no line said though it was asked for, as a sentence; "": nothing.
func (f *Filter) Lacking() string {
	for i, n := range f.lacks {
		if n > 0 && !f.says[i] {
			return fmt.Sprintf("no line names its %s; %s", lacking[i].what, lacking[i].remedy)
		}
	}
	return ""
}
