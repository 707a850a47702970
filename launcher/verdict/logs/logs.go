// Package logs reads the logs of a job, of whatever launcher. Of a job that failed it says which rank failed for a reason of its own, and
// of what kind that reason is. PURE.
//
//	lines ──line.go──▶ when, whose (rank, host, process), text ──signs, python.go, summaries──▶ findings ──judge.go, explain.go, shown.go──▶ verdict
//	                                                          └──told.go──▶ what a line says of itself
//
// A log is of one process, of several with tags before their lines ("[1,3]<stderr>:", "[rank3]:", "3: "), or of several without. What
// launchers say at the end (mpirun, Hydra, torchrun, srun, horovodrun, DeepSpeed, mpiup) names ranks where lines do not.
//
// A Reader belongs to one goroutine. Whatever it is fed, it keeps a bounded part: maxLanes processes with their first lines, and maxFound
// findings of each weight. Hosts' clocks are compared only between files, and only where each line of both findings has a time.
package logs

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Bounds.
const (
	MaxLine  = 4 << 10 // bytes of a line that are looked at
	maxLanes = 2048
	maxFirst = 10
	maxText  = 300 // bytes of a line that are kept
	maxFound = 64  // of a weight; the first ones
	maxPIDs  = 4096
	maxOpen  = 16
	maxTask  = 1 << 16 // of a list of srun's
	after    = 8       // lines in which a launcher says whose the failure was, after it was told of
	before   = 3       // and before
)

// Reader takes lines and gives a verdict. The zero value is ready.
type Reader struct {
	file int // number of the current one
	scanner
	lanes  map[lane]*heard
	found  findings
	pids   map[process]int // ranks by process
	enq    []operation     // the last collective operations that ranks began
	seq    []operation     // and those that they waited in
	waits  []int           // ranks that others wait for
	named  *ending         // the process that a launcher names as the first that failed
	first  lead
	crowd  crowd
	own    own
	block  ownBlock
	hang   *verdict.Verdict // by mpiup's own notice that a run hangs
	site   site
	open   []*finding // the latest, which may yet learn their rank or host
	recent ending     // what a summary has named lately
	at     int        // and on which line
	listed bool       // a launcher says so, of whom it saw first
	torch  block
	stalls bool            // Horovod lists ranks that it waits for
	size   int             // of the job, as a line says it; 0: none does
	steps  int             // lines of progress, whoever's
	ended  bool            // the job of this file said that it ended well
	failed []int           // ranks that torch's launcher reports as failed
	hosts  map[string]bool // at most two, which is several
}

// lead is what else is known of the process that a launcher names as the first that failed.
type lead struct {
	by     string // the line that names it, without numbers
	at     int    // and that line's number
	killed bool   // it was only killed, as a launcher kills those that are left
}

// lane is one process's lines; rank -1 is all lines of a file, or of a pod's in it, that have no tag.
type lane struct {
	file, rank int
	pod        string // of lines that have no tag
}

type process struct {
	host string
	pid  int
}

// heard is what a lane has said.
type heard struct {
	first   []string
	recent  []string // the latest, which may be the program's own reason
	trace   trace
	head    string // what stands before the first line of a traceback
	margin  int    // and how many blanks
	ignored int    // tracebacks to come of exceptions that Python ignores
	ignore  string // the last such exception
	shrug   bool   // the last traceback is of an exception that ended nothing
	quiet   int    // lines since the last exception
	last    *finding
	before  string     // the text of the line before, which may go on
	open    []*finding // what the program has not outlived yet
	steps   int        // lines that tell of progress since the last of them
	step    string     // the last one
}

// File begins another log.
func (r *Reader) File() {
	r.file++
	r.own.file()
	r.number, r.open, r.recent, r.at, r.torch, r.count = 0, nil, ending{rank: -1}, 0, block{}, counter{}
	r.block, r.stalls, r.ended, r.plain, r.crowd = ownBlock{}, false, false, false, crowd{alike: r.crowd.alike}
}

// Line takes a line, without its end.
func (r *Reader) Line(text string) {
	if r.lanes == nil {
		r.lanes, r.pids, r.hosts = map[lane]*heard{}, map[process]int{}, map[string]bool{}
		r.recent.rank = -1
	}
	r.number++
	if len(text) > MaxLine {
		text = text[:MaxLine]
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "[Rank 0] [job id unknown]", "") // a rank that did not meet the others calls itself 0
	r.own.outer(text)
	l := r.parse(text)
	if l.text == "" {
		return
	}
	if l.label > 0 && !r.plain && (strings.Contains(l.text, "BAD TERMINATION OF ONE") || strings.HasPrefix(l.text, "Test command: ")) {
		// ctest's number: no rank runs a launcher
		r.plain = true
		l.who.rank = -1
	}
	r.crowd.see(l, r.number)
	if host := l.who.place(); host != "" && len(r.hosts) < 2 {
		r.hosts[host] = true
	}
	h, key := r.lane(r.laneOf(l.who))
	if len(h.first) < maxFirst {
		if s := cut(l.text); !slices.Contains(h.first, s) {
			h.first = append(h.first, s)
		}
	}
	r.site.see(l.text)
	r.learn(l)
	if r.ownLine(l) {
		return
	}
	f := r.look(l, h)
	if f != nil {
		r.add(f, l, key)
	}
	r.settle(l, h, f)
	h.remember(l.text)
}

// laneOf is where the lines of a process stand in this file.
func (r *Reader) laneOf(e ending) lane {
	if e.rank < 0 {
		return lane{r.file, -1, e.pod}
	}
	return lane{file: r.file, rank: e.rank}
}

// lane is what a process has said; where there are too many it is everybody's.
func (r *Reader) lane(key lane) (*heard, lane) {
	if r.lanes[key] == nil && len(r.lanes) >= maxLanes {
		key = lane{rank: -1}
	}
	h := r.lanes[key]
	if h == nil {
		h = &heard{}
		r.lanes[key] = h
	}
	return h, key
}

// add keeps a finding, and what its neighbours say of the process.
func (r *Reader) add(f *finding, l line, key lane) {
	f.line, f.lane, f.file, f.number, f.time = cut(l.text), key, r.file, r.number, l.time
	f.who = f.who.or(l.who)
	r.first.killed = r.first.killed || (f.shot() || f.killed() && strings.Contains(l.text, "15")) && r.named != nil && r.number-r.first.at <= 1
	f.steps = r.steps
	f.over = r.ended && f.weight == verdict.Echo || slices.ContainsFunc(r.found[verdict.Ending], f.late) // all ends with a job
	if (r.at == r.number || r.at > 0 && r.number-r.at <= before && l.who.rank < 0) && f.who.fits(r.recent) {
		f.who = f.who.or(r.recent)
		f.told.own = r.at == r.number && !r.listed
	}
	if m := srunTasks().Find(l.text); m != nil {
		f.among, _ = idset.Within(m[1], maxTask)
		f.who.rank = -1
	}
	f.final = f.weight == verdict.Ending || r.at == r.number && r.listed // of whom a launcher tells, that one ended
	if f.weight == verdict.Ending {
		f.near = r.crowd.faint
		for _, g := range r.open {
			g.final = g.final || !g.over && g.lane.file == r.file && r.number-g.number <= after
		}
		if f.why = r.lanes[r.laneOf(f.who)].reason(); f.why == nil {
			f.why = r.lanes[key].reason()
		}
	}
	list := &r.found[f.weight]
	if len(*list) >= maxFound {
		return
	}
	if s, _ := verdict.Recognise(strings.Join(r.lanes[key].reason(), "")); (s == nil || s.General) && f.shot() && hydraCode().MatchString(f.line) {
		f.why = r.lanes[key].reason() // Hydra ends those that another rank leaves behind by signal 9, too
	}
	for _, g := range r.found {
		f.order += len(g)
	}
	*list = append(*list, f)
	r.crowd.twins.Watch()
	if h := r.lanes[key]; h != nil && len(h.open) < maxOpen {
		h.open = append(h.open, f)
		h.steps = 0
	}
	r.open = append(r.open[max(len(r.open)-3, 0):], f)
}

// look is what a line says of a failure; nil: nothing.
func (r *Reader) look(l line, h *heard) *finding {
	text := l.text
	head, tries, last := strings.Cut(text, ", retrying (")
	m := tried().FindStringSubmatch(tries)
	if last = last && m != nil && m[1] == m[2]; last {
		text = strings.TrimPrefix(head, "NCCL INFO ")
	}
	h.quiet++
	switch rest, of := h.python(text, l.indent, r.torch.root); of {
	case within:
		return nil
	case raised:
		return r.exception(rest, h)
	}
	if f, ok := bySignals[lastWords[text]]; ok {
		f.who.rank = -1
		return &f
	}
	text, s, ok := known(h.before, text)
	if f, ended := status(text); ended {
		crashed := f.kind == verdict.Segfault || f.kind == verdict.Crash // which says more than "killed by signal"
		if s == nil || s.General || s.Kind == verdict.ExitCode || crashed {
			return &f
		}
	}
	if f := r.crowd.tells(text); f != nil {
		return f
	}
	if s == nil {
		return r.complained(text, l)
	}
	if !ok {
		return nil
	}
	f := &finding{
		kind:    s.Kind,
		weight:  s.Weight(),
		likely:  s.Likely || s.Kind == verdict.Killed && s.Weight() == verdict.Cause,
		general: s.General,
		weak:    warns(text) || is(s.Kind, "starts"),
		warns:   !last && mild(text, s),
		who:     ending{rank: -1},
	}
	if carries := has(text, "carries"); carries && f.kind == verdict.Crash {
		f.plainly(text, "raised")
	} else if carries && (f.weight == verdict.Echo || f.weak) {
		f.likely = f.likely || f.weight == verdict.Echo
		f.weight, f.general, f.weak = verdict.Wait, true, f.warns
	}
	return f
}

// known is the sign that knows a line, and the line as far as it tells what happened and guesses at nothing.
func known(before, text string) (string, *verdict.Sign, bool) {
	s, ok := verdict.Recognise(text)
	if ok && s.Weight() > verdict.Wait {
		if at := guess().FindStringIndex(text); at != nil {
			text = strings.TrimSpace(text[:at[0]])
			s, ok = verdict.Recognise(text)
		}
	}
	if s == nil || s.General { // which may be the end of a line that tells more
		if w, more := wrapped(before, text); s == nil || more {
			s, ok = w, more
		}
	}
	return text, s, ok
}

// complained is a complaint that no sign knows; nil: none, or one that is kept for an end which tells of no reason.
func (r *Reader) complained(text string, l line) *finding {
	if complains(text) && !shrugged(text) {
		f := finding{kind: verdict.ExitCode, likely: true, general: true, weak: true, who: ending{rank: -1}}
		if m := levelLetter().Find(text); m != nil && m[1]+m[2] == "F" { // glog ends a process after such a line
			f.kind = verdict.Crash
		}
		f.plainly(text, "complains")
		return &f
	}
	if !r.ended && verdict.Plain(text) != nil && fails(text) {
		f := finding{likely: true, general: true, weak: true, who: l.who, line: cut(text), file: r.file, number: r.number, lane: r.laneOf(l.who)}
		if f.plainly(text, "complains"); f.kind != "" {
			r.crowd.faint = &f
		}
	}
	return nil
}

// plainly takes the kind that general words of a line tell, where it is one of a name's.
func (f *finding) plainly(text, name string) {
	if p := verdict.Plain(text); p != nil && is(p.Kind, name) && (!p.General || failure().MatchString(text)) {
		f.kind, f.likely, f.weight = p.Kind, true, min(f.weight, verdict.Of(p.Kind).Weight)
	}
}

// wrapped is the sign that knows a line together with the one before it, where that one may go on: help texts have fixed widths, and so have
// terminals, which break words.
func wrapped(before, text string) (*verdict.Sign, bool) {
	const narrow = 40
	if len(before) < narrow || strings.ContainsAny(before[len(before)-1:], ".:;!?-=*") {
		return nil, false
	}
	s, ok := verdict.Recognise(before + " " + text)
	if alone, _ := verdict.Recognise(before); alone == s {
		return nil, false
	}
	return s, ok
}

func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
