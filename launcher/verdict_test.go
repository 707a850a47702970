package launcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

func rankFault(rank, node int, at time.Duration, timeNS int64, e job.Exit) fault {
	return fault{kind: faultRank, rank: rank, node: node, host: "w" + string(rune('0'+node)), at: at, timeNS: timeNS, exit: e}
}

func TestVerdict(t *testing.T) {
	code := func(c int) job.Exit { return job.Exit{Code: c} }
	sig := func(s int) job.Exit { return job.Exit{Signal: s} }
	ms := time.Millisecond
	abort := func(c int, at time.Duration) fault {
		return fault{kind: faultAbort, rank: 5, node: 1, host: "w1", code: c, at: at}
	}
	interrupt := fault{kind: faultSignal, rank: -1, node: -1, code: 2, at: ms}
	for _, tt := range []struct {
		name    string
		faults  []fault
		stopped bool
		want    int
		says    string // in the first line
	}{
		{name: "all well", want: 0},
		{name: "exit code", faults: []fault{rankFault(3, 1, ms, 0, code(7))}, want: 7, says: "rank 3 on w1 exited with code 7"},
		{name: "signal", faults: []fault{rankFault(3, 1, ms, 0, sig(11))}, want: 139, says: "signal 11 (SIGSEGV)"},
		{name: "within a host its clock decides", faults: []fault{
			rankFault(2, 1, ms, 200, code(2)), rankFault(3, 1, 2*ms, 100, code(3))}, want: 3, says: "rank 3"},
		{name: "between hosts arrival decides", faults: []fault{
			rankFault(2, 1, ms, 200, code(2)), rankFault(8, 2, 2*ms, 100, code(8))}, want: 2, says: "rank 2"},
		{name: "an earlier one of the first host arrives last", faults: []fault{
			rankFault(2, 1, ms, 200, code(2)), rankFault(8, 2, 2*ms, 10, code(8)), rankFault(3, 1, 3*ms, 100, code(3))}, want: 3, says: "rank 3"},
		{name: "abort is above a code that came first", faults: []fault{rankFault(2, 1, ms, 1, code(2)), abort(42, 2*ms)}, want: 42, says: "rank 5 on w1 called MPI_Abort with code 42"},
		{name: "a rank is killed, and a peer's library aborts over it", faults: []fault{
			rankFault(2, 2, ms, 1, sig(9)), abort(42, 2*ms)}, want: 137, says: "rank 2 on w2 was killed by signal 9"},
		{name: "the abort over it is reported first", faults: []fault{abort(42, ms), rankFault(2, 2, 251*ms, 1, sig(11))}, want: 139, says: "rank 2 on w2"},
		{name: "killed long after the abort", faults: []fault{abort(42, ms), rankFault(2, 2, 252*ms, 1, sig(9))}, want: 42, says: "MPI_Abort"},
		{name: "killed long before the abort", faults: []fault{rankFault(2, 2, ms, 1, sig(9)), abort(42, 252*ms)}, want: 42, says: "MPI_Abort"},
		{name: "a signal that a rank sends itself is below an abort", faults: []fault{
			rankFault(2, 2, ms, 1, sig(6)), rankFault(3, 2, ms, 1, sig(13)), abort(42, 2*ms)}, want: 42, says: "MPI_Abort"},
		{name: "the aborting rank's own signal", faults: []fault{abort(42, ms), rankFault(5, 1, 2*ms, 1, sig(9))}, want: 42, says: "MPI_Abort"},
		{name: "of two that were killed the host's clock decides", faults: []fault{
			rankFault(2, 2, ms, 9, sig(11)), abort(42, 2*ms), rankFault(3, 2, 3*ms, 5, sig(9)), rankFault(4, 2, 3*ms, 1, code(1))}, want: 137, says: "rank 3"},
		{name: "killed by what mpiup passed on", faults: []fault{interrupt, rankFault(2, 2, ms, 1, sig(2)), abort(42, 2*ms)}, want: 42, says: "MPI_Abort"},
		{name: "killed for breaking the protocol", faults: []fault{
			{kind: faultRank, rank: 2, node: 2, host: "w2", at: ms, exit: sig(9), broke: true, text: "x"}, abort(42, 2*ms)}, want: 42, says: "MPI_Abort"},
		{name: "a rank of a spawned job", faults: []fault{
			{kind: faultRank, rank: 6, job: 1, base: 4, node: 2, host: "w2", at: ms, exit: code(3)}}, want: 3, says: "rank 2 of spawned job 1 on w2 exited with code 3"},
		{name: "abort with 0", faults: []fault{abort(0, ms)}, want: 1},
		{name: "abort with 512", faults: []fault{abort(512, ms)}, want: 1},
		{name: "abort with 298", faults: []fault{abort(298, ms)}, want: 42},
		{name: "abort with -1", faults: []fault{abort(-1, ms)}, want: 255},
		{name: "exit 0 without finalize", faults: []fault{{kind: faultRank, rank: 1, host: "w0", unfinalized: true}}, want: 1, says: "without MPI_Finalize"},
		{name: "exit 4 without finalize", faults: []fault{{kind: faultRank, rank: 1, host: "w0", unfinalized: true, exit: code(4)}}, want: 4, says: "exited with code 4"},
		{name: "time limit", faults: []fault{{kind: faultTimeout, rank: -1, at: ms, text: "5s"}, rankFault(1, 0, 2*ms, 1, sig(15))}, want: 110, says: "--timeout 5s"},
		{name: "a rank failed before the time limit", faults: []fault{rankFault(1, 0, ms, 1, code(3)), {kind: faultTimeout, rank: -1, at: 2 * ms}}, want: 3},
		{name: "no abort after the time limit", faults: []fault{{kind: faultTimeout, rank: -1, at: ms}, abort(9, 2*ms)}, want: 110},
		{name: "program not found", faults: []fault{{kind: faultStart, rank: 0, host: "w0", at: ms}}, want: 246, says: "could not be started"},
		{name: "rank not prepared", faults: []fault{{kind: faultStart, init: true, rank: 0, host: "w0", at: ms}}, want: 247},
		{name: "host lost", faults: []fault{{kind: faultLost, rank: -1, host: "w1", ranks: "ranks 8-15", at: ms}}, want: 248, says: "host w1 with ranks 8-15 was lost"},
		{name: "ranks elsewhere die of a host's loss", faults: []fault{
			rankFault(0, 0, 5*ms, 1, code(1)), {kind: faultLost, rank: -1, host: "w1", at: 4 * ms}}, want: 248},
		{name: "a host is lost after a rank failed", faults: []fault{
			rankFault(0, 0, 3*ms, 1, code(1)), {kind: faultLost, rank: -1, host: "w1", at: 4 * ms}}, want: 1},
		{name: "abort of a rank that lost its peer's host", faults: []fault{
			abort(13, 5*ms), {kind: faultLost, rank: -1, node: 2, host: "w2", at: 4 * ms}}, want: 248},
		{name: "preempted", faults: []fault{{kind: faultPreempted, rank: -1, host: "w1", at: ms}, rankFault(8, 1, 2*ms, 1, sig(15))}, want: 249, says: "being taken away"},
		{name: "wire-up", faults: []fault{{kind: faultWireup, rank: 2, host: "w0", at: ms}}, want: 247, says: "could not be wired up"},
		{name: "wire-up weighs less than an exit", faults: []fault{{kind: faultWireup, rank: 2, host: "w0", at: ms}, rankFault(3, 1, 2*ms, 1, code(5))}, want: 5},
		{name: "interrupted, and all ended well", faults: []fault{interrupt}, want: 0},
		{name: "interrupted and stopped", faults: []fault{interrupt}, stopped: true, want: 130, says: "mpiup got SIGINT"},
		{name: "interrupted, ranks died of it", faults: []fault{interrupt, rankFault(0, 0, 2*ms, 1, sig(2))}, want: 130, says: "after mpiup got SIGINT"},
		{name: "stopped ranks are no cause", stopped: true, want: 0},
		{name: "reader gone", faults: []fault{{kind: faultOutput, rank: -1, at: ms}}, want: 141},
		{name: "disk full", faults: []fault{{kind: faultWrite, rank: -1, at: ms}}, want: 251},
		{name: "nonsense", faults: []fault{{kind: faultInternal, rank: -1, at: ms, text: "x"}}, want: 250},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := verdict{stopped: tt.stopped}
			for i, f := range tt.faults {
				f.seq = i
				v.add(f)
			}
			if got := v.exit(); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
			lines := v.explain()
			if (len(lines) == 0) != (tt.want == 0) {
				t.Fatalf("lines %q", lines)
			}
			if tt.want != 0 && !strings.Contains(lines[0], tt.says) {
				t.Errorf("%q does not say %q", lines[0], tt.says)
			}
		})
	}
}

// What MPI lacks on the host of the rank that failed is said in place of what else there is to do.
func TestVerdictSaysWhatMPILacks(t *testing.T) {
	const lack = "/dev/shm has 64 KiB for 2 ranks"
	abort := fault{kind: faultAbort, rank: 1, node: 1, host: "w1", code: 205114895, text: "N/A"}
	for _, tt := range []struct {
		name  string
		fault fault
		want  []string
	}{
		{"a rank", rankFault(1, 1, 0, 0, job.Exit{Signal: 7}), []string{"rank 1 on w1 was killed by signal 7 (SIGBUS)", "w1: " + lack}},
		{"an abort", abort, []string{"rank 1 on w1 called MPI_Abort with code 205114895 (exit code 15)", "w1: " + lack}},
		{"another rank's end", rankFault(2, 1, 0, 0, job.Exit{Code: 3}), []string{"rank 2 on w1 exited with code 3", "the code is the program's own: see what it wrote before"}},
	} {
		var v verdict
		v.lacks(1, lack)
		v.add(tt.fault)
		if got := v.explain(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	zero := fault{kind: faultAbort, rank: 0, host: "w0", code: 256, text: "why"}
	if got := zero.sentence(); got != "rank 0 on w0 called MPI_Abort with code 256 (exit code 1): why" {
		t.Error(got)
	}
}

func TestVerdictIsBounded(t *testing.T) {
	var v verdict
	for i := range 100000 {
		v.add(rankFault(i, 0, time.Duration(i), int64(i), job.Exit{Code: 1}))
	}
	if lines := v.explain(); len(lines) > 8 {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	if len(v.faults) > maxFaults {
		t.Errorf("%d faults kept", len(v.faults))
	}
}

func TestHintsNameTheHost(t *testing.T) {
	for _, f := range []fault{
		{kind: faultRank, host: "w1.job.ns.svc", oom: true, exit: job.Exit{Signal: 9}},
		{kind: faultRank, host: "w1.job.ns.svc", exit: job.Exit{Signal: 9}},
		{kind: faultLost, host: "w1.job.ns.svc"},
		{kind: faultPreempted, host: "w1.job.ns.svc"},
	} {
		if h := f.hint(); !strings.Contains(h, "w1") {
			t.Errorf("%q does not name the host", h)
		}
	}
}

func TestTermination(t *testing.T) {
	text := termination(7, []string{"rank 3 on w1 exited with code 7"}, []string{"boom"})
	if want := "rank 3 on w1 exited with code 7\nexit code 7\nits last lines:\nboom\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	long := termination(1, []string{strings.Repeat("ä", 2000)}, nil)
	if len(long) > maxTermination || !strings.HasPrefix(long, "ää") || strings.ContainsRune(long, '\ufffd') {
		t.Errorf("%d bytes, cut within a character", len(long))
	}
}
