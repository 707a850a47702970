package logs

import (
	"encoding/json"
	"strconv"
	"strings"
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
	pid   int
}

// fits says that nothing which both name differs: they may be one process.
func (e ending) fits(o ending) bool {
	return (e.rank < 0 || o.rank < 0 || e.rank == o.rank) && (e.pid == 0 || o.pid == 0 || e.pid == o.pid) &&
		(e.host == "" || o.host == "" || hostlist.FirstLabel(e.host) == hostlist.FirstLabel(o.host))
}

// or is what is named, by the first else by the second.
func (e ending) or(o ending) ending {
	if e.rank < 0 {
		e.rank = o.rank
	}
	if e.local == 0 {
		e.local = o.local
	}
	if e.host == "" {
		e.host = o.host
	}
	if e.pid == 0 {
		e.pid = o.pid
	}
	return e
}

// hostName is a host's name: it has a letter somewhere.
const hostName = `[\w.-]*[A-Za-z][\w.-]*`

// tags are what stands before a line; the named groups are what it says. They are taken off again and again, in any order.
var tags = []pattern.Hinted{
	// Times: kubectl logs --timestamps, mpirun --timestamp-output, Ray, CI systems. A "[" begins the next tag.
	pattern.With("^[0123456789", `^\[?(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)\]?(?: ?\|\|? ?|:? +|$)`),
	pattern.With("^[MTWFS", `^\[?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]?`),
	pattern.With("^[", `^\[ *\d+\.\d{6}\] `), // UCX's, the kernel's
	pattern.With("^012", `^\d\d:\d\d:\d\d(?:\.\d+)? {2,}`),
	pattern.With("^0123456789", `^\d+\.\d+s\t\d+\t`), // Kaggle's
	// Open MPI --tag-output, PRRTE, Horovod over Gloo.
	pattern.With("^[", `^\[(?:[\w.@-]*\d+,)?(?P<rank>\d+)\]<(?P<stream>std(?:err|out|diag))>: ?`),
	// torch 2.2 and later; torchrun --tee, whose number is local.
	pattern.With("^[", `^\[rank(?P<rank>\d+)\]: ?`),
	pattern.With("^[", `^\[default(?P<local>\d+)\]: ?`),
	pattern.With("rank[", `^(?i:rank)\[(?P<rank>\d+)\][:,]? `),
	// PSM.
	pattern.With(":rank", `^(?P<host>[\w.-]+):rank(?P<rank>\d+)(?:\.[\w-]+)?: `),
	// kubectl logs --prefix, docker compose, stern.
	pattern.With("^[", `^\[pod/(?P<host>[\w.-]+)/[\w.-]+\] `),
	pattern.With(" ", `^(?P<host>[a-z0-9](?:[\w.-]*[a-z0-9])?) +\| `),
	// Ray.
	pattern.With("^(", `^\((?:[\w.]+ )?pid=(?P<pid>\d+)(?:, ip=(?P<host>[\d.]+))?\) `),
	pattern.With("^s", `^std(?:err|out): `),
	// vLLM's logger, which writes tracebacks line by line.
	pattern.With("^EC", `^(?:ERROR|CRITICAL) (?:\d\d-\d\d )?\d\d:\d\d:\d\d(?:\.\d+)? \[[\w./-]+:\d+\] ?`),
	// Determined: a level, and after the time a container.
	pattern.With("^<", `^<\w*> +`),
	pattern.With("^0123456789abcdef", `^[0-9a-f]{8} \|\| `),
	// xla_dist: the host, whose number is no rank.
	pattern.With("^0123456789", `^(?P<host>\d{1,3}(?:\.\d{1,3}){3}) \[\d+\] `),
	pattern.With("^s", `^(?P<stream>std(?:err|out)) [FP] `), // a kubelet's files
	pattern.With(" ", `^\| +`),
	pattern.With("^>", `^> `), // quoted
	// MVAPICH's handler of signals.
	pattern.With("^[", `^\[(?P<host>[\w.-]+):mpi_rank_(?P<rank>\d+)\](?:\[\w+\])* ?`),
	// srun --label, mpiup --output tag, mpiexec -l; ctest, whose number is no rank's.
	pattern.With("^0123456789", `^(?P<label>\d{1,6}): `),
	// mpiup --tag-with.
	pattern.With("^[", `^\[(?:\d+\.)?(?P<rank>\d+) (?:(?P<host>[\w.:-]+) )?(?P<stream>std(?:err|out))\](?: |$)`),
	pattern.With("^[", `^\[(?:\d+\.)?(?P<rank>\d+) (?P<host>`+hostName+`|\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F:]*::[0-9a-fA-F:.]*)\](?: |$)`),
	// NCCL: host:pid:thread [GPU], which is no rank.
	pattern.With(" [", `^(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] `),
	// UCX and Open MPI.
	pattern.With("^[", `^\[(?P<host>`+hostName+`):(?P<pid>\d+)(?: ?:\d+)*\] `),
	pattern.With("^[", `^\[(?P<bracket>\d{1,5}|\d{1,3}\.\d{1,5})\]:? ?`),
	// Hydra.
	pattern.With("^[", `^\[(?:mpiexec|proxy:\d+:\d+)@(?P<host>[\w.-]+)\] `),
}

// rankInside is a rank that the line itself names, which says more than a number before it.
var rankInside = pattern.Of(`^\[(?:rank|default)\d+\]|\[(?:PG [^\]]*)?Rank \d+\]|^Abort\(-?\d+\) on node \d`)

// shellsJob is what follows a number that is no rank's: a job's in what a shell says of its end, bash's "[1]+  Killed", zsh's
// "[1]    4711 killed"; a process's in Julia's "[4711] signal (11.1): Segmentation fault".
var shellsJob = pattern.Of(`^(?:signal \(|[+-] {2,}\S| *[+-]? *\d+ (?:killed|terminated|abort|bus error|segmentation fault|floating point exception|` +
	`illegal hardware instruction|exit \d+|done)\b)`)

var ansi = pattern.Of("\x1b\\[[0-9;]*[A-Za-z]")

// scanner takes the lines of a log apart, one after the other.
type scanner struct {
	number int  // of the line
	plain  bool // a number and a colon before a line are no rank's
	count  counter
	hosts  map[string]bool // what pdsh and its like write before each line, as a traceback has shown
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
	text = s.host(text, &l)
	const most = 6
	for range most {
		trimmed := strings.TrimLeft(text, " \t")
		if trimmed == "" || !strings.ContainsRune("[(|<>0123456789stdMTWFSabcefECRr", rune(trimmed[0])) && !lowerTag(trimmed) {
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

// ofProcess is a name that a rank's program gives it.
var ofProcess = pattern.With("rank|proc|task|pe", `(?i)^(?:rank|process|processor|proc|task|pe)[ _-]?(\d{1,6})$`)

// host takes off the name and colon that stand before every line of a host or rank, of which its tracebacks have told.
func (s *scanner) host(text string, l *line) string {
	began := strings.HasSuffix(text, "Traceback (most recent call last):")
	if !began && len(s.hosts) == 0 {
		return text
	}
	name, rest, ok := strings.Cut(text, ": ")
	m := ofProcess.Find(name)
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

// lowerTag says that a line may begin with the name of a host.
func lowerTag(text string) bool {
	head, _, ok := strings.Cut(text[:min(len(text), 120)], " ")
	return ok && (strings.Count(head, ":") >= 2 || strings.Contains(head, ":rank") || strings.HasPrefix(strings.TrimLeft(text[len(head):], " "), "| "))
}

// untag takes one tag off.
func (s *scanner) untag(text string, l *line) (rest string, ok bool) {
	for _, tag := range tags {
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
			_, after, spawned := strings.Cut(b, ".")
			if !spawned {
				after = b
			}
			l.bracket = number(after) + 1
		}
		if t, ok := when(group("time")); ok && l.time.IsZero() {
			l.time = t
		}
		if of := group("stream"); of == "stdout" || of == "stderr" {
			l.stream = of
		}
		named := ending{rank: -1, host: group("host"), pid: max(number(group("pid")), 0), local: number(group("local")) + 1}
		if n := group("rank"); n != "" {
			named.rank = number(n)
		}
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
	var o struct {
		Time   time.Time
		Rank   *int
		Host   string
		Text   *string
		Log    *string
		Stream string
		Event  string
	}
	if json.Unmarshal([]byte(text), &o) != nil || o.Event != "" {
		return text
	}
	if o.Text == nil {
		o.Text = o.Log
	}
	if o.Text == nil {
		return text
	}
	l.time, l.who.host, l.stream = o.Time, o.Host, o.Stream
	if o.Rank != nil {
		l.who.rank = *o.Rank
	}
	return strings.TrimRight(*o.Text, "\r\n")
}

var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05Z07:00"}

func when(text string) (time.Time, bool) {
	text = strings.Replace(text, ",", ".", 1)
	for _, l := range layouts {
		if t, err := time.Parse(l, text); err == nil {
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

// inRecord is a rank's number in JSON, whatever JSON that stands in.
var inRecord = pattern.Of(`"rank\\*" ?: ?\d`)

// OfRank says of a line of any log that it is a rank's, or may be by what stands before it.
func OfRank(text string) bool {
	l := new(scanner).parse(text)
	return l.ofRank() || inRecord().MatchString(text)
}
