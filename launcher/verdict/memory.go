package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// Memory is what an agent saw of its container's memory: when a process ended, or last before its host was lost.
//
//	agent: oom_kill of the cgroup, who was gone when it rose ─┐
//	rank: its exit code, its words ("died with SIGKILL") ─────┴─▶ that it failed because the kernel killed a process of its own, or probably
//	last look at a host that is gone ─────────────────────────▶ that it probably ended for want of memory
type Memory struct {
	Used, Limit uint64 // bytes; 0: unknown
	Kills       int    // processes that the kernel killed for want of memory since the job began there
	// Ago is how long before the process's end the last of these was noticed; of a lost host, how long before it was heard last the look was.
	Ago     time.Duration
	Victims []Victim // those that are probably meant, the last first
	Near    bool     // of a lost host: it had so much, or grew so fast, that its limit was near
	Silent  bool     // of a lost host: nothing was heard of it, so that its processes may live
}

// Victim is a process that the kernel has killed for memory.
type Victim struct {
	PID      int
	Name     string
	Resident uint64      // bytes just before
	ID       int         // of the process of the run that it was, or that had started it; -1: of none
	Of       job.Process // where ID is one
}

// String is who it was: "python3 (pid 4242, 512 MiB when it was looked at last) of rank 2".
func (v Victim) String() string {
	text := fmt.Sprintf("%s (pid %d, %s MiB when it was looked at last)", visible.Line(v.Name), v.PID, grouped(v.Resident>>20))
	if v.ID >= 0 {
		text += " of " + v.Of.String()
	}
	return text
}

// NoteMemory notes what the container of a process used when it ended, of as many as faults are kept.
func (c *Case) NoteMemory(id int, m Memory) {
	if m.Kills == 0 || len(c.memory) >= maxFaults {
		return
	}
	if c.memory == nil {
		c.memory = map[int]Memory{}
	}
	c.memory[id] = m
}

const (
	// memorySoon is how long after a process was killed those end that only notice that it is gone: DataLoader asks after its workers each five
	// seconds (torch/utils/data/_utils/__init__.py, MP_STATUS_CHECK_INTERVAL).
	memorySoon = 10 * time.Second
	// memoryLate is how long an inner launcher may take to end what it has started beside: torchrun gives 30 s.
	memoryLate = time.Minute
)

// starve marks those faults that are of ranks of which the kernel has killed a process for want of memory.
func (c *Case) starve(words func(id int) Said) {
	for i := range c.faults {
		f := &c.faults[i]
		if _, told := c.signalled(*f); told || f.OOM || f.Event != Ended && f.Event != Aborted || f.broke() || f.Uncalled {
			continue
		}
		f.OOM, f.Unsure = c.starved(*f, f.says(words))
		f.Helper = f.OOM
	}
}

// starved says whether a rank failed because the kernel killed a process of its own; unsure: probably.
func (c *Case) starved(f Fault, said Said) (yes, unsure bool) {
	m := c.memory[f.ID]
	if m.Kills == 0 || m.Ago > memoryLate || f.Event == Ended && (f.struck() || f.Exit.Status() == 0) { // of its own end its agent has judged
		return false, false
	}
	own := slices.ContainsFunc(m.Victims, func(v Victim) bool { return v.ID == f.ID })
	others := m.Kills <= len(m.Victims) && !slices.ContainsFunc(m.Victims, func(v Victim) bool { return v.ID < 0 || v.ID == f.ID })
	if others {
		return false, false
	}
	if f.Event == Ended && killedCode(f.Exit.Code) || said.tellsOfKill() {
		return true, false
	}
	found, spoke := Read(said)
	lost := found.Kind == Network || found.Kind == PeerLost // whoever it was connected with
	explained := spoke && (mistake().MatchString(found.Line) || Of(found.Kind).Weight == Cause && !found.Likely && !(own && lost))
	return !explained && (own || m.Ago <= memorySoon), true
}

// killedCode is the exit code of who passes on that SIGKILL ended its child: a shell's 128+9, and 256-9 of who exits with Python's returncode, as
// deepspeed's launcher does (deepspeed/launcher/launch.py).
func killedCode(code int) bool { return code == 128+job.SIGKILL || code == 256-job.SIGKILL }

// killWords are what those write whose child SIGKILL has ended, in small letters: bash and dash; subprocess and accelerate 1.15; multiprocessing and
// concurrent.futures of Python 3.11; torch 2.15's DataLoader, spawn and torchrun; deepspeed 0.19.8; lightning 2.6.6; joblib 1.5.
var killWords = []string{
	"died with <signals.sigkill: 9>", "is killed by signal: killed", "exited unexpectedly", "was terminated abruptly", "terminated with signal sigkill",
	"exitcode  : -9", "exitcode: -9", "signal 9 (sigkill)", "return code = -9", "terminated with code -9", "{sigkill(-9)}", "unexpectedly terminated",
}

// tellsOfKill says that a process wrote that one of its own was killed.
func (s Said) tellsOfKill() bool {
	tells := func(text string) bool {
		text = strings.ToLower(text)
		return strings.TrimSpace(text) == "killed" || shellKilled(text) ||
			slices.ContainsFunc(killWords, func(w string) bool { return strings.Contains(text, w) })
	}
	if n := len(s.Raised); n > 0 {
		last := s.Raised[n-1]
		if tells(last.Text) {
			return true
		}
		if !last.Old && mistake().MatchString(last.Text) { // whatever it had outlived before
			return false
		}
	}
	return slices.ContainsFunc(s.Last, tells)
}

// shellKilled says that a line, in small letters, is bash's of a child that SIGKILL ended: "run.sh: line 3:  8248 Killed   python3 train.py".
func shellKilled(line string) bool {
	_, after, ok := strings.Cut(line, ": line ")
	if !ok {
		return false
	}
	words := strings.Fields(after)
	return len(words) > 2 && words[2] == "killed"
}

// memoryLines tell what the kernel did for want of memory, where that ended a rank, and what it led to. beside: it is not known to be why.
func (c *Case) memoryLines(f Fault, said Finding) (lines []string) {
	m, known := c.memory[f.ID]
	if !known || m.Ago > memoryLate {
		return nil
	}
	who := "a process in the container of " + f.Host
	if len(m.Victims) > 0 {
		who = m.Victims[0].String()
	}
	if f.Helper {
		lines = append(lines, fmt.Sprintf("the kernel killed %s, since the container has no more memory", who))
		if said.Line != "" {
			led := "it led to: " + said.Line
			if said.Where != "" {
				led += " (" + said.Where + ")"
			}
			lines = append(lines, led)
		}
		return lines
	}
	if f.OOM || f.Event != Ended && f.Event != Aborted {
		return nil
	}
	return []string{fmt.Sprintf("%s before, the kernel killed %s for want of memory; whether that is why is not known", seconds(m.Ago), who)}
}

// memoryOfLost is a host's memory just before it was lost; "": that does not tell. probably: it is why.
func (f Fault) memoryOfLost() (text string, probably bool) {
	m := f.Memory
	if f.Event != HostLost || m.Limit == 0 || !m.Near {
		return "", false
	}
	had := fmt.Sprintf("%s of %s MiB %s before", grouped(m.Used>>20), grouped(m.Limit>>20), seconds(m.Ago))
	if m.Silent {
		return "its container used " + had, false
	}
	return "probably the container's memory, " + had, true
}

// grouped is a number with a comma before each three digits.
func grouped(n uint64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// seconds is a time in whole seconds, small ones in words.
func seconds(d time.Duration) string {
	small := [...]string{"less than a second", "one second", "two seconds", "three seconds", "four seconds", "five seconds", "six seconds", "seven seconds",
		"eight seconds", "nine seconds", "ten seconds"}
	n := int(d.Round(time.Second) / time.Second)
	if n < len(small) {
		return small[max(n, 0)]
	}
	return fmt.Sprintf("%d seconds", n)
}
