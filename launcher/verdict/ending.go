package verdict

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mpiup/mpiup/internal/pattern"
)

// LastLines says how a verdict is told as the last lines of a run.
type LastLines struct {
	All    bool   // nothing is left out
	Unseen bool   // nobody can see any more what the rank wrote first
	Report string // what shows the run's report, "mpiup report"; "": it has left none
}

const (
	mostLines = 6 // of a run's end
	mostFirst = 3 // of them, lines that the rank wrote first
)

// End is the verdict as a run's last lines, at most six: what happened, what lies behind it or only followed, what to do, and where more is.
// What is left out stands in the run's report. A run that its user interrupted has ended as it was told to.
func (v Verdict) End(how LastLines) []string {
	if !v.Failed() && !how.All {
		return []string{"interrupted"}
	}
	lines, first := slices.Clone(v.Evidence), v.Stderr
	var do []string
	if n := len(v.said) - len(v.Others); n > len(v.Evidence) { // not of one that was read
		do = v.said[len(v.Evidence):n]
	}
	if !how.All {
		v.PID = 0 // of a process that is gone
		first = telling(first)
		first = first[:min(len(first), mostFirst)]
		for len(do) > 1 && !strings.HasPrefix(do[len(do)-1], "lines that it had not flushed ") { // what is missing is told
			do = do[:len(do)-1]
		}
		if len(lines) > 1 && v.Rank != nil && strings.Contains(lines[1], " is the odd one out: ") { // who hangs comes before how long it took
			lines[0], lines[1] = lines[1], lines[0]
		}
	}
	for _, s := range v.Stacks {
		lines = append(lines, s.Sentence())
	}
	lines = append(lines, v.Crash()...)
	lines = slices.Concat(lines, do, v.Others)
	if v.Cordon != "" {
		lines = append(lines, "to keep other jobs from that node: "+v.Cordon)
	}
	if where := v.Where(); where != "" {
		lines = append(lines, where)
	}
	for _, l := range first {
		if how.Unseen && !slices.ContainsFunc(lines, func(told string) bool { return strings.Contains(told, l) }) {
			lines = append(lines, "its first lines: "+l)
		}
	}
	if !how.All {
		lines = lines[:min(len(lines), mostLines-1)]
	}
	return append(lines, v.more(how))
}

// more is the last line: the kind, and what tells more.
func (v Verdict) more(how LastLines) string {
	text := fmt.Sprintf("%s; more: mpiup help %s", v.Kind, v.Kind)
	if v.Likely {
		text = "probably " + text
	}
	if how.Report != "" {
		text += ", " + how.Report
	}
	return text
}

// Failed says that the run did not end as its user told it to.
func (v *Verdict) Failed() bool {
	return v.Kind != Interrupted || v.Signal != "SIGINT" && v.Signal != "SIGQUIT"
}

// Note adds what else is to be said.
func (v *Verdict) Note(text string) {
	v.Others, v.said = append(v.Others, text), append(v.said, text)
}

// telling are those of a rank's first lines that may tell of its end: not the banners that programs begin with, and nothing from where a
// traceback begins, of which the last line is quoted.
func telling(first []string) (list []string) {
	for _, l := range first {
		if strings.Contains(l, "Traceback (most recent call last)") || strings.HasPrefix(l, `  File "`) || strings.Contains(l, "RemoteTraceback:") || strings.HasPrefix(l, "usage: ") {
			break
		}
		if !banner().MatchString(l) && strings.ContainsFunc(l, unicode.IsLetter) {
			list = append(list, l)
		}
	}
	return list
}

// banner is a line with which a program begins that runs as it should: what torchrun says of OMP_NUM_THREADS between lines of asterisks
// (torch/distributed/run.py), Lightning and DeepSpeed of devices, loggers at level INFO, and progress.
var banner = pattern.Of(`^[\W_]{3}.*[\W_]{3}$|Setting OMP_NUM_THREADS|OMP_NUM_THREADS/MKL_NUM_THREADS|^(?:GPU|TPU|HPU|IPU) available: |^Initializing distributed: |^distributed_backend=|` +
	`real_accelerator\.py|\bINFO\b|^I\d{4} |^(?i:welcome to |copyright|version[ :]|\S+ version )|\d%\|| warnings\.warn\(`)
