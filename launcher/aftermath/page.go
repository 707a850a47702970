package aftermath

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
)

// Page writes a run's page to a file, for a browser: of a report as Report reads it, with the lines of a log; "": without. Of a log alone the page has what
// its lines tell. Secrets are masked, and nothing is written unless all can be.
func (d *Desk) Page(name, log, to string) error {
	name, own, err := d.which(name)
	if err != nil {
		return err
	}
	if info, err := os.Stat(name); name == "-" || err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return errors.New("a page is made of a file, which is read twice; write kubectl logs POD > launcher.log, and name that")
	}
	note := ""
	r, err := d.read(name, nil)
	believe(r, own)
	switch none := errors.Is(err, report.ErrNone) || errors.Is(err, fs.ErrNotExist) && log != ""; {
	case none && log == "":
		log = name
		fallthrough
	case none:
		if r, err = d.unfinished(log); err != nil {
			return err
		}
		note = "the log has no report (mpiup run --report DIR writes one): what stands here is what its lines tell"
	case err != nil:
		return err
	}
	var text bytes.Buffer
	p, err := NewPage(&text, r, note)
	if err != nil {
		return err
	}
	if log != "" {
		ended, err := d.pageLog(p, log)
		if err != nil {
			return fmt.Errorf("%s: %w", log, err)
		}
		if was := kindOf(r.Verdict); ended != "" && ended != was {
			visible.Fprintf(d.Stderr, "mpiup: warning: %s ends with %s, and the report with %s: they are of two runs\n", log, ended, cmp.Or(was, "no failure"))
		}
	}
	if err := p.Close(); err != nil {
		return err
	}
	if err := outfile.Write(to, text.Bytes()); err != nil {
		return fmt.Errorf("--html %s: %w", to, err)
	}
	return nil
}

// unfinished is what a log without a report tells of its run.
func (d *Desk) unfinished(name string) (*report.Report, error) {
	const most = 8 << 10 // ranks
	r := &report.Report{Mark: report.Mark, Version: report.Version, Command: []string{name}}
	var lines reading
	var of logs.Teller
	ranks, hosts := map[int]bool{}, map[string]bool{}
	err := d.lines(name, func(line []byte) error {
		lines.Line(string(line))
		t := of.Tell(line)
		if r.Begun.IsZero() {
			r.Begun = t.Time
		}
		if t.Rank >= 0 && !ranks[t.Rank] && len(ranks) < most {
			ranks[t.Rank] = true
			r.Ranks = append(r.Ranks, report.Rank{Rank: t.Rank, Host: t.Host})
		}
		if t.Host != "" && !hosts[t.Host] && len(hosts) < most {
			hosts[t.Host] = true
			r.Hosts = append(r.Hosts, report.Host{Name: t.Host})
		}
		return nil
	})
	if v, failed := lines.Verdict(); failed {
		v.Evidence, v.Others, v.Stderr = secret.MaskLines(v.Evidence), secret.MaskLines(v.Others), secret.MaskLines(v.Stderr)
		r.Verdict = &v
	}
	slices.SortFunc(r.Ranks, func(a, b report.Rank) int { return a.Rank - b.Rank })
	return r, err
}

// isReport says that a file may be a report, or a folder that holds one. What can be read but once, as a pipe is, is a log.
func isReport(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return err == nil && info.IsDir()
	}
	f, err := bounded.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return report.IsMarked(f)
}

// maxMasks is how many processes' private keys are told apart in a log.
const maxMasks = 8 << 10

// kindLine is the last line of a failed run's.
var kindLine = pattern.Of(`^mpiup: ([a-z-]+); more: mpiup help `)

func kindOf(v *verdict.Verdict) string {
	if v == nil {
		return ""
	}
	return string(v.Kind)
}

// pageLog puts a log's lines on a page, and returns the kind of the failure that it ends with, "" for none.
func (d *Desk) pageLog(p *PageWriter, name string) (ended string, err error) {
	var of logs.Teller
	masks := map[int]*secret.LineMasker{}
	err = d.lines(name, func(line []byte) error {
		if m := kindLine().FindSubmatch(line); m != nil {
			ended = string(m[1])
		}
		t := of.Tell(line)
		whose := t.Rank
		if len(masks) >= maxMasks {
			whose = -1
		}
		m := masks[whose]
		if m == nil {
			m = &secret.LineMasker{}
			masks[whose] = m
		}
		t.Text = m.Line(t.Text)
		return p.Add(t)
	})
	return ended, err
}
