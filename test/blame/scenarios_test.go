package blame

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// scenario is a way to fail, of which one rank, the odd one, is guilty.
type scenario struct {
	name, stack string
	how         string   // of the programs (test/mpi/blame.c, ranks.py): "exit 3"; "": script
	script      string   // of a shell that is each rank, with $ODD and $DIR
	before      string   // what a shell does before the program
	flags       []string // of mpiup run
	code        int      // of the run
	kinds       []verdict.Kind
	odds        []int    // who is the odd one in turn; default: each rank
	next        bool     // the rank after the odd one may be named too: both fail within 10 ms, on two hosts
	killed      bool     // the test kills the odd one, from outside
	boxed       bool     // the odd one's host has a limit of memory
	hosts       bool     // the odd one's neighbour fails alike, and either may be named
	says        []string // words that the verdict has
	never       []string // words that it has not
	ci          bool     // CI runs it
}

func (s scenario) String() string { return s.name + ", " + s.stack }

// program is the argv of ranks.
func (s scenario) program(odd int, dir string) []string {
	var argv []string
	how, code := s.how, "0"
	if _, err := fmt.Sscanf(s.how, "%s %s", &how, &code); err != nil {
		code = "0"
	}
	switch s.stack {
	case "plain", "wrapped", "workers", "hosts":
		return []string{"env", fmt.Sprint("ODD=", odd), "DIR=" + dir, "bash", "-c", s.script}
	case "MPICH", "Open MPI":
		argv = []string{world.programs[s.stack], fmt.Sprint(odd), how, dir, code}
	case "mpi4py": // its own module has an exception abort the job; without it the rank waits in MPI_Finalize for ever
		argv = []string{world.python[s.stack], "-m", "mpi4py", world.ranks, s.stack, fmt.Sprint(odd), how, dir, code}
		if strings.HasPrefix(s.name, mpi4pyWaits) {
			argv = slices.Delete(argv, 1, 3)
		}
	default:
		argv = []string{world.python[s.stack], world.ranks, s.stack, fmt.Sprint(odd), how, dir, code}
	}
	if s.before != "" {
		argv = slices.Concat([]string{"env", fmt.Sprint("ODD=", odd), "bash", "-c", s.before + "\n" + `exec "$@"`, "bash"}, argv)
	}
	return argv
}

// Flags of runs that hang.
var (
	stall   = []string{"--stall-timeout", "3s", "--on-stall", "abort"}
	inInit  = []string{"--init-timeout", "3s", "--on-stall", "abort"}
	timeout = []string{"--timeout", "12s"}
)

// Noise that ranks outlive.
const (
	lacking = `nvidia-smi -L`
	preload = `export LD_PRELOAD=/nonexistent/libprofile.so`
	mirror  = `echo "Connection reset by peer; mirror-2 is used" >&2`
	lines   = `; for i in {1..2000}; do echo "step $i" >&2; done`
)

// waits is what the others of a shell's ranks do.
const waits = `; exec sleep 1000`

// plain are failures of programs that know nothing of each other.
var plain = []scenario{
	{name: "exit code", script: `[ $MPIUP_RANK = $ODD ] && exit 3` + waits, code: 3, kinds: []verdict.Kind{verdict.ExitCode}, ci: true},
	{name: "segfault", script: `[ $MPIUP_RANK = $ODD ] && kill -SEGV $$` + waits, code: 139, kinds: []verdict.Kind{verdict.Segfault}},
	{name: "abort", script: `[ $MPIUP_RANK = $ODD ] && kill -ABRT $$` + waits, code: 134, kinds: []verdict.Kind{verdict.Crash}},
	{name: "kill -9 from outside", script: `echo rank $MPIUP_RANK is there; while :; do sleep 0.1; done`, code: 137, kinds: []verdict.Kind{verdict.Killed}, killed: true, ci: true},
	{name: "command not found", script: `[ $MPIUP_RANK = $ODD ] && exec no-such-program` + waits, code: 127, kinds: []verdict.Kind{verdict.ProgramNotFound}},
	{name: "library not found", script: `[ $MPIUP_RANK = $ODD ] && exec $BLAME_UNLOADABLE` + waits, code: 127, kinds: []verdict.Kind{verdict.MissingLibrary}, ci: true},
	{name: "out of memory", script: `[ $MPIUP_RANK = $ODD ] && exec tail /dev/zero` + waits, code: 137, kinds: []verdict.Kind{verdict.OutOfMemory}, boxed: true},
	{name: "two on one host within 10 ms", // the second one only once the first is gone
		script: `[ $MPIUP_RANK = $ODD ] && { echo $$ >$DIR/pid.new; mv $DIR/pid.new $DIR/pid; exit 4; }
			[ $MPIUP_RANK = $((ODD ^ 1)) ] && { trap "" TERM; while [ ! -e $DIR/pid ] || kill -0 $(<$DIR/pid) 2>/dev/null; do :; done; exit 5; }` + waits,
		code: 4, kinds: []verdict.Kind{verdict.ExitCode}, ci: true},
	{name: "two on two hosts within 10 ms", script: `touch $DIR/at.$MPIUP_RANK
			[ $MPIUP_RANK = $ODD ] || [ $MPIUP_RANK = $(((ODD + 1) % 4)) ] || exec sleep 1000
			while [ ! -e $DIR/at.0 ] || [ ! -e $DIR/at.1 ] || [ ! -e $DIR/at.2 ] || [ ! -e $DIR/at.3 ]; do :; done; exit 4`,
		code: 4, kinds: []verdict.Kind{verdict.ExitCode}, odds: []int{1, 3}, next: true},
	{name: "exit code after a program that is not there", script: lacking + lines + `; [ $MPIUP_RANK = $ODD ] && exit 3` + waits, code: 3, kinds: []verdict.Kind{verdict.ExitCode}, ci: true},
	{name: "exit code after an ignored LD_PRELOAD", script: preload + `; true` + lines + `; [ $MPIUP_RANK = $ODD ] && exit 3` + waits, code: 3, kinds: []verdict.Kind{verdict.ExitCode}},
	{name: "exit code after a reset connection", script: mirror + lines + `; [ $MPIUP_RANK = $ODD ] && exit 3` + waits, code: 3, kinds: []verdict.Kind{verdict.ExitCode}},
	{name: "kill -9 after a reset connection", script: mirror + `; echo rank $MPIUP_RANK is there; while :; do sleep 0.1; done`, code: 137, kinds: []verdict.Kind{verdict.Killed}, killed: true},
	{name: "a loud victim, a silent culprit", // its end makes the other one fail at once, with many words
		script: `[ $MPIUP_RANK = $ODD ] && { echo $$ >$DIR/pid.new; mv $DIR/pid.new $DIR/pid; exit 3; }
			[ $MPIUP_RANK = $((ODD ^ 1)) ] || exec sleep 1000
			while [ ! -e $DIR/pid ] || kill -0 $(<$DIR/pid) 2>/dev/null; do :; done
			echo "RuntimeError: Connection reset by peer" >&2; exit 1`,
		code: 3, kinds: []verdict.Kind{verdict.ExitCode}},
}

// Programs that the kernel kills for want of memory.
const (
	greedy = `tail /dev/zero`
	python = `exec /usr/bin/python3 -c '`
)

var oom = []verdict.Kind{verdict.OutOfMemory}

// wrapped are failures of a program behind a wrapper: the kernel kills the program, and the wrapper ends in its own way.
var wrapped = []scenario{
	{name: "out of memory in a script that does not exec", script: `[ $MPIUP_RANK = $ODD ] && { ` + greedy + `; exit $?; }` + waits, code: 137, kinds: oom, boxed: true, ci: true,
		says: []string{"out of memory", "the kernel killed "}},
	{name: "out of memory in a script that says what failed", script: `[ $MPIUP_RANK = $ODD ] && { ` + greedy + ` || echo training failed >&2; exit 1; }` + waits, code: 1, kinds: oom, boxed: true},
	{name: "out of memory under timeout(1)", script: `[ $MPIUP_RANK = $ODD ] && exec timeout 100 ` + greedy + waits, code: 137, kinds: oom, boxed: true},
	{name: "out of memory under subprocess.run", script: `[ $MPIUP_RANK = $ODD ] && ` + python + `import subprocess
subprocess.run(["tail", "/dev/zero"], check=True)'` + waits, code: 1, kinds: oom, boxed: true, says: []string{"it led to: subprocess.CalledProcessError"}},
	{name: "out of memory, and its returncode is passed on", script: `[ $MPIUP_RANK = $ODD ] && ` + python + `import subprocess, sys
sys.exit(subprocess.call(["tail", "/dev/zero"]))'` + waits, code: 247, kinds: oom, boxed: true},
	{name: "kill -9 of a script's program, with memory to spare", script: `[ $MPIUP_RANK = $ODD ] && { sleep 1000 & kill -9 $!; wait $!; exit $?; }` + waits, code: 137,
		kinds: []verdict.Kind{verdict.Killed, verdict.ExitCode}, boxed: true, never: []string{"out of memory", "the kernel killed"}},
	{name: "exception after a helper was killed for memory", script: `[ $MPIUP_RANK = $ODD ] && { ` + greedy + `; ` + python + `raise ValueError("loss is nan")'; }` + waits, code: 1,
		kinds: []verdict.Kind{verdict.Python}, boxed: true, says: []string{"whether that is why is not known"}},
}

// workers are failures of a rank of which the kernel has killed a worker.
var workers = []scenario{
	{name: "out of memory in a pool of processes", script: `[ $MPIUP_RANK = $ODD ] && ` + python + `import concurrent.futures
def work(i):
    room = []
    while True: room.append(bytearray(b"x" * (1 << 20)))
with concurrent.futures.ProcessPoolExecutor(2) as pool: pool.submit(work, 1).result()'` + waits, code: 1, kinds: oom, boxed: true, ci: true, says: []string{"it led to: concurrent.futures"}},
	{name: "out of memory at the other end of a pipe", script: `[ $MPIUP_RANK = $ODD ] && ` + python + `import multiprocessing
def work(c):
    room = []
    while True: room.append(bytearray(b"x" * (1 << 20)))
here, there = multiprocessing.Pipe()
p = multiprocessing.Process(target=work, args=(there,))
p.start()
there.close()
here.recv()'` + waits, code: 1, kinds: oom, boxed: true, says: []string{"it led to: EOFError"}},
	{name: "out of memory in a helper, whose end the rank passes on as its own code", script: `[ $MPIUP_RANK = $ODD ] && { ` + greedy + ` & wait $!; exit 5; }` + waits, code: 5, kinds: oom, boxed: true},
	{name: "out of memory in a worker of a DataLoader", script: `[ $MPIUP_RANK = $ODD ] && ` + python + `import os, torch.utils.data as data
class Items(data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        if i == 17:
            room = []
            while True: room.append(bytearray(b"x" * (1 << 20)))
        return i
for item in data.DataLoader(Items(), num_workers=2): pass'` + waits, code: 1, kinds: oom, boxed: true, says: []string{"DataLoader worker"}},
}

// hosts are failures of all ranks of one host, and of all.
var hosts = []scenario{
	{name: "a file that one host has not", script: `f=/tmp/only-here-${DIR##*/}; [ $MPIUP_RANK -lt 2 ] && { touch $f; touch $DIR/made; exec sleep 1000; }
		while [ ! -e $DIR/made ]; do :; done; exec cat $f`, code: 1, odds: []int{2}, hosts: true, ci: true, says: []string{"the same file on w0 is there"}, never: []string{"mpiup run -n 1"}},
	{name: "an exception of all ranks of one host", script: `[ $MPIUP_RANK -lt 2 ] && exec sleep 1000; trap "" TERM; touch $DIR/at.$MPIUP_RANK
		while [ ! -e $DIR/at.2 ] || [ ! -e $DIR/at.3 ]; do :; done; /usr/bin/python3 -c 'raise RuntimeError("no such device")'; exit 1`, code: 1, odds: []int{2}, hosts: true,
		says: []string{"all 2 ranks on w1 and none elsewhere: ", "no such device"}, never: []string{"mpiup run -n 1"}},
	{name: "a command that is not there, on one host", script: `[ $MPIUP_RANK -lt 2 ] && exec sleep 1000; exec no-such-program`, code: 127, odds: []int{2}, hosts: true, never: []string{"mpiup run -n 1"}},
	{name: "an exit code of all ranks of one host", script: `[ $MPIUP_RANK -lt 2 ] && exec sleep 1000; trap "" TERM; touch $DIR/at.$MPIUP_RANK
		while [ ! -e $DIR/at.2 ] || [ ! -e $DIR/at.3 ]; do :; done; exit 3`, code: 3, odds: []int{2}, hosts: true, says: []string{"all 2 ranks on w1 and none elsewhere: "}, never: []string{"mpiup run -n 1"}},
}

// mpi are failures of programs of MPICH and Open MPI.
var mpi = []scenario{
	{name: "exit code in a collective", how: "exit 3", code: 3, kinds: []verdict.Kind{verdict.ExitCode}},
	{name: "0 in a collective", how: "exit 0", code: 1, kinds: []verdict.Kind{verdict.NoFinalize}},
	{name: "0 before MPI_Init", how: "before 0", code: 247, kinds: []verdict.Kind{verdict.NoInit}, ci: true},
	{name: "3 before MPI_Init", how: "before 3", code: 3, kinds: []verdict.Kind{verdict.ExitCode}},
	{name: "segfault", how: "segv", code: 139, kinds: []verdict.Kind{verdict.Segfault}, ci: true},
	{name: "abort", how: "abort", code: 134, kinds: []verdict.Kind{verdict.Crash}},
	{name: "MPI_Abort", how: "mpi_abort", code: 7, kinds: []verdict.Kind{verdict.Abort}},
	{name: "error of a call of MPI", how: "mpi_error", code: -1, kinds: []verdict.Kind{verdict.MPIError, verdict.Abort}},
	{name: "kill -9 from outside", how: "sleep", code: 137, kinds: []verdict.Kind{verdict.Killed}, killed: true},
	{name: "out of memory", how: "oom", code: 137, kinds: []verdict.Kind{verdict.OutOfMemory}, boxed: true},
	{name: "two within 10 ms", how: "both 4", code: -1, kinds: []verdict.Kind{verdict.ExitCode}, next: true},
	{name: "exit code after a program that is not there", how: "exit 3", before: lacking, code: 3, kinds: []verdict.Kind{verdict.ExitCode}},
	{name: "exit code after an ignored LD_PRELOAD", how: "exit 3", before: preload, code: 3, kinds: []verdict.Kind{verdict.ExitCode}},
	{name: "MPI_Abort after a reset connection", how: "mpi_abort", before: mirror, code: 7, kinds: []verdict.Kind{verdict.Abort}},
	{name: "hangs before MPI_Init", how: "init", flags: inInit, code: 110, kinds: []verdict.Kind{verdict.StuckInit}},
	{name: "hangs before MPI_Init, --timeout", how: "init", flags: timeout, code: 110, kinds: hung},
	{name: "sleeps, others in a collective", how: "sleep", flags: stall, code: 110, kinds: hung, ci: true},
	{name: "sleeps, others in a collective, --timeout", how: "sleep", flags: timeout, code: 110, kinds: hung},
	{name: "spins, others in a collective, --timeout", how: "spin", flags: timeout, code: 110, kinds: hung},
	{name: "stopped, others in a collective", how: "stop", flags: stall, code: 110, kinds: hung},
}

var hung = []verdict.Kind{verdict.TimeOut, verdict.Stalled, verdict.Collective, verdict.StuckInit}

// scripts are failures of trainings over Gloo, of programs of mpi4py, and of those that have sockets of their own. mpi4py calls MPI_Abort for
// an exception and for sys.exit.
var scripts = []scenario{
	{name: "exception", how: "raise", code: 1, kinds: []verdict.Kind{verdict.Python}},
	{name: "exception while another one is handled", how: "handled", code: 1, kinds: []verdict.Kind{verdict.Python}},
	{name: "exit code", how: "exit 3", code: 3, kinds: []verdict.Kind{verdict.ExitCode}},
	{name: "sys.exit with a code", how: "leave 3", code: 3, kinds: []verdict.Kind{verdict.ExitCode, verdict.Abort}},
	{name: "exit code after a thread's exception", how: "thread 3", code: 3, kinds: []verdict.Kind{verdict.ExitCode, verdict.Python}},
	{name: "segfault", how: "segv", code: 139, kinds: []verdict.Kind{verdict.Segfault}},
	{name: "abort", how: "abort", code: 134, kinds: []verdict.Kind{verdict.Crash}},
	{name: "kill -9 from outside", how: "sleep", code: 137, kinds: []verdict.Kind{verdict.Killed}, killed: true},
	{name: "out of memory", how: "oom", code: 137, kinds: []verdict.Kind{verdict.OutOfMemory}, boxed: true},
	{name: "two within 10 ms", how: "both 4", code: -1, kinds: []verdict.Kind{verdict.ExitCode}, next: true},
	{name: "lets go, and ends later without a word", how: "letgo 3", code: -1},
	{name: "0 while others go on", how: "exit 0", code: -1},
	{name: "exception after a program that is not there", how: "raise", before: lacking, code: 1, kinds: []verdict.Kind{verdict.Python}},
	{name: "exit code after a reset connection", how: "exit 3", before: mirror + lines, code: 3, kinds: []verdict.Kind{verdict.ExitCode}},
	{name: "never comes, --timeout", how: "away", flags: []string{"--timeout", "25s"}, code: 110, kinds: []verdict.Kind{verdict.Rendezvous, verdict.StuckInit, verdict.TimeOut}},
	{name: "sleeps, others wait", how: "sleep", flags: stall, code: 110, kinds: hung},
	{name: "stopped, others wait", how: "stop", flags: stall, code: 110, kinds: hung},
	{name: "spins, others wait, --timeout", how: "spin", flags: []string{"--timeout", "27s", "--stall-timeout", "8s"}, code: 110, kinds: hung},
}

const mpi4pyWaits = "exception, and waits in MPI_Finalize"

// notOf are scenarios that a stack has not.
var notOf = map[string][]string{
	"sockets": {"never comes, --timeout", "out of memory", "exception while another one is handled", "exit code after a thread's exception"},
	"mpi4py":  {"lets go, and ends later without a word", "0 while others go on", "out of memory", "two within 10 ms"},
}

// scenarios are all.
func scenarios() (all []scenario) {
	add := func(list []scenario, stack string) {
		for _, s := range list {
			if s.stack = stack; !slices.Contains(notOf[stack], s.name) {
				all = append(all, s)
			}
		}
	}
	add(plain, "plain")
	add(wrapped, "wrapped")
	add(workers, "workers")
	add(hosts, "hosts")
	add(mpi, "MPICH")
	add(mpi, "Open MPI")
	for _, stack := range []string{"sockets", "torch", "mpi4py"} {
		add(scripts, stack)
	}
	add([]scenario{{name: mpi4pyWaits + ", --timeout", how: "raise", flags: timeout, code: 110}}, "mpi4py")
	return all
}

// oddOf is who is the odd one at a try.
func (s scenario) oddOf(try int) int {
	odds := s.odds
	switch {
	case s.boxed:
		odds = []int{2, 3} // of the host with the limit
	case odds == nil:
		odds = []int{2, 1, 3, 0}
	}
	return odds[try%len(odds)]
}

// guilty are the ranks that may be named.
func (s scenario) guilty(odd int) []int {
	if s.next || s.hosts {
		return []int{odd, (odd + 1) % ranks}
	}
	return []int{odd}
}
