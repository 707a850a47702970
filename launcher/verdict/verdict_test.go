package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/golden"
)

// Each file of testdata is cases: what is reported stands at the beginning of a line, and after "verdict" the exit code and what is said
// of it are indented. go test -update writes those anew.
//
//	case NAME                           a new one, of 16 processes
//	EVENT [KEY=VALUE ...][: TEXT]       a fault; a host is wN of node=N, w0 without it
//	lacks ID [temp[=ERRNO]]: TEXT | mpiup ended ranks   what an agent says, and that it was mpiup who ended some
//	raised|chained|first|last ID [at=TIME]: TEXT   what a process wrote: a traceback's end, a first line, a last one
//	well [KEY=VALUE ...]                 a rank that ended with 0
//	memory ID kills=N ago=T limit=MIB[: PID NAME MIB ID]   what its agent saw of the container's memory when a process ended, and who was killed
//	hosts N                              ranks are on so many hosts in turn, two on each: 0 and 1 on w0; and were started unless the next word says
//	unstarted ID | also KEY=VALUE... [: TEXT]   one was not started; one could not be when the run was stopped
//	file ID HOST there|absent            whether another host has what a process missed
//	here|start ID PATH VENV              with what the launcher, or a process, was started; -: none
//	ours [KEY=VALUE ...]                 a rank that ended after mpiup had begun to stop it
//	mute ID                              a process said nothing after its last traceback
//	stopped at=TIME                     the ranks were told to end
//	passed-on NUMBER                    a signal that mpiup got and passed on
//	holdup TEXT                         who waited for whom
//	waited ID                           others say that they wait for this rank
//	circumstances [phase=] [node=] [gpu=] [pci=]   of the guilty process
//	verdict
//	confidence                          whom it names, and how surely
//	again                               whether the ranks may be started again
func TestScripts(t *testing.T) {
	golden.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		var p *play
		return func(line string) {
			switch word, rest, _ := strings.Cut(line, " "); word {
			case "case":
				p = &play{t: t, said: map[int]*Said{}}
			case "verdict":
				out.WriteString(p.verdict())
			case "confidence":
				p.hear()
				v, _ := p.c.Verdict(p.where)
				rank := "nobody"
				if v.Rank != nil {
					rank = fmt.Sprint("rank ", *v.Rank)
				}
				fmt.Fprintf(out, "  %s: %s\n", rank, cmp.Or(v.Confidence, Certain))
			case "again":
				p.hear()
				again, why := p.c.Again()
				fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %t %s", again, why), " "))
			default:
				p.do(word, rest)
			}
		}
	})
}

// play is one case as it is told.
type play struct {
	t       *testing.T
	c       Case
	said    map[int]*Said
	stopped time.Time
	where   Circumstances
	hosts   int // on which ranks are; 0: each on its own
}

var events = map[string]Event{
	"ended": Ended, "aborted": Aborted, "not-started": NotStarted, "host-lost": HostLost, "host-taken": HostTaken, "launcher-taken": LauncherTaken, "timed-out": TimedOut,
	"signalled": Signalled, "reader-gone": ReaderGone, "not-written": NotWritten, "not-wired": NotWired, "not-copied": NotCopied,
	"mixed": Mixed, "internal": Internal, "elsewhere": Elsewhere,
}

func (p *play) do(word, rest string) {
	p.t.Helper()
	keys, text, _ := strings.Cut(rest, ": ")
	switch word {
	case "lacks":
		ids := strings.Fields(keys)
		what := Lack{What: job.LackShm, Text: text}
		if len(ids) == 2 { // temp, or temp=ENOSPC
			what.What = job.LackTemp
			_, what.Errno, _ = strings.Cut(ids[1], "=")
		}
		p.c.Lacks(p.number(ids[0]), what)
	case "hosts":
		p.hosts = p.number(rest)
		p.c.Ran = idset.Range(0, 2*p.hosts-1)
		p.where.Remote = true
		p.c.OneProgram = true
	case "unstarted":
		p.c.Ran = p.c.Ran.Sub(idset.Of(p.number(rest)))
	case "also":
		p.c.AlsoFailed(p.fault(NotStarted, keys, text))
	case "file":
		words := strings.Fields(rest)
		p.c.FileOn(p.number(words[0]), words[1], words[2] == "there")
	case "here", "start":
		words := strings.Fields(rest)
		is := Start{Path: words[len(words)-2], Venv: strings.TrimPrefix(words[len(words)-1], "-")}
		if word == "here" {
			p.c.Here = is
		} else {
			p.c.NoteStart(p.number(words[0]), is)
		}
	case "memory":
		p.memory(keys, text)
	case "mpiup":
		p.c.Stopped = true
	case "circumstances":
		for key := range strings.FieldsSeq(rest) {
			name, value, _ := strings.Cut(key, "=")
			*map[string]*string{"phase": &p.where.Phase, "node": &p.where.Node, "gpu": &p.where.GPU, "pci": &p.where.PCI}[name] = value
		}
	case "passed-on":
		p.c.Sent.Add(p.number(rest))
	case "passed":
		p.c.Passed = p.number(rest)
	case "well":
		p.c.Well(p.fault(Ended, rest, ""))
	case "ours":
		p.c.Ours(p.fault(Ended, rest, ""))
	case "waited":
		p.c.Waited(p.fault(TimedOut, "id="+rest, ""), "", true)
	case "holdup":
		p.c.Holdup = append(p.c.Holdup, rest)
	case "stopped":
		p.stopped = p.time(rest)
	case "mute":
		p.said[p.number(rest)].Mute = true
	case "raised", "chained", "first", "last":
		p.write(word, keys, strings.ReplaceAll(text, `\n`, "\n"))
	default:
		e, ok := events[strings.TrimSuffix(word, ":")]
		if !ok {
			p.t.Fatalf("no word %q", word)
		}
		if strings.HasSuffix(word, ":") {
			keys, text = "", rest
		}
		p.c.Add(p.fault(e, keys, text))
	}
}

// memory notes what a container used when a process ended.
func (p *play) memory(keys, victim string) {
	words := strings.Fields(keys)
	is := Memory{}
	for _, key := range words[1:] {
		p.memoryKey(&is, key)
	}
	if who := strings.Fields(victim); len(who) == 4 {
		id := p.number(who[3])
		is.Victims = []Victim{{PID: p.number(who[0]), Name: who[1], Resident: uint64(p.number(who[2])) << 20, ID: id, Of: job.Process{Rank: id}}}
	}
	p.c.NoteMemory(p.number(words[0]), is)
}

func (p *play) memoryKey(is *Memory, key string) bool {
	name, value, _ := strings.Cut(key, "=")
	switch name {
	case "kills":
		is.Kills = p.number(value)
	case "ago":
		is.Ago = p.time("at=" + value).Sub(time.Time{})
	case "used":
		is.Used = uint64(p.number(value)) << 20
	case "limit":
		is.Limit = uint64(p.number(value)) << 20
	case "near":
		is.Near = true
	case "silent":
		is.Silent = true
	default:
		return false
	}
	return true
}

func (p *play) fault(e Event, keys, text string) Fault {
	f := Fault{Event: e, ID: -1, Node: -1, Text: text}
	var stalled, fenced, shut bool
	for key := range strings.FieldsSeq(keys) {
		if e == HostLost && p.memoryKey(&f.Memory, key) {
			continue
		}
		name, value, _ := strings.Cut(key, "=")
		switch name {
		case "id":
			f.ID = p.number(value)
			f.Process.Rank = f.ID
			f.Node = max(f.Node, 0)
		case "process":
			number, rank, _ := strings.Cut(value, ".")
			f.Process = job.Process{Job: p.number(number), Rank: p.number(rank)}
		case "node":
			f.Node = p.number(value)
		case "host":
			f.Host = value
		case "broke":
			f.Broke = map[string]job.Breach{"": job.BreachPMI, "pmix": job.BreachPMIx, "version": job.BreachVersion}[value]
		case "stranded":
			f.Stranded = map[string]job.Stranding{"limit": job.StrandedByLimit, "left": job.StrandedByLeaving}[value]
		case "errno":
			f.Errno = value
		case "at":
			f.At = p.time("at=" + value).Sub(time.Time{})
		case "clock":
			f.TimeNS = int64(p.number(value))
		case "code":
			if f.Code = p.number(value); e == Ended {
				f.Exit.Code = f.Code
			}
		case "signal":
			f.Exit.Signal = p.number(value)
		case "ranks":
			f.Ranks = "ranks " + value
		default:
			flag := map[string]*bool{"core": &f.Exit.Core, "unfinalized": &f.Unfinalized, "uncalled": &f.Uncalled, "piped": &f.Piped, "oom": &f.OOM,
				"init": &f.Init, "dir": &f.Dir, "stalled": &stalled, "command": &f.Command, "fenced": &fenced, "shutdown": &shut}[name]
			if flag == nil {
				p.t.Fatalf("no key %q", name)
			}
			*flag = true
			switch {
			case fenced:
				f.By = ByLauncher
			case shut:
				f.By = ByShutdown
			}
			if stalled {
				f.Limit = StallLimit
			}
		}
	}
	if f.Host == "" && f.Node >= 0 {
		f.Host = fmt.Sprintf("w%d", f.Node)
	}
	return f
}

func (p *play) write(word, keys, text string) {
	who, at, _ := strings.Cut(keys, " ")
	s := p.said[p.number(who)]
	if s == nil {
		s = &Said{}
		p.said[p.number(who)] = s
	}
	switch word {
	case "first":
		s.First = append(s.First, text)
	case "last":
		s.Last = append(s.Last, text)
	default:
		links := map[string]job.Link{"chained": job.WhileHandling, "led": job.FromCause}
		s.Raised = append(s.Raised, Exception{Text: text, Link: links[word], At: p.time(at)})
	}
}

// hear takes what the processes wrote.
func (p *play) hear() {
	n := 16
	if p.hosts > 0 {
		n = 2 * p.hosts
	}
	p.c.Hear(n, func(id int) Said {
		if s := p.said[id]; s != nil {
			return *s
		}
		return Said{}
	}, p.stopped, func(id int) Fault {
		host := id
		if p.hosts > 0 {
			host = id / 2
		}
		return Fault{Host: fmt.Sprintf("w%d", host), ID: id, Process: job.Process{Rank: id}}
	})
}

func (p *play) verdict() string {
	p.hear()
	text := fmt.Sprintf("  exit code %d\n", p.c.Exit())
	v, bad := p.c.Verdict(p.where)
	if !bad {
		return text
	}
	for _, l := range v.End(LastLines{All: true}) {
		text += "  " + l + "\n"
	}
	return text
}

func (p *play) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *play) time(text string) time.Time {
	d, err := time.ParseDuration(strings.TrimPrefix(text, "at="))
	if err != nil && text != "" {
		p.t.Fatal(err)
	}
	return time.Time{}.Add(d)
}

func TestCasesAreBounded(t *testing.T) {
	var c Case
	for i := range 100000 {
		c.Add(Fault{Event: Ended, ID: i, At: time.Duration(i), TimeNS: int64(i), Exit: job.Exit{Code: 1}})
		c.Lacks(i, Lack{Text: "something"})
	}
	if lines := c.Explain(); len(lines) > 8 {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	if len(c.faults) > maxFaults || len(c.lacking) > maxFaults {
		t.Errorf("%d faults and %d notes kept", len(c.faults), len(c.lacking))
	}
}

// What a run may go on with while its ranks are given time, and what it may linger over.
func TestUrgentAndOnlyRanks(t *testing.T) {
	for e := Ended; e <= Raised; e++ {
		var c Case
		c.Add(Fault{Event: e})
		if want := e == TimedOut || e == Internal; c.Urgent() != want {
			t.Errorf("event %d urgent: %v", e, !want)
		}
		if want := e == Ended; c.OnlyRanks() != want {
			t.Errorf("event %d only ranks: %v", e, !want)
		}
	}
	c := Case{faults: []Fault{{Event: HostTaken, By: ByLauncher}}}
	if !c.Urgent() || !c.Any() || slices.ContainsFunc([]Case{{}}, func(c Case) bool { return c.Any() }) {
		t.Error("a newer launcher, and nothing")
	}
}

// A crash, and the end of a rank of another host within a moment: which was first is not known, and both are named.
func TestCrashesOfTwoHosts(t *testing.T) {
	for _, tt := range []struct {
		node  int
		later time.Duration
		want  Confidence
	}{{2, time.Millisecond, OneOfSeveral}, {1, time.Millisecond, ""}, {2, time.Second, ""}} { // "" is certain
		c := &Case{}
		c.Add(Fault{Event: Ended, Host: "w1", Node: 1, ID: 2, Process: job.Process{Rank: 2}, Exit: job.Exit{Signal: job.SIGSEGV}})
		c.Add(Fault{Event: Ended, Host: "w2", Node: tt.node, ID: 0, Exit: job.Exit{Code: 3}, At: tt.later, TimeNS: 1})
		if v, _ := c.Verdict(Circumstances{}); v.Rank == nil || *v.Rank != 2 || v.Confidence != tt.want {
			t.Errorf("%+v: %+v", tt, v)
		}
	}
}

// Debian's MPICH says no more than that it cannot spawn.
func TestSpawnOfMPICHOverUCX(t *testing.T) {
	const head = "Abort(1) on node 0 (rank 0 in comm 0): Fatal error in internal_Comm_spawn: Other MPI error, error stack:"
	for _, tt := range []struct {
		line  string
		noted bool
	}{
		{"MPID_Comm_spawn_multiple(86): Error in spawn call", true},
		{"MPID_Send(86): Error in a call", false},
	} {
		var c Case
		c.Add(Fault{Event: Aborted, Host: "w0", Code: 15})
		wrote := []string{head, tt.line}
		c.Hear(1, func(int) Said { return Said{Last: wrote} }, time.Time{}, nil)
		v, _ := c.Verdict(Circumstances{Stderr: wrote})
		if got := slices.Contains(v.End(LastLines{}), noteSpawn); got != tt.noted || v.Kind != MPIError {
			t.Errorf("%s: %s, %q", tt.line, v.Kind, v.End(LastLines{}))
		}
	}
}
