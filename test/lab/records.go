package lab

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// Commit is the one that is tested, with what of the program was changed since; "" outside a clone. Results that are kept name it.
var Commit = sync.OnceValue(func() string {
	root, err := Root()
	if err != nil {
		return ""
	}
	out, err := exec.Command("git", "-C", root, "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return ""
	}
	name := strings.TrimSpace(string(out))
	if changed, err := exec.Command("git", "-C", root, "status", "--porcelain", "--", "*.go", "go.mod").Output(); err != nil || len(changed) > 0 {
		name += " with changes"
	}
	return name
})

// Load is the machine's load over the last minute, and how many processes can run now.
func Load() (minute float64, running int) {
	b, _ := os.ReadFile("/proc/loadavg")
	var five, fifteen float64
	_, _ = fmt.Sscanf(string(b), "%g %g %g %d/", &minute, &five, &fifteen, &running)
	return minute, running
}

// There are the directories of dirs that are there, each once, to be shared with hosts.
func There(dirs ...string) (there []string) {
	for _, d := range dirs {
		if _, err := os.Stat(d); err == nil && !slices.Contains(there, d) {
			there = append(there, d)
		}
	}
	return there
}
