package verdict

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
)

// What befalls all ranks of one host and no other is the host's doing, and what befalls all is no rank's.
//
//	faults, what was stopped in its own way, words ──compare──▶ alike: which ranks failed as the guilty one did, on which hosts
//	other hosts, asked for the file that is missed ───────────▶ "the same file on w0 is there"

// alike is which ranks failed as the guilty one did. The zero value: no other did, as far as is known.
type alike struct {
	ranks idset.Set // of its job, the guilty one among them
	of    int       // ranks of the job, or where host is one, on that host
	host  string    // where all of them are, beside hosts with others; "": they are on several, or the job has one host
	hosts int       // of the job
}

// all says that there is no other rank, of the job or on the host.
func (a alike) all() bool { return a.ranks.Len() == a.of }

// beginning is what stands before the sentence about the guilty one; "": no other rank failed so.
func (a alike) beginning() string {
	n := a.ranks.Len()
	switch {
	case n < 2:
		return ""
	case a.host != "" && a.all():
		return fmt.Sprintf("all %d ranks on %s and none elsewhere: ", n, a.host)
	case a.host != "":
		return fmt.Sprintf("%d of %d ranks on %s and none elsewhere: ", n, a.of, a.host)
	case a.all() && a.hosts > 1:
		return fmt.Sprintf("all %d ranks alike: ", n)
	}
	return ""
}

// ofOneHost says that all ranks of a job failed alike that is on one host, so that nothing shows whether it is the host's doing; "": they did not.
func (a alike) ofOneHost() string {
	if n := a.ranks.Len(); n < 2 || !a.all() || a.hosts > 1 {
		return ""
	}
	return fmt.Sprintf("all %d ranks failed alike", a.of)
}

// several says that other ranks failed alike, of which something is said.
func (a alike) several() bool { return a.beginning() != "" || a.ofOneHost() != "" }

// maxAlike bounds the ranks that are compared.
const maxAlike = 8 << 10

// compare finds out who failed as the guilty one did, of n processes.
func (c *Case) compare(n int, words func(id int) Said, about func(id int) Fault) {
	c.alike = alike{}
	f, ok := c.Cause()
	if !ok || n < 2 || n > maxAlike || f.ID < 0 || f.OOM || f.Command || f.broke() || c.echoes(f) {
		return
	}
	own := c.ending(f, f.says(words))
	if own == "" {
		return
	}
	ended := map[int]Fault{}
	for _, g := range slices.Concat(c.faults, c.beside, c.also) {
		if _, known := ended[g.ID]; g.ID >= 0 && !known && g.Event != NotWired {
			ended[g.ID] = g
		}
	}

	var same idset.Set
	on := map[string]int{}        // ranks of the job, by host
	sameOn := map[string]bool{}   // hosts of those that failed so
	startedOn := map[string]int{} // ranks that were started
	for id := range n {
		at := about(id)
		if at.Process.Job != f.Process.Job {
			continue
		}
		on[at.Host]++
		if c.Ran.Contains(id) {
			startedOn[at.Host]++
		}
		g, failed := ended[id]
		if !failed {
			g = at
			g.Event = Raised
		}
		if id != f.ID && !failed && slices.ContainsFunc(c.well, func(w Fault) bool { return w.ID == id }) {
			continue
		}
		if id == f.ID || c.ending(g, heard(g, failed, words)) == own {
			same.Add(at.Process.Rank)
			sameOn[at.Host] = true
		}
	}
	if f.Event == NotStarted && c.OneProgram { // of a host the first that cannot be started is told of alone
		for id := range n {
			if at := about(id); at.Process.Job == f.Process.Job && sameOn[at.Host] && startedOn[at.Host] == 0 {
				same.Add(at.Process.Rank)
			}
		}
	}
	c.alike = alike{ranks: same, hosts: len(on)}
	for host := range on {
		c.alike.of += on[host]
	}
	if len(sameOn) == 1 && len(on) > 1 {
		c.alike.host, c.alike.of = f.Host, on[f.Host]
	}
}

// heard is what a rank wrote that may tell how it failed. Of one that was stopped before it ended exceptions alone do.
func heard(f Fault, failed bool, words func(id int) Said) Said {
	said := f.says(words)
	if !failed {
		said.First, said.Last = nil, nil
	}
	return said
}

// ending is how a rank ended, in a form in which ranks are alike; "": it does not show.
func (c *Case) ending(f Fault, said Said) string {
	switch f.Event {
	case NotStarted:
		return "not started: " + figureless(f.Text)
	case Ended, Aborted, Raised:
	default:
		return ""
	}
	if found, ok := Read(said); ok && (f.Event == Aborted || f.speaks()) {
		return string(found.Kind) + ": " + figureless(found.Line)
	}
	if f.Event != Ended {
		return ""
	}
	return f.ended() + visible.Colon(figureless(f.Text))
}

// figures are numbers, in which what ranks say of one failure differs: their own, pids, ports, addresses.
var figures = pattern.Of(`(?:0x)?[0-9][0-9a-f]*`)

func figureless(text string) string { return figures().ReplaceAllString(text, "#") }

// AlsoFailed notes a rank that could not be started after the run was stopped.
func (c *Case) AlsoFailed(f Fault) {
	if len(c.also) < maxFaults {
		c.also = append(c.also, f)
	}
}

// missed is how programs say that a file is missing: Python 3.11, and its command line; bash, dash and coreutils.
var missed = pattern.Of(`No such file or directory: ['"]([^'"\n]{1,512})['"]|can't open file ['"]([^'"\n]{1,512})['"]|` +
	`(?:^|: )(?:cannot (?:open|access|stat) )?['‘]?(/[^:'’\n]{1,512})['’]?: No such file or directory`)

// maxMissed bounds the path of such a file, in bytes: PATH_MAX.
const maxMissed = 4096

// MissingFile is the file that a process has missed by its last words, in which dir; "": they are of none.
func MissingFile(said Said, dir string) string {
	texts := slices.Clone(said.Last)
	if n := len(said.Raised); n > 0 {
		texts = []string{said.Raised[n-1].Text}
	}
	for _, text := range slices.Backward(texts) {
		if !strings.Contains(text, "No such file") && !strings.Contains(text, "can't open file") {
			continue
		}
		m := missed().FindStringSubmatch(text)
		if m == nil {
			continue
		}
		file := m[1] + m[2] + m[3]
		if !path.IsAbs(file) {
			file = path.Join(dir, file)
		}
		if path.IsAbs(file) && len(file) <= maxMissed && !strings.ContainsFunc(file, unicode.IsControl) {
			return path.Clean(file)
		}
	}
	return ""
}

// fileHosts is on which other hosts the file is that a rank has missed.
type fileHosts struct {
	there, absent []string // hosts
}

// FileOn notes whether the file that a process has missed is on another host.
func (c *Case) FileOn(id int, host string, there bool) {
	if len(c.files) >= maxFaults {
		return
	}
	if c.files == nil {
		c.files = map[int]fileHosts{}
	}
	e := c.files[id]
	if there {
		e.there = append(e.there, host)
	} else {
		e.absent = append(e.absent, host)
	}
	c.files[id] = e
}

// compared says what other hosts have of what a rank has missed; "": nobody knows.
func (c *Case) compared(f Fault) string {
	const most = 3
	e := c.files[f.ID]
	switch {
	case len(e.there) > 0:
		text := "; the same file on " + visible.Few(e.there, most, ", ") + " is there"
		if len(e.absent) > 0 {
			text += ", and on " + visible.Few(e.absent, most, ", ") + " it is not"
		}
		return text
	case len(e.absent) > 0:
		return "; it is not on " + visible.Few(e.absent, most, ", ") + " either"
	case f.Event == NotStarted && c.alike.host != "" && !c.Ran.Empty():
		return "; the ranks elsewhere were started"
	}
	return ""
}

// untested says that ranks of other hosts were ended with the run, so that they may not have come so far as those of the one host; "": something
// shows that they would have done better.
func (c *Case) untested(f Fault) string {
	if c.alike.host == "" || c.alike.ranks.Len() < 2 || f.Event == NotStarted || len(c.files[f.ID].there) > 0 {
		return ""
	}
	return "the ranks elsewhere were ended then: whether they would have come to the same is not known"
}

// fellAlike says that a fault is of a rank that failed as the guilty one did, and of which that was said.
func (c *Case) fellAlike(cause, f Fault) bool {
	return c.alike.several() && f.ID >= 0 && f.Process.Job == cause.Process.Job && c.alike.ranks.Contains(f.Process.Rank)
}

// hostly is what to do where it is one host's doing; nil: it is not known to be.
func (c *Case) hostly(f Fault) []string {
	e := c.files[f.ID]
	switch {
	case f.ID < 0 || f.Host == "":
		return nil
	case len(e.there) > 0:
		return []string{fmt.Sprintf("see what %s lacks that %s has: its image, and which volumes are mounted there", f.Host, e.there[0])}
	case c.alike.host != "" && c.alike.all() && c.alike.ranks.Len() > 1:
		return []string{fmt.Sprintf("see in what %s differs from the others: its image, volumes, devices and environment; mpiup doctor compares hosts", f.Host)}
	}
	return nil
}

// aloneElsewhere says that advice is to run one rank on the launcher's host.
func aloneElsewhere(do string) bool { return strings.Contains(do, "mpiup run -n 1") }
