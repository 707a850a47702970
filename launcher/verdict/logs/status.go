package logs

import (
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// How a process ended, in whatever words: its code, or the signal that ended it. A shell's code of a signal is 128 more than it (POSIX, 2.8.2),
// Python's is negative, and Hydra's is the signal.

const someones = -15 // a signal of which a shell says that somebody sent it, as scripts do that tidy up
// bySignals is what a signal tells. Others were sent by somebody.
var bySignals = map[int]finding{
	2: {kind: verdict.Interrupted, weight: verdict.Ending},
	4: {kind: verdict.Crash, weight: verdict.Cause}, 8: {kind: verdict.Crash, weight: verdict.Cause},
	5: {kind: verdict.Crash, weight: verdict.Ending}, 6: {kind: verdict.Crash, weight: verdict.Ending},
	7:  {kind: verdict.SharedMemory, weight: verdict.Cause, likely: true},
	9:  {kind: verdict.Killed, weight: verdict.Cause, likely: true},
	11: {kind: verdict.Segfault, weight: verdict.Cause}, someones: {kind: verdict.Killed, weight: verdict.Echo, weak: true},
}

// lastWords are a shell's and AMReX's, alone on their line.
var lastWords = map[string]int{"Killed": 9, "Aborted": 6, "Bus error": 7, "Aborted!": 6, "Killed: 9": 9, "Segfault": 11, "Erroneous arithmetic operation": 8,
	"Terminated": someones, "Terminated: 15": someones, "Hangup": someones, "Bus error: 10": 6, "Abort trap: 6": 6}

// status is what a line says of a process's end; false: nothing, or that it ended well.
func status(text string) (f finding, ok bool) {
	code, signal := 0, 0
	switch m := exitCode().Find(text); {
	case strings.HasPrefix(text, "Exit_status=-"), strings.HasPrefix(text, "debug"), // PBS's own, of a job that it ended; ssh's, of a host
		strings.Contains(text, "--abort-signal"): // an option
		return f, false
	case m != nil && strings.Contains(strings.Join(m[1:], ""), "-"):
		signal = number(strings.Join(m[1:], "")[1:])
	case m != nil:
		code = number(strings.Join(m[1:], ""))
		if h := hydraCode().FindStringSubmatch(text); h != nil && bySignals[code].kind != "" && code > 2 && code != 5 { // rather a program's 5 than SIGTRAP's
			signal = code
		} else if code > 128 && code < 160 {
			signal = code - 128
		}
	default:
		if m := bySignal().Find(text); m != nil {
			name := strings.ToUpper(strings.Join(m[1:], ""))
			signal = number(name)
			for n := range bySignals {
				if job.SignalName(n) == name {
					signal = n
				}
			}
		}
	}
	switch f, ok = bySignals[signal]; {
	case ok:
	case signal > 0 && signal < 32:
		f = finding{kind: verdict.Killed, weight: verdict.Ending}
	case code != 0:
		f = finding{kind: verdict.ExitCode, weight: verdict.Ending}
	default:
		return f, false
	}
	f.who.rank = -1
	return f, true
}
