package logs

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// However a line spells it, a code and a signal tell the same.
func TestStatus(t *testing.T) {
	for text, want := range map[string]verdict.Kind{
		"process exited with code 1": verdict.ExitCode, "train.py exits with return code = -7": verdict.SharedMemory, "returned non-zero exit status 139.": verdict.Segfault,
		"exit_code=134": verdict.Crash, "ExitCode: 137": verdict.Killed, `{"exitCode": 143}`: verdict.Killed, "Rank 2 crashed with exit code -6": verdict.Crash,
		"=   EXIT CODE: 9": verdict.Killed, "=   EXIT CODE: 1": verdict.ExitCode, "exitcode  : 6 (pid: 7)": verdict.ExitCode, "failed; status=255": verdict.ExitCode,
		"child killed by signal 9": verdict.Killed, "terminated with signal: 11": verdict.Segfault, "exited on signal 15": verdict.Killed, "exited on signal 2": verdict.Interrupted,
		"process exited with code 0": "", "exit code: 0": "", "forwarding signal 12 to job": "", "Exit_status=-11": "", "code 7 of the exit survey": "", "killed by signal 99": "",
		"exit code 1390": "", "exited after 137 s": "", "Signal 11 received by node 5, process 7 (thread 2a)": verdict.Segfault, "Signal 6 received by process 7": verdict.Crash,
		"process 0 terminated with signal SIGBUS": verdict.SharedMemory, "worker exited: SIGSEGV": verdict.Segfault, "was signaled to shutdown with signal 4": verdict.Crash,
		"process finished with rc: 137": verdict.Killed, "exited (code=-9)": verdict.Killed, "process 12 got signal 11": verdict.Segfault, "rc=1": "",
		"failed with status 404": "", "CL error code -5": "", "killed (SIGUSR1 came before)": "", "STEP 7 KILLED WITH NO SIGNAL": "",
	} {
		f, ok := status(text)
		if f.kind != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", text, f.kind, want)
		}
	}
	for text, want := range map[string]verdict.Kind{
		"Killed": verdict.Killed, "Aborted": verdict.Crash, "F0101 12:00:00.1 7 x.cc:3] no way on": verdict.Crash, "Error: no such namelist": verdict.ExitCode,
		"torch._dynamo.exc.Unsupported: call of a bound method": verdict.Python,
	} {
		var r Reader
		r.Line(text)
		if v, _ := r.Verdict(); v.Kind != want {
			t.Errorf("%q is %q, want %q", text, v.Kind, want)
		}
	}
}

// Where no sign knows a program's last words, general words tell of what kind they probably are; a line in the middle of a log is none of them.
func TestLastWords(t *testing.T) {
	for text, want := range map[string]verdict.Kind{
		"RuntimeError: link to 10.0.0.7 is gone: no route to host": verdict.Network, "ValueError: need 2 GPUs, have 1": verdict.Python,
		"RuntimeError: xccl communicator failed": verdict.NCCL, "KeyError: 'bad alloc'": verdict.Python,
		"OSError: the leader of the mesh timed out": verdict.Rendezvous, "  what():  halo pair 7 was reset by peer": verdict.PeerLost,
		"F0101 12:00:00.1 7 x.cc:3] Check failed: rcclGather(x) is 2": verdict.NCCL, "solver stopped: can't allocate, bad alloc": verdict.OutOfMemory,
		"ERROR: too many open files in the pool": verdict.Limits, "the reader could not go on: stale NFS handle": verdict.StuckIO,
		"all 7 checks of the GPU": "", "INFO: retried after a connection was refused": "", "the demo failed to impress": "",
	} {
		for after, want := range map[string]verdict.Kind{"": want, "a\nb\nc\nd": ""} {
			var r Reader
			for l := range strings.SplitSeq(text+"\n"+after, "\n") {
				r.Line(l)
			}
			if v, _ := r.Verdict(); v.Kind != want && (after == "" || strings.HasPrefix(text, "the reader")) {
				t.Errorf("%q before %q is %q, want %q", text, after, v.Kind, want)
			}
		}
	}
	var r Reader
	for _, l := range []string{"the mesh's leader timed out", "process 3 exited with code 1"} {
		r.Line(l)
	}
	if v, _ := r.Verdict(); v.Kind != verdict.Rendezvous || !v.Likely {
		t.Errorf("the line before an exit code tells %q, want the reason", v.Kind)
	}
}
