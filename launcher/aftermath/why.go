package aftermath

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// Report shows what remains of a run: a report of that name, or in a log; "": of the newest failure of this user, or on standard input where somebody hands a
// log over. A log without a report tells what Why does.
func (d *Desk) Report(name string, v report.View, asJSON bool) error {
	name, err := d.which(name)
	if err != nil {
		return err
	}
	log := &gathered{}
	r, doubts, err := d.read(name, log)
	if errors.Is(err, report.ErrNone) && !asJSON && log.told() {
		visible.Fprintln(d.Stderr, "mpiup: it holds no report (mpiup run --seal writes one): this is what its lines tell")
		return d.ofLog(name, log)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, doubt := range doubts {
		visible.Fprintln(d.Stderr, "mpiup: "+name+":", doubt)
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
		if r, _, err := d.read(name, io.Discard); err == nil {
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
	name, err = d.which(name)
	if err != nil {
		return false, err
	}
	log := &gathered{}
	r, _, err := d.read(name, log)
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
	crash := []string(nil)
	if len(v.Frames) > 0 {
		crash = []string{"it crashed in " + strings.Join(v.Frames, ", called by ")}
	}
	for _, l := range slices.Concat(v.Evidence, crash, v.Others, v.Advice[:min(len(v.Advice), 3)]) {
		b.WriteString(visible.Line(l) + "\n")
	}
	for _, s := range v.Stacks {
		b.WriteString(visible.Line(s.Sentence()) + "\n")
	}
	for _, rank := range r.Ranks {
		if v.Rank != nil && rank.Rank == *v.Rank && rank.Job == v.Job && len(rank.Last) > 0 {
			fmt.Fprintf(&b, "\nLast lines of rank %d on %s (%s):\n", rank.Rank, visible.Line(rank.Host), visible.Line(rank.End))
			for _, l := range rank.Last {
				b.WriteString("  " + visible.Line(l) + "\n")
			}
		}
	}
	_, err = visible.Fprint(d.Stdout, b.String()+"\n"+next(name, "report", *v))
	return true, err
}

// ofLog is why, by a log's lines.
func (d *Desk) ofLog(name string, log *gathered) error {
	v, found := log.reader.Verdict()
	if err := d.tell(&log.reader, v, found, false); err != nil || !found {
		return err
	}
	var b strings.Builder
	if v.Rank != nil {
		if lines := log.last(*v.Rank); len(lines) > 0 {
			fmt.Fprintf(&b, "\nLast lines of rank %d:\n", *v.Rank)
			for _, l := range lines {
				b.WriteString("  " + visible.Line(l) + "\n")
			}
		} else if lines := log.before(); len(lines) > 0 {
			v.Rank = nil // which no line names: logs --rank would find none
			b.WriteString("\nThe last lines before mpiup's own, of whatever rank:\n")
			for _, l := range lines {
				b.WriteString("  " + visible.Line(l) + "\n")
			}
		}
	}
	_, err := visible.Fprint(d.Stdout, b.String()+"\n"+next(name, "logs", v))
	return err
}

// next is what to type next. A file's name stands in it as a shell takes it for one word.
func next(file, command string, v verdict.Verdict) string {
	more := []string{"mpiup help " + string(v.Kind)}
	if file != "-" {
		what := "mpiup " + command
		if v.Rank != nil {
			what += fmt.Sprintf(" --rank %d", *v.Rank)
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

// before are the last lines before those that mpiup itself wrote at the end, where it did.
func (g *gathered) before() (lines []string) {
	for line := range bytes.Lines(g.end) {
		lines = append(lines, strings.TrimRight(string(line[:min(len(line), logs.MaxLine)]), "\r\n"))
	}
	own := func(l string) bool {
		return l == "" || strings.Contains(l, "mpiup: ") || strings.Contains(l, "mpiup-report ")
	}
	end := len(lines)
	for end > 0 && own(lines[end-1]) {
		end--
	}
	if end == len(lines) {
		return nil
	}
	return slices.DeleteFunc(lines[max(0, end-mostLast):end], own)
}

// last are a rank's last lines, as far as tags tell.
func (g *gathered) last(rank int) (lines []string) {
	f := logs.NewFilter(logs.Wanted{Ranks: idset.Of(rank)})
	for line := range bytes.Lines(g.end) {
		f.Begin(line)
		if f.Kept() {
			lines = append(lines, strings.TrimRight(string(line[:min(len(line), logs.MaxLine)]), "\r\n"))
		}
	}
	return slices.Clone(lines[max(0, len(lines)-mostLast):])
}
