package logs

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/pattern"
)

// line is one with what its tags say.
type line struct {
	who     ending
	time    time.Time
	text    string
	stream  string // "stdout", "stderr"; "": not named
	indent  string // blanks before it
	bracket int    // a number in brackets plus 1, which may be a rank; 0: none
	label   int    // a number and a colon plus 1, whoever's the line is; 0: none
}

// ending is a process as a line names it.
type ending struct {
	rank  int // -1: not named
	local int // the rank on its host plus 1; 0: not named
	host  string
	pod   string // or host whose log the line is in, by the word of who collected it: it may be a launcher's, which tells of another's process
	pid   int
}

// place is where the process is, as far as it is known.
func (e ending) place() string { return cmp.Or(e.host, e.pod) }

// there is that place, and none of its processes.
func (e ending) there() ending { return ending{rank: -1, host: e.host, pod: e.pod} }

// fits says that nothing which both name differs: they may be one process.
func (e ending) fits(o ending) bool {
	a, b := e.host, o.host
	if e.pod != o.pod {
		a, b = e.place(), o.place()
	}
	return (e.rank < 0 || o.rank < 0 || e.rank == o.rank) && (e.pid == 0 || o.pid == 0 || e.pid == o.pid) &&
		(a == "" || b == "" || hostlist.FirstLabel(a) == hostlist.FirstLabel(b))
}

// or is what is named, by the first else by the second.
func (e ending) or(o ending) ending {
	if e.rank < 0 {
		e.rank = o.rank
	}
	e.local, e.host, e.pod, e.pid = cmp.Or(e.local, o.local), cmp.Or(e.host, o.host), cmp.Or(e.pod, o.pod), cmp.Or(e.pid, o.pid)
	return e
}

// hostName is a host's name: it has a letter somewhere.
const hostName = `[\w.-]*[A-Za-z][\w.-]*`

//go:embed tags.txt
var tagsText string

// tags are those of tags.txt. The blank in which one ends is lost where nothing stands behind it.
var tags = sync.OnceValue(func() (all []pattern.Hinted) {
	for _, c := range pattern.Rows(tagsText, 2) {
		text := strings.ReplaceAll(c[1], "HOSTNAME", hostName)
		if tag := strings.TrimRight(text, " +"); tag != text {
			text = tag + "(?:" + text[len(tag):] + "|$)"
		}
		all = append(all, pattern.With(c[0], text))
	}
	return all
})

// ansi is what a terminal acts on (ECMA-48, 8.3; xterm's control sequences): colours, titles, character sets.
var ansi = pattern.Of("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])")

// scanner takes the lines of a log apart, one after the other.
type scanner struct {
	number int  // of the line
	plain  bool // a number and a colon before a line are no rank's
	count  counter
	hosts  map[string]bool // what pdsh and its like write before each line, as a traceback has shown
	jobs   map[string]bool // and with which word stern's pods begin, with the container
}

// parse takes the tags off a line.
func (s *scanner) parse(text string) line {
	text = strings.TrimRight(text, "\r\n ")
	if at := strings.LastIndexByte(text, '\r'); at >= 0 { // what a terminal shows
		text = text[at+1:]
	}
	if strings.IndexByte(text, '\x1b') >= 0 {
		text = ansi().ReplaceAllString(text, "")
	}
	l := line{who: ending{rank: -1}}
	if strings.HasPrefix(text, `{"time":`) || strings.HasPrefix(text, `{"log":`) {
		text = record(text, &l)
	}
	text = s.host(s.pod(text, &l), &l)
	const most = 6
	for range most {
		trimmed := strings.TrimLeft(text, " \t")
		if trimmed == "" || !strings.ContainsRune("[(|<>0123456789stdAMTWFJSONDabcefECRr", rune(trimmed[0])) && !lowerTag(trimmed) {
			break
		}
		rest, ok := s.untag(trimmed, &l)
		if !ok {
			break
		}
		text = rest
	}
	if l.who.rank < 0 && l.bracket > 0 && !rankInside().MatchString(text) {
		l.who.rank = l.bracket - 1
	}
	l.indent = text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	l.text = strings.TrimSpace(text)
	return l
}

const maxHosts = 64

// host takes off the name and colon that stand before every line of a host or rank, of which its tracebacks have told.
func (s *scanner) host(text string, l *line) string {
	began := strings.HasSuffix(text, "Traceback (most recent call last):")
	if !began && len(s.hosts) == 0 {
		return text
	}
	name, rest, ok := strings.Cut(text, ": ")
	m := ofProcess().Find(name)
	if ok && began && strings.HasPrefix(rest, "Traceback") && len(s.hosts) < maxHosts && number(name) < 0 && (m != nil || hostlist.CheckName(name) == nil) {
		if _, level := stated(name + ":"); !level && !looksRaised(name) {
			if s.hosts == nil {
				s.hosts = map[string]bool{}
			}
			s.hosts[name] = true
		}
	}
	if !ok || !s.hosts[name] {
		return text
	}
	if m != nil {
		l.who.rank = number(m[1])
	} else {
		l.who.host = name
	}
	return rest
}

// pod takes off the pod and container that stern writes before each line, of which its own line ("+ train-worker-0 › mpi"), a traceback or a rank's
// tag has told. Pods of one job begin with the same word.
func (s *scanner) pod(text string, l *line) string {
	pod, rest, _ := strings.Cut(text, " ")
	container, rest, _ := strings.Cut(rest, " ")
	name, own := strings.CutPrefix(rest, "› ")
	if own = own && (pod == "+" || pod == "-"); own {
		pod, container, rest = container, name, ""
	}
	job, _, several := strings.Cut(pod, "-")
	if !several {
		return text
	}
	job += " " + container
	if !s.jobs[job] {
		if !own && !sterns().MatchString(rest) || len(s.jobs) >= maxHosts || number(job[:1]) >= 0 || hostlist.CheckName(pod) != nil || hostlist.CheckName(container) != nil {
			return text
		}
		if s.jobs == nil {
			s.jobs = map[string]bool{}
		}
		s.jobs[job] = true
	}
	l.who.pod = pod
	return rest
}

// lowerTag says that a line may begin with the name of a host.
func lowerTag(text string) bool {
	head, _, ok := strings.Cut(text[:min(len(text), 120)], " ")
	return ok && (strings.Count(head, ":") >= 2 || strings.Contains(head, ":rank") || strings.HasPrefix(strings.TrimLeft(text[len(head):], " "), "|"))
}

// untag takes one tag off.
func (s *scanner) untag(text string, l *line) (rest string, ok bool) {
	for _, tag := range tags() {
		re := tag.In(text)
		if re == nil {
			continue
		}
		m := re.FindStringSubmatchIndex(text)
		if m == nil {
			continue
		}
		group := func(name string) string {
			if i := re.SubexpIndex(name); i >= 0 && m[2*i] >= 0 {
				return text[m[2*i]:m[2*i+1]]
			}
			return ""
		}
		if b := group("bracket"); b != "" {
			if shellsJob().MatchString(text[m[1]:]) || !s.count.tag(b, s.number) {
				return text, false
			}
			l.bracket = number(b[strings.LastIndexByte(b, '.')+1:]) + 1 // behind a spawned job's
		}
		if t, ok := when(group("time")); ok && l.time.IsZero() {
			l.time = t
		}
		if of := group("stream"); of == "stdout" || of == "stderr" {
			l.stream = of
		}
		named := ending{rank: number(group("rank")), host: group("host"), pod: group("pod"), pid: max(number(group("pid")), 0), local: number(group("local")) + 1}
		if l.bracket > 0 && named.rank >= 0 && !rankInside().MatchString(text) { // a rank's own text, which has another's tag in it
			named.rank = l.bracket - 1
		}
		if n := group("label"); n != "" {
			twice := l.label > 0 && l.label != number(n)+1
			if l.label = number(n) + 1; twice { // a step's number or a rank's own: which of them is a rank's is not known
				l.who.rank = -1
			} else if !s.plain && !rankInside().MatchString(text[m[1]:]) {
				named.rank = number(n)
			}
		}
		l.who = l.who.or(named)
		return text[m[1]:], true
	}
	return text, false
}

// counter tells numbers of lines from those of ranks: the former go up by one, line by line.
type counter struct{ last, at, run int }

// tag says that a number in brackets is a rank's.
func (c *counter) tag(text string, line int) bool {
	n := number(text)
	if n == c.last+1 && line == c.at+1 {
		c.run++
	} else if c.run < 4 {
		c.run = 0
	}
	c.last, c.at = n, line
	return c.run < 4
}

// record reads a line of mpiup's --output json, and of Docker's files.
func record(text string, l *line) string {
	o := struct {
		Time                time.Time
		Rank                int
		Text, Log           *string
		Host, Stream, Event string
	}{Rank: -1}
	if json.Unmarshal([]byte(text), &o) != nil || o.Event != "" || cmp.Or(o.Text, o.Log) == nil {
		return text
	}
	l.time, l.who.rank, l.who.host, l.stream = o.Time, o.Rank, o.Host, o.Stream
	return strings.TrimRight(*cmp.Or(o.Text, o.Log), "\r\n")
}

var layouts = []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05"}

var written = strings.NewReplacer(" ", "T", ",", ".", "/", "-")

func when(text string) (time.Time, bool) {
	for _, l := range layouts {
		if t, err := time.Parse(l, written.Replace(text)); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// number is -1 where there is none, or one that no rank or process has.
func number(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}
