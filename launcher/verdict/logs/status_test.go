package logs

import (
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
