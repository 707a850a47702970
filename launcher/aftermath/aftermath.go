// Package aftermath answers what people ask when a run is over, from logs and from reports that runs have left.
//
//	logs of any launcher ──▶ Verdict   which rank ended the job, and why
//	                     ──▶ Logs      the lines that are wanted
//	reports, and both    ──▶ Report    what happened when
//	                     ──▶ Why       the verdict, the culprit's last lines, what to type next
//
// A Desk belongs to one goroutine. What it reads may be hostile: logs and report bound it, and what it writes is made visible.
package aftermath

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
)

// Desk is where somebody asks.
type Desk struct {
	Stdin          *os.File // nil: there is none
	Stdout, Stderr io.Writer
	Typed          bool   // Stdin is a terminal or /dev/null: nobody hands a log over
	Kept           string // the folder in which runs of this user that failed leave their reports
	// Said is what ranks of this user's runs on this machine wrote last, as a log, and how many such runs there are.
	Said func() (log []byte, runs int, err error)
}

// files are those that are named, or standard input.
func files(names []string) []string {
	if len(names) == 0 {
		return []string{"-"}
	}
	return names
}

// open opens a file; "-" is standard input, of which it is said where somebody may wait for an answer.
func (d *Desk) open(name string) (io.ReadCloser, error) {
	switch {
	case name != "-":
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; mpiup report --list names the reports that failed runs of yours have left", err)
		}
		return f, err
	case d.Stdin == nil:
		return nil, errors.New("there is no standard input")
	case d.Typed:
		fmt.Fprintln(d.Stderr, "mpiup: reading standard input until Ctrl-D; a pod's log comes by kubectl logs POD | mpiup ..., a file's by its name")
	}
	return io.NopCloser(d.Stdin), nil
}

// pieces calls f with the lines of a file and their ends, with a long one in pieces.
func (d *Desk) pieces(name string, f func(piece []byte, begins bool) error) error {
	in, err := d.open(name)
	if err != nil {
		return err
	}
	return errors.Join(eachPiece(in, f), in.Close())
}

// lines calls f with the lines of a file without their ends, with the beginning of a long one.
func (d *Desk) lines(name string, f func(line []byte) error) error {
	return d.pieces(name, func(piece []byte, begins bool) error {
		if !begins {
			return nil
		}
		return f(bytes.TrimRight(piece, "\r\n"))
	})
}

func eachPiece(in io.Reader, f func(piece []byte, begins bool) error) error {
	b := bufio.NewReaderSize(in, logs.MaxLine)
	for begins := true; ; {
		piece, err := b.ReadSlice('\n')
		if len(piece) > 0 {
			if err := f(piece, begins); err != nil {
				return err
			}
		}
		begins = !errors.Is(err, bufio.ErrBufferFull)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && begins {
			return err
		}
	}
}

// running is what runs that go on have written last; nil: there is none, or somebody hands a log over.
func (d *Desk) running() io.Reader {
	if !d.Typed && d.Stdin != nil || d.Said == nil {
		return nil
	}
	log, runs, err := d.Said()
	if err != nil {
		visible.Fprintln(d.Stderr, "mpiup: of your runs on this machine:", err)
	}
	if runs == 0 {
		return nil
	}
	visible.Fprintf(d.Stderr, "mpiup: what the ranks of your %s on this machine wrote last\n",
		map[bool]string{true: "run", false: visible.Count(runs, "run")}[runs == 1])
	return bytes.NewReader(log)
}

// Logs prints the lines that are wanted of files, without a name of runs that go on here, else of standard input; found: there are some. The
// error is a *fs.PathError of Op "write" where Stdout could not be written.
func (d *Desk) Logs(names []string, w Wanted) (found bool, err error) {
	f, out := NewFilter(w), bufio.NewWriter(d.Stdout)
	pieces := d.pieces
	if len(names) == 0 {
		if in := d.running(); in != nil {
			pieces = func(_ string, f func([]byte, bool) error) error { return eachPiece(in, f) }
		}
	}
	for i, name := range files(names) {
		if i > 0 {
			f.File()
		}
		err := pieces(name, func(line []byte, begins bool) error {
			if begins {
				f.Begin(line)
			}
			if !f.Kept() {
				return nil
			}
			found = true
			_, err := out.Write(line)
			return err
		})
		if err != nil {
			return found, errors.Join(err, out.Flush())
		}
	}
	if l := f.Lacking(); l != "" {
		visible.Fprintln(d.Stderr, "mpiup: warning:", l)
		if len(names) == 1 && names[0] != "-" {
			file := visible.Path(names[0])
			visible.Fprintf(d.Stderr, "mpiup: without that: mpiup why %s says which rank failed, mpiup logs --level warn %s shows what matters\n", file, file)
		}
	}
	if l := f.Nothing(); l != "" {
		visible.Fprintln(d.Stderr, "mpiup:", l)
	}
	return found, out.Flush()
}

// Verdict says of files which rank ended the job, and why; found: they tell of a failure.
func (d *Desk) Verdict(names []string, asJSON bool) (found bool, err error) {
	var r reading
	for i, name := range files(names) {
		if v, err := d.reported(name); v != nil || err != nil {
			return v != nil, errors.Join(err, d.tell(&r, *cmp.Or(v, &verdict.Verdict{}), v != nil, asJSON))
		}
		if i > 0 {
			r.File()
		}
		err := d.lines(name, func(line []byte) error {
			r.Line(string(line))
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	v, found := r.Verdict()
	return found, d.tell(&r, v, found, asJSON)
}

// reported is the verdict of a run's report, where a file is one or the folder of one; nil: it is a log.
func (d *Desk) reported(name string) (*verdict.Verdict, error) {
	if name == "-" || !isReport(name) {
		return nil, nil
	}
	r, err := d.read(name, nil)
	if errors.Is(err, report.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if r.Verdict == nil {
		return nil, fmt.Errorf("%s is the report of a run that ended well, with exit code %d", name, r.ExitCode)
	}
	return r.Verdict, nil
}

func (d *Desk) tell(from *reading, v verdict.Verdict, found, asJSON bool) error {
	text := []byte("null")
	if asJSON {
		var err error
		if found {
			if text, err = visible.JSONLine(v); err != nil {
				return err
			}
		}
		_, err = d.Stdout.Write(append(text, '\n'))
		return err
	}
	if !found {
		_, err := visible.Fprint(d.Stdout, from.nothing())
		return err
	}
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-6s %s\n", name+":", visible.Line(fmt.Sprintf(format, args...)))
	}
	line("kind", "%s%s", map[bool]string{true: "probably "}[v.Likely], v.Kind)
	line("rank", "%s", accused(v))
	if v.Why != "" {
		line("why", "%s", v.Why)
	}
	for _, d := range []struct{ name, id string }{{"GPU", v.GPU}, {"PCI", v.PCI}, {"HCA", v.HCA}} {
		if d.id != "" {
			line(d.name, "%s", d.id)
		}
	}
	for _, e := range v.Evidence {
		line("line", "%s", e)
	}
	for _, d := range v.Advice {
		line("do", "%s", d)
	}
	line("more", "mpiup help %s", v.Kind)
	_, err := visible.Fprint(d.Stdout, b.String())
	return err
}

// accused says whose the failure is and how sure that is, or who only reports it.
func accused(v verdict.Verdict) string {
	text := "unknown"
	switch {
	case v.Rank != nil && v.Confidence == verdict.Probable:
		text = fmt.Sprintf("probably %d", *v.Rank)
	case v.Rank != nil:
		text = fmt.Sprint(*v.Rank)
	case v.Confidence == verdict.OneOfSeveral:
		text = "one of " + v.Ranks + "; which, the log does not show"
	case v.Confidence == verdict.Certain || v.Confidence == verdict.Probable:
		text = "no single rank: the whole job failed"
	}
	if v.Host != "" && v.Rank == nil {
		text += " (seen on " + v.Host + ")"
	} else if v.Host != "" {
		text += " on " + v.Host
	}
	if v.Reporters != "" {
		text += "; only reported by " + v.Reporters
	}
	return text
}

// ofGoodRun says how the report of a run is had that ends well.
const ofGoodRun = "of one that ends well, mpiup run --report DIR ... writes it to a folder, which mpiup report DIR shows"

// kept are the reports that runs of this user have left, the newest first. The folder may be in one where others make things: only one that is
// this user's alone is read.
func (d *Desk) kept() ([]string, error) {
	none := fmt.Errorf("no run of this user has left a report in %s: one that fails after its ranks have started leaves one; %s", d.Kept, ofGoodRun)
	if _, err := os.Lstat(d.Kept); err != nil {
		return nil, none
	}
	dir, err := outfile.Private(d.Kept)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := report.Kept(dir)
	if err == nil && len(names) == 0 {
		err = none
	}
	slices.Reverse(names)
	for i, n := range names {
		names[i] = filepath.Join(d.Kept, n)
	}
	return names, err
}

// which is the file that is meant: one that is named, else the newest failure of this user where nobody hands a log over. own: it is of the
// folder into which nobody else can write, so that its sentences are taken for this user's runs'.
func (d *Desk) which(name string) (is string, own bool, err error) {
	if name != "" || !d.Typed && d.Stdin != nil {
		if name == "" {
			name = "-"
		}
		return name, false, nil
	}
	all, err := d.kept()
	if err != nil {
		return "", false, err
	}
	visible.Fprintf(d.Stderr, "mpiup: the newest of %s: %s\n", visible.Count(len(all), "report"), all[0])
	if r, err := d.read(all[0], nil); err == nil { // else the caller says why
		visible.Fprintf(d.Stderr, "mpiup: of the run that began %s UTC: %.100s (one that was interrupted, or started no rank, leaves no report; %s)\n",
			r.Begun.UTC().Format(time.DateTime), visible.Line(strings.Join(r.Command, " ")), ofGoodRun)
	}
	return all[0], true, nil
}

// believe gives a report of this user's own its sentences back.
func believe(r *report.Report, own bool) *report.Report {
	if own && r != nil && r.Verdict != nil {
		v := r.Verdict.Believed()
		r.Verdict = &v
	}
	return r
}

// read reads a report's JSON, or that of a folder. Of a log the error is report.ErrNone, and log gets its lines; nil: nobody wants them.
func (d *Desk) read(name string, log *gathered) (*report.Report, error) {
	open, folder := d.open, false
	if info, err := os.Stat(name); err == nil && info.IsDir() { // what is in it somebody else may have put there
		name, folder = filepath.Join(name, report.FileName), true
		open = func(name string) (io.ReadCloser, error) {
			f, err := bounded.Open(name)
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: the folder is of no run's report (mpiup run --report DIR writes one)", err)
			}
			return f, err
		}
	}
	in, err := open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r, rest, err := report.Read(in)
	if err == nil {
		return r, nil
	}
	if log != nil && !folder && errors.Is(err, report.ErrNone) {
		if _, broken := io.Copy(log, rest); broken != nil {
			err = broken
		}
	}
	if name == "-" {
		name = "standard input"
	}
	if !folder && errors.Is(err, report.ErrNone) && err != report.ErrNone { //nolint:errorlint // that alone says no more
		visible.Fprintf(d.Stderr, "mpiup: %s: %v; its lines are read as a log's\n", visible.Path(name), err)
	}
	if folder { // what it holds is no log of a run, and nothing of it is shown
		return nil, fmt.Errorf("%s: %v", name, err)
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}
