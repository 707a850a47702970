package main

import (
	"cmp"
	"slices"
	"time"
)

// program is a row of the matrix: what is started and what must come of it.
type program struct {
	name string
	what string // for the report
	kind kind
	// source is a file of test/mpi without .c or .py, or of openpmix's examples or tests.
	source string
	args   []string         // {file} is a new path that all hosts see
	also   string           // another source of its kind, which it starts
	module string           // run by python -m MODULE before the script
	ranks  int              // default 4
	want   map[where]string // in standard output, on one host and on several; both when only one is there
	code   int
	says   string // must be in standard error, and may then be there although it looks like a failure
	// watched: it is run without --watch-ranks first and then with, and must print the same lines, to the last bit.
	watched bool
	bare    bool   // without it
	noise   string // regular expression of what looks like a failure on standard error and is none
	cause   string // regular expression for standard error's last lines, {host} being rank 1's
	bound   time.Duration
}

// kind is how a program is built and run.
type kind int

const (
	mpiC    kind = iota // test/mpi/SOURCE.c with the stack's mpicc
	pmixC               // test/mpi/SOURCE.c with libpmix
	example             // openpmix's examples/SOURCE.c with libpmix
	simple              // openpmix's test/simple/SOURCE.c with libpmix, and simple.h instead of its own headers
	script              // test/mpi/SOURCE.py
	suite               // mpi4py's own test suite
)

// where says on what a cell runs.
type where string

// One host without an agent of its own (the run's embedded one), and two with agents.
const (
	one     where = "one host"
	several where = "two hosts"
)

// both is a wanted output that does not depend on where.
func both(text string) map[where]string { return map[where]string{one: text, several: text} }

const minute = time.Minute

// noPMIx is why a program of PMIx's own is not run; the report has a dash for it.
const noPMIx = "the library speaks PMI-1, or is a wheel, which has no PMIx headers"

// lateOrCrowded is said of the late rank, unless the ranks, which poll, want for processors.
const lateOrCrowded = `rank 1 \({host}, pid \d+\): the others waited|who is slow does not show: all ranks were ready to run|the ranks wait for each other`

// programs are the rows, in their order.
var programs = slices.Concat(mpiPrograms, pmixPrograms, suites)

var mpiPrograms = []program{
	{name: "hello", what: "init, barrier, finalize", source: "hello", want: map[where]string{
		one: "rank 3 of 4 on launcher, 3 of 4 there", several: "rank 3 of 4 on w1, 1 of 2 there"}},
	{name: "ring", what: "a token through all ranks", source: "ring", want: both("ring 6")},
	{name: "allreduce", what: "three sums over a vector", source: "allreduce", want: both("allreduce ok")},
	{name: "shared", what: "split_type(SHARED), and memory that is really shared", source: "shared", want: map[where]string{
		one: "shared ok 4", several: "shared ok 2"}},
	{name: "bcast", what: "1 MiB from every rank in turn", source: "bcast", want: both("bcast ok")},
	{name: "onesided", what: "put, get, accumulate, fetch_and_op; fences and locks", source: "onesided", want: both("onesided ok")},
	{name: "file", what: "MPI-IO, collective and not", source: "file", args: []string{"{file}"}, want: both("file ok")},
	{name: "abort", what: "MPI_Abort with a code", source: "abort", args: []string{"42", "1"}, code: 42,
		cause: `rank 1 on {host} called MPI_Abort with code 42`},
	{name: "death-before", what: "a rank ends before MPI_Init", source: "exitcode", args: []string{"3", "1", "before"}, code: 3,
		cause: `rank 1 on {host} .*(exit|code) 3`},
	{name: "death-wired", what: "a rank ends after it met the server, before its first fence", source: "death",
		args: []string{"wired"}, code: 5, says: "death before its first fence", cause: `rank 1 on {host} .*(exit|code) 5`},
	{name: "death-fenced", what: "a rank is killed inside the fence of MPI_Init", source: "death",
		args: []string{"fenced"}, code: 142, says: "death in its first fence", cause: `rank 1 on {host} .*(signal 14|SIGALRM)`},
	{name: "death-running", what: "a rank is killed while the others are in MPI_Barrier", source: "exitcode",
		args: []string{"9", "1", "signal"}, code: 137, cause: `rank 1 on {host} .*(signal 9|SIGKILL)`},
	{name: "death-ended", what: "a rank fails after MPI_Finalize", source: "death", args: []string{"ended"}, code: 5,
		cause: `rank 1 on {host} .*(exit|code) 5`},
	{name: "publish", what: "MPI_Publish_name, lookup, unpublish", source: "publish", want: both("publish ok")},
	{name: "accept", what: "open_port, publish, accept and connect", source: "accept_ompi", want: both("accept ok")},
	{name: "spawn", what: "MPI_Comm_spawn and _multiple, merged and disconnected", source: "family", ranks: 2, want: both("family ok")},
	{name: "sessions", what: "two MPI sessions one after the other", source: "session", want: both("session ok\n")},
	{name: "python", what: "mpi4py: pickled objects over all ranks", kind: script, source: "collective",
		want: map[where]string{one: "collective ok 4 ranks, 1 hosts", several: "collective ok 4 ranks, 2 hosts"}},
	{name: "pool", what: "mpi4py.futures over started ranks", kind: script, source: "pool", module: "mpi4py.futures",
		ranks: 3, want: both("pool ok 2")},
	{name: "pool-spawn", what: "mpi4py.futures over spawned workers", kind: script, source: "pool", ranks: 1, want: both("pool ok 2")},
	{name: "watched", what: "each call that --watch-ranks stands before: the same to the last bit, and the late rank is named", source: "waits",
		args: []string{"25", "0.1", "1", "2"}, watched: true, cause: lateOrCrowded},
	{name: "watched-python", what: "the same for mpi4py", kind: script, source: "waits", args: []string{"50", "1"}, watched: true,
		cause: lateOrCrowded},
	{name: "pmix", what: "a PMIx client of our own", kind: pmixC, source: "pmix_ompi", want: both("pmix ok")},
}

// suites are last, since they take most of the time.
var suites = []program{
	{name: "mpi4py-1", what: "mpi4py's own test suite on 1 rank", kind: suite, ranks: 1, bound: 15 * minute},
	{name: "mpi4py-2", what: "mpi4py's own test suite on 2 ranks", kind: suite, ranks: 2, bound: 20 * minute},
	{name: "mpi4py-4", what: "mpi4py's own test suite on 4 ranks", kind: suite, ranks: 4, bound: 30 * minute},
}

// size is the number of ranks that the cell starts with.
func (p program) size() int {
	if p.ranks == 0 {
		return 4
	}
	return p.ranks
}

// limit is how long a cell may take: generous, since ranks that spin share two cores.
func (p program) limit() time.Duration {
	if p.bound == 0 {
		return minute
	}
	return p.bound
}

// missing is why the program cannot be run on the stack, "" when it can.
func (p program) missing(s stack, at where, cache string) string {
	if reason := cmp.Or(s.lacks[p.name], s.lacks[p.name+" on "+string(at)]); reason != "" {
		return reason
	}
	switch {
	case p.kind == suite && at == one:
		return "run on two hosts"
	case (p.kind == script || p.kind == suite) && s.interpreter(cache) == "":
		return "Debian's mpi4py is built for Open MPI"
	case (p.kind == pmixC || p.kind == example || p.kind == simple) && s.pmix == "":
		return noPMIx
	case p.kind == simple && s.tests == "":
		return "openpmix's tests are built for Debian 12's PMIx alone"
	case p.kind == example && !s.hasExample(p.source, cache):
		return "this PMIx does not have the example"
	}
	return ""
}
