package reap

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// roles are programs that tests start.
var roles = map[string]func(args []string) int{
	"signals": showSignals,
	"fds":     showDescriptors,
}

func init() {
	// How this process was started, before Run's counterpart in it changes anything.
	signal.Reset()
}

// showSignals prints blocked and ignored signals as the kernel has them. The Go runtime of this
// program unblocks nothing at its start.
func showSignals([]string) int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 1
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "SigBlk") || strings.HasPrefix(line, "SigIgn") {
			fmt.Print(line)
		}
	}
	return 0
}

func showDescriptors([]string) int {
	for fd := range 1024 {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) == nil {
			fmt.Print(fd, " ")
		}
	}
	return 0
}
