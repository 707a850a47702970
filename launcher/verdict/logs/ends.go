package logs

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// fact is a text by which a line names a process. The groups rank, local, host and pid are what it says.
type fact struct {
	pattern.Hinted
	first bool // the launcher names the first one that failed
	waits bool // it is one that others wait for
	own   bool // mpiup says it, and no rank
	self  bool // the process itself says it, whose line it is
}

func says(has, text string) fact    { return fact{Hinted: pattern.With(has, text)} }
func first(has, text string) fact   { return fact{Hinted: pattern.With(has, text), first: true} }
func waited(has, text string) fact  { return fact{Hinted: pattern.With(has, text), waits: true} }
func oneself(has, text string) fact { return fact{Hinted: pattern.With(has, text), self: true} }
func ours(has, text string) fact {
	return fact{Hinted: pattern.With(has, text), first: true, own: true}
}

var facts = sync.OnceValue(func() []fact {
	return []fact{
		// Whom others wait for, as torch, Horovod and JAX say it: before the one that says so.
		waited(`possible application crash`, `possible application crash on rank (?P<rank>\d+)`),
		waited(`failed to pass`, `Ranks? (?P<rank>\d+)(?:, ?\d+)* failed to pass monitoredBarrier`),
		waited(`retrieving ncclUniqueId`, `retrieving ncclUniqueId from \[(?P<rank>\d+)\]`),
		waited(`Communication error`, `Communication error with rank (?P<rank>\d+)`),
		waited(`missing rank`, `missing ranks?: ?\[?(?P<rank>\d+)`),
		waited(`/replica:`, `^/job:\w+/replica:\d+/task:(?P<rank>\d+)$`),
		waited(`/replica:`, `[Tt]ask /job:\w+/replica:\d+/task:(?P<rank>\d+) (?:heartbeat timeout|disconnected)`),
		waited(`different incarnation`, `/job:\w+/replica:\d+/task:(?P<rank>\d+) unexpectedly tried to connect`),
		first(`: rank `, `^(?P<host>[\w.-]+): rank (?P<rank>\d+) (?:exited with code [1-9]|died from signal)`), // PALS
		first(` on host `, `\brank (?P<rank>\d+) on host (?P<host>\S+) (?:failed|exited)\b`),                   // Flux
		says(`PE RANK`, `PE RANK (?P<rank>\d+) exit signal`),                                                   // ALPS
		says(`[PE_`, `\[PE_(?P<rank>\d+)\]:`),                                                                  // Cray's PMI
		says(`0031-250`, `0031-250 +task (?P<rank>\d+): `),                                                     // IBM's poe
		first(`0031-300`, `due to exit code \d+ in task (?P<rank>\d+)`),
		first(`before MPI_`, `MPI Application rank (?P<rank>\d+) (?:exited|killed) before MPI_`), // Platform's
		oneself(`^o`, `^on (?P<host>[\w.-]+)$`),                                                  // MS-MPI's analysis, below a rank in brackets
		first(`first noticed rank`, `\(first noticed rank (?P<rank>\d+)\) terminated`),           // IBM's jsrun
		// Open MPI and PRRTE, orterun's and prterun's help texts.
		first(`noticed that process rank`, `noticed that process rank (?P<rank>\d+)(?: with PID (?P<pid>\S+))?(?: on node (?P<host>\S+))?`),
		first(`due to process rank`, `due to process rank (?P<rank>\d+) with PID (?P<pid>\d+)`),
		first(`Process name: `, `^Process name: \[(?:\[\d+,\d+\]|[\w.@-]*\d+),(?P<rank>\d+)\]`),
		says(`invoked on rank`, `invoked on rank (?P<rank>\d+) (?:in communicator|\(pid (?P<pid>\d+), host=(?P<host>[\w.-]+)\))`),
		oneself(`reported by process`, `reported by process \[[^,\]]+,(?P<rank>\d+)\]`),
		says(`while attempting to start`, `while attempting to start process rank (?P<rank>\d+)`),
		says(`may have occurred`, `^(?:process )?rank (?P<rank>\d+); it may have occurred`),
		says(`Remote daemon: `, `^Remote daemon: \[\[\d+,\d+\],\d+\] on node (?P<host>\S+)`),
		says(`^hNHLPn`, `^(?:hostname|Node|Host|Local host|Peer host|node): +(?P<host>[\w.-]+)`),
		says(` exiting`, `^node (?P<host>\S+) exiting`),
		// MPICH and Intel MPI.
		first(`RUNNING AT`, `^=\s+RANK (?P<rank>\d+) PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)`),
		first(`RUNNING AT`, `^=\s+PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)`),
		says(`Abort(`, `^Abort\(-?\d+\) on node (?P<rank>\d+)\b`),
		says(`aborting MPI_COMM_WORLD`, `aborting MPI_COMM_WORLD .*comm rank (?P<rank>\d+)`), // MS-MPI
		says(`MPT ERROR: `, `MPT ERROR: Rank (?P<rank>\d+)\(`),                               // HPE's
		says(`fatal signal`, `Caught a fatal signal: .* on node (?P<rank>\d+)/\d`),
		says(`FATAL ERROR(`, `FATAL ERROR\(Node (?P<rank>\d+)\): `),         // GASNet's
		says(` Exiting: Called`, `Processor (?P<rank>\d+) Exiting: Called`), // Charm++'s
		first(`has terminated without`, `MPI_COMM_WORLD rank (?P<rank>\d+) has terminated without`),
		says(`RankID:`, `\bRankID:(?P<rank>\d+)\)`),                             // Ascend's
		says(`Error occurred on rank`, `^Error occurred on rank (?P<rank>\d+)`), // AmberTools
		says(`internal ABORT`, `internal ABORT - process (?P<rank>\d+)`),
		says(`FATAL from PE`, `FATAL from PE +(?P<rank>\d+): `),  // FMS's
		says(`FAIL at line=`, `^pe=(?P<rank>\d+) FAIL at line=`), // MAPL's
		says(`MPI_Abort(`, `called MPI_Abort\(.*\) - process (?P<rank>\d+)`),
		first(`caused collective`, `^rank (?P<rank>\d+) in job \d+ +(?P<host>\S+?)_\d+ +caused collective abort`),
		says(`exit status of rank`, `^exit status of rank (?P<rank>\d+):`),
		says(`[cli_`, `\[cli_(?P<rank>\d+)\]: `),
		says(`MPICH ERROR`, `MPICH ERROR \[Rank (?P<rank>\d+)\] .*\] \[(?P<host>[\w.-]+)\] - `),
		// torch and torchrun.
		says(`Rank `, `\[(?:PG [^\]]*)?Rank (?P<rank>\d+)\]`),
		says(`(local_rank: `, `^rank\s*: (?P<rank>\d+) \(local_rank: \d+\)`),
		says(`exitcode`, `^exitcode\s*: -?\d+ \(pid: (?P<pid>\d+)\)`),
		says(`^h`, `^host\s*: (?P<host>\S+)`),
		says(`local_rank: `, `local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)`),
		says(`terminated with`, `process (?P<local>\d+) terminated with (?:signal|exit)`),              // torch.multiprocessing's, on its host
		first(`MPI processes was aborted`, `One of MPI processes was aborted\.\(rank=(?P<rank>\d+)\)`), // Fujitsu's plexec
		says(` on proc `, `ERROR on proc (?P<rank>\d+): `),                                             // LAMMPS
		// DeepSpeed's and torch's older launcher name the command of the last process that they started, whichever failed: of one process it is that one.
		says(`local`, `(?:exits with return code|CalledProcessError).*--local[_-]rank[= ](?P<local>0)\b|--local[_-]rank[= ](?P<local0>0)\b.*exits with return code`),
		// MVAPICH.
		says(`MPI process (rank`, `MPI process \(rank: (?P<rank>\d+), pid: (?P<pid>\d+)\) exited with status`),
		says(`collective calls at`, `collective calls at and around rank (?P<rank>\d+)`),
		// Horovod.
		first(`Process name: `, `^Process name: (?P<rank>\d+)$`),
		first(`exit with status code`, `^Process (?P<rank>\d+) exit with status code [1-9]`),
		// Slurm.
		says(`: Terminated`, `^srun: error: (?P<host>\S+): tasks [\d,-]+: Terminated`), // with the step, when another one failed
		first(`: exited`, `^srun: S\w+=\S+ task (?P<rank>\d+): exited abnormally`),
		says(`run: error: `, `^(?:s|yh)run: error: (?P<host>\S+): task (?P<rank>\d+)`),
		// mpiup.
		ours(`^rhtm`, `^(?:mpiup: )?(?:rank (?P<rank>\d+)|host|the command) (?:of spawned job \d+ )?(?:on )?(?P<host>\S+) (?:exited|was killed|called MPI_Abort|could not|failed|with|cannot go on|broke|closed)`),
	}
})

// srunTasks is several ranks that ended alike, in one line of srun's.
var srunTasks = pattern.With("srun: ", `^srun: (?:error: \S+:|S\w+=\S+) tasks (\d{1,7}[,-][\d,-]{1,200}): `)

// loose is a rank that a failure's own line speaks of.
var loose = pattern.Of(`(?i)\b(?:on |in |from |by )?(?:mpi |world |global[_ ]?)?rank[ :=#]+(\d+)\b|\[(?:rank|process) ?(\d+)\]`)

// names says which process a fact's line names; false: none.
func (f fact) names(text string) (ending, bool) {
	e := ending{rank: -1}
	m := f.Find(text)
	if m == nil {
		return e, false
	}
	for i, name := range f.In(text).SubexpNames() {
		switch name {
		case "rank":
			e.rank = number(m[i])
		case "local", "local0":
			e.local = max(e.local, number(m[i])+1)
		case "host":
			e.host = strings.Trim(m[i], ",.;:()\"'")
		case "pid":
			e.pid = max(number(m[i]), 0)
		}
	}
	return e, true
}

// block is torchrun's list of failures, of which the root cause is the one that counts: others ended after it, most by the launcher.
type block struct {
	at   int // number of its first line; 0: none
	root bool
	who  ending
	time string           // of the entry, to the second
	same map[string][]int // ranks by theirs, of those that torchrun does not name first
}

var (
	numberedHas = []string{"NCCL INFO comm", "Rank", "MPI startup"}
	enqueued    = pattern.Of(`\[(PG [^\]]*)?Rank (\d+)\].*last enqueued NCCL work: (\d+)`)
	timedOut    = pattern.Of(`\[(PG [^\]]*)?Rank (\d+)\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d+)`)
	numbered    = []func() *regexp.Regexp{
		pattern.Of(`^NCCL INFO comm \S+ rank (\d+) nranks`),
		pattern.Of(`^#? *Rank +(\d+) (?:Group +\d+ )?Pid +(\d+) on +([\w.-]+) device`),
		pattern.Of(`^MPI startup\(\): (\d+) +(\d+) +([\w.-]+) +\{`),
	}
)

// learn takes what a line says of processes into account.
func (r *Reader) learn(l line) {
	if strings.Contains(l.text, "last enqueued") {
		r.enq = note(r.enq, enqueued, l)
	}
	r.horovod(l)
	r.elastic(l.text)
	if strings.Contains(l.text, "WorkNCCL(") {
		r.seq = note(r.seq, timedOut, l)
	}
	for i, re := range numbered {
		if !strings.Contains(l.text, numberedHas[i]) {
			continue
		}
		if m := re().FindStringSubmatch(l.text); m != nil {
			p := process{l.who.host, l.who.pid}
			if i > 0 {
				p = process{m[3], number(m[2])}
			}
			r.know(p, number(m[1]))
		}
	}
	switch {
	case l.text == "Failures:":
		r.torch = block{at: r.number, who: ending{rank: -1}, same: map[string][]int{}}
		return
	case strings.HasPrefix(l.text, "time ") && (r.torch.at > 0 || r.torch.root):
		r.torch.time = l.text
	case strings.HasPrefix(l.text, "Root Cause (first observed failure)"):
		if at := r.torch.at; at > 0 {
			r.takeBack(func(g *finding) bool { return g.file == r.file && g.number > at })
		}
		r.torch = block{root: true, who: ending{rank: -1}, same: r.torch.same}
		return
	case strings.HasPrefix(l.text, "======"):
		r.torch.root = false
	}
	if srunTasks.Match(l.text) && !strings.HasSuffix(l.text, ": running") {
		for _, f := range r.open {
			f.toldBy = byMany
		}
	}
	for _, f := range facts() {
		who, ok := f.names(l.text)
		if !ok || f.own && l.ofRank() {
			continue
		}
		if f.self {
			if who = who.or(l.who); who.rank < 0 {
				continue
			}
		}
		r.know(process{who.host, who.pid}, who.rank)
		if f.waits {
			r.wait(who.rank)
			for _, m := range others().FindAllStringSubmatch(l.text, maxFound) {
				for n := range strings.FieldsFuncSeq(m[1], func(c rune) bool { return c < '0' || c > '9' }) {
					r.wait(number(n))
				}
			}
		}
		if r.torch.at > 0 && who.rank >= 0 && len(r.torch.same[r.torch.time]) < maxFound {
			r.torch.same[r.torch.time] = append(r.torch.same[r.torch.time], who.rank)
		}
		if r.torch.root {
			r.torch.who = r.torch.who.or(who)
			who = r.torch.who
			r.named = &who
		} else if f.first && r.named == nil {
			r.named, r.by, r.since = &who, alike(l.text), r.number
		} else if f.first && !f.own && r.named != nil && who.rank >= 0 && r.named.rank >= 0 && who.rank != r.named.rank {
			r.firsts = true
		}
		if !f.waits {
			r.near = 0
			if who.rank < 0 && r.at == r.number-1 {
				r.near = r.recent.rank + 1
			}
			r.recent, r.at = who, r.number
			if s, ok := verdict.Recognise(l.text); !ok || s.Weight() > verdict.Wait { // who waits is not who failed
				r.tell(who, alike(l.text))
			}
		}
		return
	}
}

var (
	others      = pattern.Of(`(?:Ranks |missing ranks?: ?\[?)(\d+(?:, ?\d+)*)`) // "Ranks 4, 5, 6 failed to pass"
	stalledRank = pattern.Of(`^(\d{1,6}): \[`)
	elasticRank = pattern.Of(`"global_rank": (\d+)`)
	sized       = []string{"nranks", "world_size", "world size", "num_processes"}
	jobSize     = pattern.Of(`(?:\bnranks |world[_ ]size[=: ]+|\bnum_processes[=: ]+|"role_world_size\\*": \[)(\d{1,6})\b`)
)

// horovod takes the lists of ranks that Horovod waits for: "Stalled ranks:", "Missing ranks:", and below a line for each.
func (r *Reader) horovod(l line) {
	if strings.HasSuffix(l.text, "Stalled ranks:") || strings.HasSuffix(l.text, "Missing ranks:") {
		r.stalls = true
		return
	}
	if !r.stalls {
		return
	}
	rank := l.label - 1
	if m := stalledRank().FindStringSubmatch(l.text); m != nil {
		rank = number(m[1])
	}
	if rank < 0 || !strings.Contains(l.text, "[") {
		r.stalls = false
		return
	}
	r.wait(rank)
}

// wait notes a rank that others wait for.
func (r *Reader) wait(rank int) {
	if rank >= 0 && len(r.waits) < maxFound && !slices.Contains(r.waits, rank) {
		r.waits = append(r.waits, rank)
	}
}

// elastic takes what torch's launcher writes of a worker's end as a record, and the number of ranks of the job wherever a line has it.
func (r *Reader) elastic(text string) {
	if !slices.ContainsFunc(sized, func(s string) bool { return strings.Contains(text, s) }) {
		return
	}
	if m := jobSize().FindStringSubmatch(text); m != nil {
		r.size = max(r.size, number(m[1]))
	}
	if strings.Contains(text, "torchelastic.worker.status.FAILED") {
		if m := elasticRank().FindStringSubmatch(text); m != nil && len(r.failed) < maxFound {
			r.failed = append(r.failed, number(m[1]))
		}
	}
}

// operation is the number of one that a rank was in. Each group of ranks has its own numbers.
type operation struct {
	group    string
	rank, at int
}

// note takes a rank and the number of its operation. A group that is not the whole job counts its ranks from 0, so that a tag must say which
// rank of the job it was.
func note(list []operation, re func() *regexp.Regexp, l line) []operation {
	m := re().FindStringSubmatch(l.text)
	if m == nil || len(list) >= maxPIDs {
		return list
	}
	op := operation{m[1], number(m[2]), number(m[3])}
	if l.who.rank >= 0 {
		op.rank = l.who.rank
	} else if op.group != "" && !strings.HasPrefix(op.group, "PG 0 ") && !strings.HasPrefix(op.group, "PG ID 0 ") {
		return list
	}
	return append(list, op)
}

const byMany = "several" // a line that tells of several processes: one more that tells of one then names none

// tell completes findings that came just before. Lines that name several ranks alike tell of none which was first.
func (r *Reader) tell(who ending, by string) {
	for _, f := range r.open {
		switch close := r.number-f.number <= after && f.lane.file == r.file && f.near == 0; {
		case close && f.who.rank < 0 && f.who.fits(who) && (f.toldBy != byMany || who.rank < 0):
			f.who, f.toldBy = f.who.or(who), by
		case close && f.toldBy == by && who.rank >= 0:
			f.among = f.among.Union(idset.Of(f.who.rank, who.rank))
		}
	}
}

func (r *Reader) know(p process, rank int) {
	if p.pid > 0 && rank >= 0 && len(r.pids) < maxPIDs {
		r.pids[p] = rank
		if _, taken := r.pids[process{"", p.pid}]; !taken {
			r.pids[process{"", p.pid}] = rank
		}
	}
}

// looksRaised says that a line is a Python exception's, though its traceback is not there.
var raisedLine = pattern.With("error|exception|interrupt|failure|.exc.|.errors.|iteration: |expired: ", `^(?:(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Failure)(?:\(\w+\))?(?:: \S|$)|`+
	`(?:[a-z_]\w*\.)+(?:exc|errors|exceptions?)\.[A-Z]\w*: \S|(?:StopIteration|subprocess.TimeoutExpired): \S)`)

func looksRaised(text string) bool { return raisedLine.Match(text) }

// relayed says that an exception only tells of another process's.
func relayed(text string) bool {
	for _, p := range []string{"torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "subprocess.CalledProcessError", "torch.multiprocessing.spawn.Process",
		"ChildFailedError", "vllm.v1.engine.exceptions.EngineDeadError", "RuntimeError: Horovod detected that one or more processes exited",
		"RuntimeError: horovod.run",
		"torch.distributed.elastic.multiprocessing.api.SignalException", "UnexpectedStatusException"} {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}

// warns says that a line calls itself a warning. NCCL's are errors.
var warning = pattern.With("^W|[w|warning|tensorflow/", `^\[W |\[W\d{3,4} |^W\d{4} |^WARNING[: ]|\bWARNING\b|: W tensorflow/|Warning:`)

func warns(text string) bool {
	return warning.Match(text) && !strings.Contains(text, "NCCL WARN")
}

// complaint is a line that begins as one of an error does, whoever's.
var complaint = pattern.With("error|fatal|abort", `^\W*(?:(?i:fatal|internal|severe|critical|runtime|input|syntax|unhandled|unexpected|unrecoverable) )?`+
	`(?:(?:ERROR|Error|FATAL|Fatal)\b(?:[!*]|:? \S|:$)|error(?:: \S|:$)|Abort(?:ing|ed)? \w)`)

// complains says that a line tells of an error by its own word: its level, or how it begins.
func complains(text string) bool {
	if level, said := stated(text); said {
		return level == Error && !strings.HasPrefix(text, "error ") // which begins a sentence, or ends one
	}
	return complaint.Match(text)
}

// mild says that a line which a sign knows tells of no failure by its own word: it is a warning or a note. What a launcher notes of an end, or
// of a signal, is told of whatever its level, and so is who waits.
func mild(text string, s *verdict.Sign) bool {
	if s.Weight() == verdict.Ending || s.Kind == verdict.StuckIO || s.Weight() == verdict.Wait && !s.Likely ||
		s.Kind == verdict.Terminated || s.Kind == verdict.Interrupted || s.Kind == verdict.TimeOut {
		return false
	}
	if s.Text == "PMIX ERROR: " { // in logs of jobs that go well, too
		return true
	}
	// Another's words, whatever the level of who passes them on; "should not happen".
	if strings.Contains(text, "[stderr]") || s.Text == "failed to TCP connect to a peer" {
		return false
	}
	level, ok := stated(text)
	return warns(text) && !(ok && level == Error) || ok && level <= Info
}

// starts says that a kind is one of starting, which is tried again.
func starts(k verdict.Kind) bool {
	switch k {
	case verdict.DNS, verdict.Identity, verdict.Network, verdict.HostsMissing:
		return true
	}
	return false
}
