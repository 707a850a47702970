package aftermath

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
)

// Report shows what remains of a run: a report of that name; "": of the newest failure of this user, or on standard input where somebody hands one over. A
// log tells what Why does.
func (d *Desk) Report(name string, v report.View, asJSON bool) error {
	name, own, err := d.which(name)
	if err != nil {
		return err
	}
	log := &gathered{}
	r, err := d.read(name, log)
	believe(r, own)
	if errors.Is(err, report.ErrNone) && !asJSON && log.told() {
		visible.Fprintln(d.Stderr, "mpiup: it holds no report (mpiup run --report DIR writes one): this is what its lines tell")
		return d.ofLog(name, log)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if asJSON {
		return visible.JSON(d.Stdout, r)
	}
	return report.Timeline(d.Stdout, r, v)
}

// List shows the reports that runs of this user have left, the newest first.
func (d *Desk) List() error {
	all, err := d.kept()
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(d.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "BEGUN\tENDED\tCOMMAND\tREPORT")
	for _, name := range all {
		how, command, begun := "it cannot be read", "", ""
		if r, err := d.read(name, nil); err == nil {
			how, command, begun = fmt.Sprintf("exit code %d", r.ExitCode), strings.Join(r.Command, " "), r.Begun.UTC().Format(time.DateTime)
			if v := r.Verdict; v != nil {
				how = fmt.Sprintf("%d %s", r.ExitCode, v.Kind)
			}
		}
		visible.Fprintf(t, "%s\t%s\t%.60s\t%s\n", visible.Line(begun), visible.Line(how), visible.Line(command), visible.Line(name))
	}
	return t.Flush()
}

// Why is for whoever is called: the verdict, the culprit's last lines, and what to type next; found: it tells of a failure. It reads what Report reads.
func (d *Desk) Why(name string) (found bool, err error) {
	name, own, err := d.which(name)
	if err != nil {
		return false, err
	}
	log := &gathered{}
	r, err := d.read(name, log)
	believe(r, own)
	if errors.Is(err, report.ErrNone) {
		return log.told(), d.ofLog(name, log)
	}
	if err != nil {
		return false, err
	}
	v := r.Verdict
	if v == nil {
		_, err := visible.Fprintf(d.Stdout, "this run ended well, with exit code %d\n", r.ExitCode)
		return false, err
	}
	var b strings.Builder
	b.WriteString(answer(*v))
	for _, rank := range r.Ranks {
		if v.Rank != nil && rank.Rank == *v.Rank && rank.Job == v.Job {
			quote(&b, fmt.Sprintf("Last lines of rank %d on %s (%s)", rank.Rank, visible.Line(rank.Host), visible.Line(rank.End)), rank.Last)
		}
	}
	_, err = visible.Fprint(d.Stdout, b.String()+"\n"+next(name, "report", *v))
	return true, err
}

// mostAdvice is how much of a verdict's advice Why gives; the page of its kind has all.
const mostAdvice = 3

// answer is a verdict as Why has it, of a report and of a log alike: whose and what it is, what happened, what to do.
func answer(v verdict.Verdict) string {
	var b strings.Builder
	b.WriteString("Verdict: " + map[bool]string{true: "probably "}[v.Likely] + visible.Line(string(v.Kind)))
	switch {
	case v.Rank == nil && (v.Confidence == verdict.Certain || v.Confidence == verdict.Probable) && v.Host == "" && v.Reporters == "":
		b.WriteString(", the job's")
	case v.Rank != nil || v.Confidence != "":
		b.WriteString(", rank " + visible.Line(accused(v)))
	case v.Host != "":
		b.WriteString(", on " + visible.Line(v.Host))
	}
	b.WriteString("\n")
	var more []string
	if v.Why != "" {
		more = append(more, "whose it is: "+v.Why)
	}
	more = append(more, v.Crash()...)
	if w := v.Where(); v.Node+v.GPU+v.PCI+v.HCA != "" {
		more = append(more, w)
	}
	for _, l := range slices.Concat(v.Evidence, more, v.Others, v.Advice[:min(len(v.Advice), mostAdvice)]) {
		b.WriteString("  " + visible.Line(l) + "\n")
	}
	for _, s := range v.Stacks {
		b.WriteString("  " + visible.Line(s.Sentence()) + "\n")
	}
	return b.String()
}

// quote writes lines that others wrote, if there are any.
func quote(b *strings.Builder, title string, lines []string) {
	if len(lines) > 0 {
		b.WriteString("\n" + title + ":\n")
	}
	for _, l := range lines {
		b.WriteString("  " + visible.Line(l) + "\n")
	}
}

// ofLog is why, by a log's lines: what they tell, and its own last ones where they say more.
func (d *Desk) ofLog(name string, log *gathered) error {
	v, found := log.reader.Verdict()
	var b strings.Builder
	if found {
		b.WriteString(answer(v))
	} else {
		b.WriteString(log.reader.nothing())
	}
	before, alone, ends := log.last(-1)
	if v.Rank != nil {
		if lines, _, _ := log.last(*v.Rank); len(lines) > 0 {
			quote(&b, fmt.Sprintf("Last lines of rank %d", *v.Rank), lines)
			before = alone
		} else {
			v.Rank = nil // which no line names: logs --rank would find none
		}
	}
	switch {
	case log.reader.agent && !found: // whose lines that matter stand there
	case len(ends) == 0:
		quote(&b, "The log's last lines", before)
	default:
		if v.Rank == nil {
			quote(&b, "The last lines before mpiup's own, of whatever rank", before)
		}
		said := b.String()
		quote(&b, "What mpiup wrote at the log's end", slices.DeleteFunc(ends, func(l string) bool {
			_, text, _ := strings.Cut(l, ownWords)
			return strings.Contains(said, "  "+visible.Line(text)+"\n") || strings.Contains(text, string(v.Kind)+"; more: ") // which Next says
		}))
	}
	if found || name != "-" {
		b.WriteString("\n" + next(name, "logs", v))
	}
	_, err := visible.Fprint(d.Stdout, b.String())
	return err
}

// next is what to type next. A file's name stands in it as a shell takes it for one word.
func next(file, command string, v verdict.Verdict) string {
	var more []string
	if v.Kind != "" {
		more = append(more, "mpiup help "+string(v.Kind))
	}
	if file != "-" {
		what := "mpiup " + command
		if v.Rank != nil {
			what += fmt.Sprintf(" --rank %d", *v.Rank)
		} else if command == "logs" {
			what += " --level warn"
		}
		more = append(more, what+" "+visible.Path(file))
	}
	if v.Cordon != "" {
		more = append(more, v.Cordon)
	}
	return "Next: " + strings.Join(more, "    ") + "\n"
}

// gathered is a log as it is read: what it tells, and its end.
type gathered struct {
	reader reading
	line   []byte // begun, at most logs.MaxLine of it
	end    []byte // at most twice maxEnd
}

const (
	maxEnd   = 1 << 20 // bytes of a log's end in which last lines are looked for
	mostLast = 10
	mostEnds = 24 // as many lines as mpiup's own block may have
)

// Write takes a piece of the log.
func (g *gathered) Write(p []byte) (int, error) {
	n := len(p)
	g.end = append(g.end, p...)
	if len(g.end) > 2*maxEnd {
		g.end = append(g.end[:0], g.end[len(g.end)-maxEnd:]...)
	}
	for len(p) > 0 {
		piece, rest, whole := bytes.Cut(p, []byte{'\n'})
		g.line = append(g.line, piece[:min(len(piece), max(logs.MaxLine-len(g.line), 0))]...)
		if whole {
			g.reader.Line(string(g.line))
			g.line = g.line[:0]
		}
		p = rest
	}
	return n, nil
}

func (g *gathered) told() bool {
	if len(g.line) > 0 {
		g.reader.Line(string(g.line))
		g.line = g.line[:0]
	}
	_, found := g.reader.Verdict()
	return found
}

// ownWords begin a line of mpiup's own.
const ownWords = "mpiup: "

// last are a rank's last lines, as far as tags tell, those of JSON records as they were written; or, of -1, the last lines of whatever rank before
// those that mpiup itself wrote at the end, those of them that stand after all ranks' lines, and mpiup's.
func (g *gathered) last(rank int) (lines, alone, ends []string) {
	w := Wanted{}
	if rank >= 0 {
		w.Ranks = idset.Of(rank)
	}
	f := NewFilter(w)
	own, tagged := 0, 0 // where lines of mpiup's own begin at the end, and where ranks' end
	for line := range bytes.Lines(g.end) {
		f.Begin(line)
		told, text := f.Told(), strings.TrimRight(string(line[:min(len(line), logs.MaxLine)]), "\r\n")
		switch {
		case !f.Kept(), told.Text == "", strings.HasPrefix(text, `{"time":`) && strings.Contains(text, `"event":`):
			continue
		case strings.HasPrefix(text, `{"`) && told.Rank >= 0:
			text = told.Indent + told.Text
		}
		lines = append(lines, text)
		if rank >= 0 || told.Rank >= 0 || !strings.Contains(text, ownWords) {
			own = len(lines)
		}
		if told.Rank >= 0 {
			tagged = len(lines)
		}
	}
	part := func(from, to, most int) []string { return slices.Clone(lines[max(from, to-most):to]) }
	return part(0, own, mostLast), part(tagged, own, mostLast), part(own, len(lines), mostEnds)
}
