package job

import (
	"fmt"
	"strconv"
	"strings"
)

// Signals that a launcher passes on, or that the end of a process is told by: signal(7), with the numbers of x86-64 and arm64.
const (
	SIGHUP   = 1
	SIGINT   = 2
	SIGQUIT  = 3
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
	SIGALRM  = 14
	SIGTERM  = 15
	SIGCONT  = 18
	SIGSTOP  = 19
	SIGTSTP  = 20
	SIGXCPU  = 24
	SIGXFSZ  = 25
	SIGWINCH = 28
	SIGSYS   = 31
)

// signalNames are those of signal(7); real-time signals have no name here.
var signalNames = map[int]string{
	SIGHUP: "HUP", SIGINT: "INT", SIGQUIT: "QUIT", SIGILL: "ILL", SIGTRAP: "TRAP", SIGABRT: "ABRT", SIGBUS: "BUS", SIGFPE: "FPE", SIGKILL: "KILL",
	SIGUSR1: "USR1", SIGSEGV: "SEGV", SIGUSR2: "USR2", SIGPIPE: "PIPE", SIGALRM: "ALRM", SIGTERM: "TERM", SIGCONT: "CONT", SIGSTOP: "STOP",
	SIGTSTP: "TSTP", SIGXCPU: "XCPU", SIGXFSZ: "XFSZ", 26: "VTALRM", 27: "PROF", SIGSYS: "SYS",
}

// SignalName is a signal's name as kill -l has it, after SIG.
func SignalName(n int) string {
	if name, ok := signalNames[n]; ok {
		return "SIG" + name
	}
	return fmt.Sprintf("signal %d", n)
}

// ParseEndSignal reads a signal by which a program can be asked to end: USR1, SIGUSR1 or 10.
func ParseEndSignal(text string) (int, error) {
	number, err := strconv.Atoi(text)
	if err != nil {
		number = 0
		for n, name := range signalNames {
			if strings.TrimPrefix(strings.ToUpper(text), "SIG") == name {
				number = n
			}
		}
	}
	switch number {
	case SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGXCPU:
		return number, nil
	}
	return 0, fmt.Errorf("%.20q is no signal that asks a program to end; use TERM, INT, HUP, QUIT, USR1, USR2, ALRM or XCPU", text)
}

// EndsWaiting says that a signal to a launcher ends what it waits for while no rank runs: hosts, the pause before a restart, a last scrape.
func EndsWaiting(signal int) bool {
	switch signal {
	case SIGINT, SIGTERM, SIGHUP, SIGQUIT:
		return true
	}
	return false
}

// Interrupts says that a signal is what a user types to end a program: Ctrl-C, or Ctrl-\ where that does not help.
func Interrupts(signal int) bool { return signal == SIGINT || signal == SIGQUIT }

// Preempt is what a run tells its ranks of what lies around it: the end of their hosts, beginnings before, the trace that it is in.
type Preempt struct {
	Signal        int    // that comes when a pod of the run is taken away; 0: SIGTERM
	Restarts      int    // how often the platform began the job before
	CheckpointDir string // where ranks save; "": nowhere
	Trace         Trace  // the run's own place; zero: it is in none
}

// OwnSignal is what to do about a signal that the kernel or the program itself is likelier to have sent than somebody else; "": it is no such one.
func OwnSignal(number int) string {
	switch number {
	case SIGXFSZ:
		return "raise ulimit -f where ranks start: it wrote a larger file than that allows"
	case SIGXCPU:
		return "raise ulimit -t where ranks start: it probably used more CPU time than that allows"
	case SIGPIPE:
		return "see who closed the pipe or socket to which it wrote"
	case SIGALRM:
		return "see whether it set itself a timer: alarm(2) ends a program that has no handler"
	}
	return ""
}
