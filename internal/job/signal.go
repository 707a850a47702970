package job

import "fmt"

// Signals that a launcher passes on, or that the end of a process is told by: signal(7), with the numbers of x86-64 and arm64.
const (
	SIGHUP   = 1
	SIGINT   = 2
	SIGILL   = 4
	SIGTRAP  = 5
	SIGABRT  = 6
	SIGBUS   = 7
	SIGFPE   = 8
	SIGKILL  = 9
	SIGUSR1  = 10
	SIGSEGV  = 11
	SIGUSR2  = 12
	SIGPIPE  = 13
	SIGTERM  = 15
	SIGCONT  = 18
	SIGSTOP  = 19
	SIGTSTP  = 20
	SIGWINCH = 28
	SIGSYS   = 31
)

// signalNames are those of signal(7); real-time signals have no name here.
var signalNames = map[int]string{
	1: "HUP", 2: "INT", 3: "QUIT", SIGILL: "ILL", SIGTRAP: "TRAP", SIGABRT: "ABRT", SIGBUS: "BUS", SIGFPE: "FPE", SIGKILL: "KILL",
	10: "USR1", SIGSEGV: "SEGV", 12: "USR2", SIGPIPE: "PIPE", 14: "ALRM", SIGTERM: "TERM", 18: "CONT", 19: "STOP", 20: "TSTP",
	24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", SIGSYS: "SYS",
}

// SignalName is a signal's name as kill -l has it, after SIG.
func SignalName(n int) string {
	if name, ok := signalNames[n]; ok {
		return "SIG" + name
	}
	return fmt.Sprintf("signal %d", n)
}
