package logs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// What mpiup run says of each event is read back as it was said: kind, rank, host, what happened, what to do.
func TestOwnVerdictsAreReadBack(t *testing.T) {
	rank := func(f verdict.Fault) verdict.Fault {
		f.Host, f.ID, f.Process = "w1", 3, job.Process{Rank: 3}
		return f
	}
	host := func(f verdict.Fault) verdict.Fault { f.Host, f.ID = "w1", -1; return f }
	faults := map[string]verdict.Fault{
		"code":      rank(verdict.Fault{Event: verdict.Ended, Exit: job.Exit{Code: 3}}),
		"127":       rank(verdict.Fault{Event: verdict.Ended, Exit: job.Exit{Code: 127}}),
		"signal":    rank(verdict.Fault{Event: verdict.Ended, Exit: job.Exit{Signal: job.SIGSEGV, Core: true}, Piped: true}),
		"killed":    rank(verdict.Fault{Event: verdict.Ended, Exit: job.Exit{Signal: job.SIGKILL}}),
		"memory":    rank(verdict.Fault{Event: verdict.Ended, Exit: job.Exit{Signal: job.SIGKILL}, OOM: true}),
		"unknown":   rank(verdict.Fault{Event: verdict.Ended, Exit: job.Exit{Signal: job.SIGUSR1}}),
		"finalize":  rank(verdict.Fault{Event: verdict.Ended, Unfinalized: true}),
		"abort":     rank(verdict.Fault{Event: verdict.Aborted, Code: 7, Text: "cannot open input.dat"}),
		"start":     rank(verdict.Fault{Event: verdict.NotStarted, Text: "./train: no such file or directory", Errno: "ENOENT"}),
		"wired":     rank(verdict.Fault{Event: verdict.NotWired, Text: "rank 2 never came"}),
		"lost":      host(verdict.Fault{Event: verdict.HostLost, Ranks: "ranks 2-3", Text: "nothing was heard from it for 30s"}),
		"taken":     host(verdict.Fault{Event: verdict.HostTaken, Ranks: "ranks 2-3"}),
		"fenced":    host(verdict.Fault{Event: verdict.HostTaken, Ranks: "ranks 2-3", By: verdict.ByLauncher}),
		"shutdown":  host(verdict.Fault{Event: verdict.HostTaken, Ranks: "ranks 2-3", By: verdict.ByShutdown, Text: "shut down by pod-7: mpiup shutdown"}),
		"launcher":  host(verdict.Fault{Event: verdict.LauncherTaken}),
		"time":      {Event: verdict.TimedOut, ID: -1, Text: "1h"},
		"interrupt": {Event: verdict.Signalled, ID: -1, Code: 2},
		"internal":  {Event: verdict.Internal, ID: -1, Text: "x"},
		"evicted":   {Event: verdict.Signalled, ID: -1, Code: job.SIGTERM},
		"stall":     {Event: verdict.TimedOut, Limit: verdict.StallLimit, ID: -1, Text: "10m0s"},
		"steps":     {Event: verdict.TimedOut, Limit: verdict.WatchLimit, ID: -1, Text: "no new step in --watch-stall 10m0s: rank 3 wrote step 7 of 9 last"},
		"value":     {Event: verdict.TimedOut, Limit: verdict.RuleLimit, ID: -1, Text: "step 7: --watch-fail 'loss=nan' of rank 3: loss is NaN"},
		"init":      {Event: verdict.TimedOut, Limit: verdict.InitLimit, ID: -1, Text: "5m0s"},
		"reader":    {Event: verdict.ReaderGone, ID: -1},
		"disk":      {Event: verdict.NotWritten, ID: -1, Text: "out/rank.0: no space left on device", Errno: "ENOSPC"},
		"output":    {Event: verdict.NotWritten, ID: -1, Text: "out/rank.0: permission denied"},
		"file":      {Event: verdict.NotCopied, ID: -1, Text: "data.tar: input/output error", Errno: "EIO"},
		"mixed":     {Event: verdict.Mixed, ID: -1, Text: "rank 0 has Open MPI 5.0.3, rank 1 MPICH 4.2.0"},
		"orphaned":  {Event: verdict.Orphaned, ID: -1, Text: "the run's mpiup ended with it"},
		"elsewhere": {Event: verdict.Elsewhere, ID: -1, Code: 3, Text: "node 1 (w1) failed: rank 1 on w1 exited with code 3"},
		"raised":    rank(verdict.Fault{Event: verdict.Raised, Text: "ValueError: x"}),
		"folder":    rank(verdict.Fault{Event: verdict.NotStarted, Text: "/data: no such file or directory", Errno: "ENOENT", Dir: true}),
		"policy":    rank(verdict.Fault{Event: verdict.NotStarted, Text: "./train: operation not permitted", Errno: "EPERM"}),
		"form":      rank(verdict.Fault{Event: verdict.NotStarted, Text: "./train: exec format error", Errno: "ENOEXEC"}),
		"files":     rank(verdict.Fault{Event: verdict.NotStarted, Text: "./train: too many open files", Errno: "EMFILE"}),
		"bus":       rank(verdict.Fault{Event: verdict.Ended, Exit: job.Exit{Signal: job.SIGBUS}}),
		"uncalled":  rank(verdict.Fault{Event: verdict.Ended, Uncalled: true}),
		"stranded":  rank(verdict.Fault{Event: verdict.NotWired, Stranded: job.StrandedByLeaving, Text: "closed its PMIx connection after MPI_Init, without MPI_Finalize"}),
	}
	events := map[verdict.Event]bool{}
	for name, f := range faults {
		events[f.Event] = true
		t.Run(name, func(t *testing.T) {
			var c verdict.Case
			c.Stopped = true
			c.Add(f)
			wrote, ok := c.Verdict(verdict.Circumstances{PID: 4711})
			if !ok {
				t.Fatal("no verdict")
			}
			r := &Reader{}
			r.Line("[3 w1] bye")
			r.Line("mpiup: what happened when: mpiup report /tmp/x.json")
			for _, l := range wrote.End(verdict.LastLines{All: true}) {
				r.Line("mpiup: " + l)
			}
			read, ok := r.Verdict()
			if !ok || read.Kind != wrote.Kind || read.Likely != wrote.Likely || fmt.Sprint(rankOf(read)) != fmt.Sprint(rankOf(wrote)) || read.Confidence == "" {
				t.Errorf("wrote %+v, read %+v", wrote, read)
			}
			if wrote.Rank != nil && (read.Host != wrote.Host || read.PID != wrote.PID) {
				t.Errorf("%s, pid %d are read as %s, %d", wrote.Host, wrote.PID, read.Host, read.PID)
			}
			if !slices.Equal(read.Evidence, wrote.Evidence) {
				t.Errorf("evidence %q is read as %q", wrote.Evidence, read.Evidence)
			}
			for _, l := range read.Advice {
				if !slices.Contains(wrote.Advice, l) {
					t.Errorf("%q is no advice of %q", l, wrote.Advice)
				}
			}
		})
	}
	for e := verdict.Ended; e <= verdict.Elsewhere; e++ {
		if !events[e] {
			t.Errorf("event %v is not tried", e)
		}
	}
}

func rankOf(v verdict.Verdict) int {
	if v.Rank == nil {
		return -1
	}
	return *v.Rank
}

// Every kind is read back from the line that ends a run's verdict, with the sentence above it.
func TestEveryKindIsReadBack(t *testing.T) {
	for _, a := range verdict.Kinds {
		for _, likely := range []string{"", "probably "} {
			r := &Reader{}
			r.Line("[2 w0] step 1")
			r.Line("mpiup: rank 2 on w0 exited with code 1: its own words")
			for _, do := range a.Do {
				r.Line("mpiup: " + do)
			}
			r.Line(fmt.Sprintf("mpiup: %s%s; more: mpiup help %s", likely, a.Kind, a.Kind))
			v, ok := r.Verdict()
			if !ok || v.Kind != a.Kind || v.Likely != (likely != "") || rankOf(v) != 2 || v.Host != "w0" || len(v.Evidence) == 0 ||
				v.Evidence[0] != "rank 2 on w0 exited with code 1: its own words" {
				t.Errorf("%s%s: %+v", likely, a.Kind, v)
			}
		}
	}
}

// A notice that no rank works stands at the end of a log, and is over when a rank speaks again.
func TestNoticeOfAStall(t *testing.T) {
	notice := []string{
		"mpiup: no rank has worked for 18s: no output, I/O, GPU or PMI of ranks 0-3, and 3 of them idle",
		"mpiup: rank 1 on 127.0.0.21 (pid 19196) is the odd one out: it uses CPU while others idle",
		"mpiup: see where each rank is: mpiup stacks; --on-stall abort ends such a run; more: mpiup help hangs",
	}
	r := &Reader{}
	for _, l := range append([]string{"[0 w0] step 1"}, notice...) {
		r.Line(l)
	}
	v, ok := r.Verdict()
	if !ok || v.Kind != verdict.Stalled || !v.Likely || rankOf(v) != 1 || v.Host != "127.0.0.21" || v.PID != 19196 || v.Confidence != verdict.Probable || v.Advice[0] != StillRuns {
		t.Errorf("%v %+v", ok, v)
	}
	for _, over := range []string{"[1 w0] step 2", "mpiup: ranks work again",
		"mpiup: --on-stall abort does not end the run: every rank sleeps for a time that it has chosen, and waits for no other"} {
		r := &Reader{}
		for _, l := range append(slices.Clone(notice), over) {
			r.Line(l)
		}
		if v, ok := r.Verdict(); ok {
			t.Errorf("%s: it goes on, and is %+v", over, v)
		}
	}
}

// A run whose ranks are started again has failed only where they fail again.
func TestRestartsMend(t *testing.T) {
	first := []string{"[1 w0] ValueError: loss is nan", "mpiup: rank 1 on w0 exited with code 1: ValueError: loss is nan; the ranks start again (restart 1 of 2)", "[0 w0] step 1"}
	for name, tt := range map[string]struct {
		then []string
		want string
	}{
		"well":               {nil, "none"},
		"again":              {[]string{"[2 w0] KeyError: 'x'"}, "kind python-exception rank 2 certain"},
		"again, by whomever": {[]string{"Traceback (most recent call last):", `  File "t.py", line 2, in <module>`, "KeyError: 'x'"}, "kind python-exception rank unknown"},
		"by the run's own word": {[]string{"mpiup: rank 3 on w1 was killed by signal 9 (SIGKILL)", "mpiup: the ranks had been started again once (--max-restarts 2)",
			"mpiup: killed; more: mpiup help killed"}, "kind killed rank 3 certain"},
	} {
		r := &Reader{}
		for _, l := range slices.Concat(first, tt.then) {
			r.Line(l)
		}
		if got := said(r); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	const failed = `{"time":"2026-11-27T23:32:58Z","rank":1,"host":"w0","stream":"stderr","text":"ValueError: x"}`
	const again = `{"time":"2026-11-27T23:32:59Z","event":"restart","restart":1,"verdict":{"kind":"exit-code","rank":1,"host":"w0","evidence":["rank 1 on w0 exited with code 4"]}}`
	for _, tt := range []struct{ before, want string }{{failed, "none"}, {"hello", "kind exit-code rank 1"}} { // which a rank may have written, too
		r := &Reader{}
		for _, l := range []string{tt.before, again, strings.Replace(failed, "ValueError: x", "fine", 1)} {
			r.Line(l)
		}
		if got := said(r); !strings.HasPrefix(got, tt.want) {
			t.Errorf("behind %s: %s, want %s", tt.before, got, tt.want)
		}
	}
}

// Who lost another rank has a traceback, too, and is not suspected beside one that tells of a reason of its own.
func TestWhoLostAPeerIsNoSuspect(t *testing.T) {
	r := &Reader{}
	for _, l := range []string{"[rank2]: Traceback (most recent call last):", `[rank2]:   File "train.py", line 10, in <module>`,
		"[rank2]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "[rank0]: Traceback (most recent call last):", `[rank0]:   File "train.py", line 30, in <module>`,
		"[rank0]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error",
		"[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."} {
		r.Line(l)
	}
	if got := said(r); got != "kind gpu-out-of-memory rank 2 certain, reported by 0" {
		t.Error(got)
	}
}

// Each tag that mpiup run writes names its rank, and its host and stream where it has them.
func TestOwnTags(t *testing.T) {
	for _, host := range []string{"", "w0", "10.0.0.1", "3d-train-0", "w-0.job.ns.svc", "fd00::12"} {
		for _, stream := range []string{"", "stdout", "stderr"} {
			for _, rank := range []string{"7", "2.7"} { // of a spawned job
				tag := strings.Join(slices.DeleteFunc([]string{rank, host, stream}, func(s string) bool { return s == "" }), " ")
				for _, text := range []string{"ValueError: x", ""} {
					var s scanner
					l := s.parse("[" + tag + "] " + text)
					if l.text == "" && l.bracket == 8 {
						l.who.rank = 7
					}
					if l.who.rank != 7 || l.who.host != host || l.stream != stream || l.text != text {
						t.Errorf("[%s] %q is %+v", tag, text, l)
					}
				}
			}
		}
	}
}

// The times of --timestamp stand before them, and the tags of a job that was started as mpirun starts it name rank and stream, too.
func TestOwnTagsBehindTimes(t *testing.T) {
	for _, head := range []string{
		"2026-11-26T13:00:00.123456Z [7 w0 stderr] ", "2026-11-26T13:00:00.123456Z [2.7 10.0.0.1] ", "2026-11-26T13:00:00.123456Z [7] ",
		"[1,7]<stderr>:", "[1,7]<stderr>: ", "[1,7]<stdout>:", "Thu Nov 26 13:00:00 2026[1,7]<stderr>:", "Thu Nov  5 13:00:00 2026[1,7]<stderr>:", "[Thu Nov 26 13:00:00 2026][1,7]<stderr>: ",
	} {
		var s scanner
		l := s.parse(head + "ValueError: x")
		if l.text == "ValueError: x" && l.bracket == 8 {
			l.who.rank = 7
		}
		if l.who.rank != 7 || l.text != "ValueError: x" || strings.HasPrefix(head, "2026") == l.time.IsZero() {
			t.Errorf("%q is %+v", head, l)
		}
	}
}

// What the program itself said before it ended the job is quoted, of the rank that did, with a tag or without.
func TestTheProgramsOwnReasonIsQuoted(t *testing.T) {
	for _, tag := range []string{"", "[0] "} {
		r := &Reader{}
		for _, l := range []string{tag + "nwchem: failed to open the input file", "--------", "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD", "with errorcode -1."} {
			r.Line(l)
		}
		v, _ := r.Verdict()
		if v.Kind != verdict.Abort || rankOf(v) != 0 || len(v.Evidence) != 2 || v.Evidence[1] != "nwchem: failed to open the input file" {
			t.Errorf("%q: %+v", tag, v)
		}
	}
}

// Hydra ends by signal 9 those that a rank left behind, and tells of one of them: beside words of the program it is only probable that it was killed.
func TestHydrasOwnKill(t *testing.T) {
	block := []string{"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "=   PID 31073 RUNNING AT w0", "=   EXIT CODE: 9",
		"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"}
	for _, tt := range []struct {
		first string
		want  []string
	}{{"ERROR: input file grid.nc is missing", []string{"=   EXIT CODE: 9", "ERROR: input file grid.nc is missing"}}, {"step 1", []string{"=   EXIT CODE: 9"}}} {
		r := &Reader{}
		for _, l := range append([]string{tt.first}, block...) {
			r.Line(l)
		}
		if v, _ := r.Verdict(); v.Kind != verdict.Killed || v.Likely != (len(tt.want) > 1) || !slices.Equal(v.Evidence, tt.want) {
			t.Errorf("%s: %+v", tt.first, v)
		}
	}
}

// A verdict names the host where the log has it, says why it names a rank of which the quoted line is not, and what to do where the log is from.
func TestHostWhyAndWhatToDo(t *testing.T) {
	for name, tt := range map[string]struct {
		log             []string
		rank            int // -1: none
		host, why, does string
	}{
		"mpirun": {[]string{"mpirun noticed that process rank 2 with PID 7 on node w3 exited on signal 9 (Killed)."}, 2, "w3", "", "dmesg"},
		"srun":   {[]string{"srun: error: nid007: task 3: Out Of Memory"}, 3, "nid007", "", "sbatch --mem"},
		"torchrun": {[]string{"train.py FAILED", "Root Cause (first observed failure):", "[0]:", "  host      : gpu-4", "  rank      : 9 (local_rank: 1)", "  exitcode  : -9 (pid: 77)"},
			9, "gpu-4", "", ""},
		"Hydra":      {[]string{"=   RANK 2 PID 30362 RUNNING AT node2", "=   KILLED BY SIGNAL: 11 (Segmentation fault)"}, 2, "node2", "", ""},
		"PALS":       {[]string{"x1000c0: rank 5 died from signal 11"}, 5, "x1000c0", "", ""},
		"MVAPICH":    {[]string{"[w7:mpi_rank_4][error_sighandler] Caught error: Segmentation fault (signal 11)"}, 4, "w7", "", ""},
		"Kubernetes": {[]string{"[pod/job-worker-1/c] terminated: OOMKilled, exit code 137"}, -1, "job-worker-1", "", "resources.limits"},
		"awaited":    {[]string{"[rank3]: RuntimeError: [Rank 3]: Ranks 2 failed to pass monitoredBarrier in 30000 ms"}, 2, "", "others say that they wait for rank 2", "py-spy"},
	} {
		r := &Reader{}
		for _, l := range tt.log {
			r.Line(l)
		}
		v, ok := r.Verdict()
		if !ok || rankOf(v) != tt.rank || v.Host != tt.host || !strings.Contains(v.Why, tt.why) || tt.why == "" && v.Rank != nil && v.Why != "" || !strings.Contains(strings.Join(v.Advice, " "), tt.does) {
			t.Errorf("%s: %+v", name, v)
		}
		if tt.does != "resources.limits" && strings.Contains(strings.Join(v.Advice, " "), "kubectl") {
			t.Errorf("%s: no log of Kubernetes, and it says %q", name, v.Advice)
		}
	}
}
