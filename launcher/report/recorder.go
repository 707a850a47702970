package report

import (
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hours"
)

// Recorder collects a run's report. The zero Recorder is ready once Begin was called.
type Recorder struct {
	report   Report
	first    []Event
	last     []Event   // a ring once it is full
	next     int       // in last
	more     int       // events that last no longer has
	joint    idset.Set // ranks of the newest event, while more may come
	rows     []row     // by process, of all attempts
	rowOf    map[rowKey]int
	now      []int // index in rows, by id of this attempt
	curves   []curve
	memory   []curve
	ofHost   map[string]int // index in memory
	machines machines
	hours    hours.Book
	stand    hours.Stand
	in       map[string]time.Duration // spent in the phases before this one
	since    time.Time                // this one began
}

// Begin notes what does not change: Version, Job, Command, Launcher and Begun.
func (r *Recorder) Begin(is Report) {
	r.report = is
	r.report.Mark = Mark
	r.report.Version = Version
	r.report.Command = commandLine(is.Command)
	r.hours.Begin(is.Begun)
	r.since, r.stand.Phase, r.in = is.Begun, hours.Phases[0], map[string]time.Duration{}
	r.entered(is.Begun, hours.Phases[0])
}

// Enter notes a phase.
func (r *Recorder) Enter(at time.Time, phase string) {
	r.hours.Enter(at, phase)
	if phase != r.stand.Phase {
		r.in[r.stand.Phase] += at.Sub(r.since)
		r.stand.Phase, r.since = phase, at
		r.entered(at, phase)
	}
}

// Over notes that the run is: nothing more is spent.
func (r *Recorder) Over(at time.Time) {
	r.Enter(at, hours.Phases[len(hours.Phases)-1])
	r.hours.Close(at)
}

// Stands notes how the run stands.
func (r *Recorder) Stands(at time.Time, s hours.Stand) {
	r.hours.Stands(at, s)
	r.Enter(at, s.Phase)
	r.stand = s
}

// Places notes that the ranks of the first job have their hosts, which are noted.
func (r *Recorder) Places(at time.Time, ranks []Rank) {
	hosts := make([]string, len(ranks))
	for i, p := range ranks {
		hosts[i] = p.Host
	}
	r.hours.Placed(at, hosts, func(name string) int {
		at := slices.IndexFunc(r.report.Hosts, func(h Host) bool { return h.Name == name })
		if at < 0 {
			return 0
		}
		return min(r.report.Hosts[at].GPUs, maxGPUs)
	})
}

// Job notes the job's id.
func (r *Recorder) Job(id string) { r.report.Job = id }

// Restart notes that the ranks are to be started again, and lets those go that have ended.
func (r *Recorder) Restart(at time.Time, is Restart) {
	is.At, is.Why = r.second(at), cut(secret.MaskText(is.Why), maxText)
	r.Event(at, Event{Kind: Again, Text: is.Why})
	if len(r.report.Restarts) < maxRestarts {
		r.report.Restarts = append(r.report.Restarts, is)
	}
	for id := range r.now {
		r.leaves(at, id)
	}
	r.report.Ranks, r.report.Programs, r.now, r.machines.seats = nil, nil, nil, 0
}

// Host notes a host that joined. One of the same name has taken its place.
func (r *Recorder) Host(h Host, at time.Time) {
	r.report.Hosts = append(slices.DeleteFunc(r.report.Hosts, func(o Host) bool { return o.Name == h.Name }), h)
	r.Event(at, Event{Kind: Found, Host: h.Name, Text: h.Address})
}

// Programs notes programs, and returns the index of the first.
func (r *Recorder) Programs(list []Program) (first int) {
	if len(r.report.Programs) >= maxPrograms {
		return maxPrograms
	}
	for _, p := range list {
		p.Argv = commandLine(p.Argv)
		for i, kv := range p.Env {
			p.Env[i] = cutVariable(secret.MaskVariable(kv))
		}
		r.report.Programs = append(r.report.Programs, p)
	}
	return len(r.report.Programs) - len(list)
}

// Rank notes a process that is to be started, in the order of their ids. Of a run that spawns for ever only the first are kept.
func (r *Recorder) Rank(p Rank) {
	if len(r.report.Ranks) < maxRanks {
		r.report.Ranks = append(r.report.Ranks, p)
		r.now = append(r.now, r.row(p))
	}
}

// Started notes a process's pid.
func (r *Recorder) Started(at time.Time, id, pid int) {
	if id < len(r.report.Ranks) {
		r.report.Ranks[id].PID = pid
		r.hours.Started(at, id)
		r.Did(at, id, Starts)
		r.joined(at, Started, id, "")
	}
}

// Ended notes how a process ended.
func (r *Recorder) Ended(at time.Time, id int, how string) {
	if id < len(r.report.Ranks) {
		how = secret.MaskText(how)
		r.report.Ranks[id].End = how
		r.hours.Ended(at, id)
		r.Did(at, id, Over)
		r.joined(at, Ended, id, how)
	}
}

// leaves notes that a process is no longer where it was, which has not ended as far as is known: from now on it is where it is started again.
func (r *Recorder) leaves(at time.Time, id int) {
	if r.now[id] < 0 {
		return
	}
	w := &r.rows[r.now[id]]
	if n := len(w.Did); n > 0 && w.Did[n-1] != Astray {
		w.add(r.second(at), Over)
	}
}

// LostHost notes that a host is lost of which nothing was heard since a time: so are its ranks that had not ended.
func (r *Recorder) LostHost(at, since time.Time, host, why string) {
	r.Event(at, Event{Kind: Lost, Host: host, Text: why})
	for id := range r.report.Ranks {
		p := &r.report.Ranks[id]
		if p.Host != host || p.End != "" {
			continue
		}
		p.End = LostWithHost
		if r.now[id] >= 0 {
			r.rows[r.now[id]].lose(r.second(since))
		}
	}
}

// Last notes what a process wrote last, to which stream.
func (r *Recorder) Last(id int, to job.Stream, lines []string) {
	if id >= len(r.report.Ranks) {
		return
	}
	p := &r.report.Ranks[id]
	if p.Last = nil; len(lines) > 0 {
		p.Stream = to.String()
	}
	for _, l := range secret.MaskLines(lines)[max(0, len(lines)-maxLines):] {
		p.Last = append(p.Last, cut(l, maxText))
	}
}

// joined notes something of a rank; what happens to ranks of one host alike, one after the other, is one event.
func (r *Recorder) joined(at time.Time, kind string, id int, text string) {
	p := r.report.Ranks[id]
	if p.Job == 0 {
		if e := r.newest(); e == nil || r.joint.Empty() || e.Kind != kind || e.Host != p.Host || e.Text != text {
			r.Event(at, Event{Kind: kind, Host: p.Host, Text: text})
		}
		r.joint.Add(p.Rank)
		return
	}
	r.Event(at, Event{Kind: kind, Host: p.Host, Text: strings.TrimSpace(job.Process{Job: p.Job, Rank: p.Rank}.String() + " " + text)})
}

// settle writes the ranks of the newest event down.
func (r *Recorder) settle() {
	if e := r.newest(); e != nil && !r.joint.Empty() {
		e.Ranks = r.joint.String()
		r.joint = idset.Set{}
	}
}

// newest is the last event.
func (r *Recorder) newest() *Event {
	switch {
	case len(r.last) > 0:
		return &r.last[(r.next+len(r.last)-1)%len(r.last)]
	case len(r.first) > 0:
		return &r.first[len(r.first)-1]
	}
	return nil
}

// Event notes something that happened.
func (r *Recorder) Event(at time.Time, e Event) {
	if r.settle(); e.Kind == Lost {
		r.hours.Gone(at, e.Host)
	}
	e.At = r.second(at)
	e.Text = cut(secret.MaskText(e.Text), maxText)
	switch {
	case len(r.first) < maxEvents/2:
		r.first = append(r.first, e)
	case len(r.last) < maxEvents/2:
		r.last = append(r.last, e)
	default:
		r.last[r.next] = e
		r.next = (r.next + 1) % len(r.last)
		r.more++
	}
}

// Report is what was noted so far, with the run's end as it is given: Ended, ExitCode and Verdict.
func (r *Recorder) Report(end Report) *Report {
	r.settle()
	is := r.report
	is.Ended, is.ExitCode, is.Verdict = end.Ended, end.ExitCode, secret.MaskFields(end.Verdict)
	is.Events = append(append(append([]Event{}, r.first...), r.last[r.next:]...), r.last[:r.next]...)
	is.Dropped = r.more
	is.Rows, is.Curves, is.Memory = r.drawn()
	r.hours.Advance(end.Ended)
	is.Spent = r.hours.Told()
	return &is
}

// commandLine is a command's words without their secrets, as JSON holds them: a byte that is no UTF-8 shows.
func commandLine(words []string) []string {
	words = secret.MaskCommand(words)
	for i, word := range words {
		words[i] = visible.UTF8(word)
	}
	return words
}

// cutVariable is NAME=value with the beginning of a long value.
func cutVariable(kv string) string {
	kv = visible.UTF8(kv)
	name, value, ok := strings.Cut(kv, "=")
	if !ok {
		return cut(kv, maxVariable)
	}
	return name + "=" + cut(value, maxVariable)
}

// cut is text of at most n bytes, whole runes, in which a byte that is no UTF-8 shows: a report is JSON.
func cut(text string, n int) string {
	text = visible.UTF8(text)
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

func (r *Recorder) entered(at time.Time, phase string) {
	if len(r.report.Phases) < maxPhases {
		r.report.Phases = append(r.report.Phases, Phase{r.second(at), phase})
	}
}

// second is a moment in seconds since the run began, whole milliseconds.
func (r *Recorder) second(at time.Time) float64 {
	return float64(at.Sub(r.report.Begun).Milliseconds()) / 1000
}
