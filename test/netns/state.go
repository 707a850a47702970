package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// prefix begins the names of all that outlives a crash: state directories and cgroups. The
// owner's pid and start time follow: mpiup-netns-PID-START-RANDOM.
const prefix = "mpiup-netns-"

// state is a cluster's directory in the test process's own /tmp.
type state struct {
	dir  string
	name string // last element of dir, unique on the machine
}

func newState() (*state, error) {
	sweep()
	start, err := startTime(os.Getpid())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-%s-", prefix, os.Getpid(), start))
	if err != nil {
		return nil, err
	}
	// Hosts' files are bind mounts from here, and other users read them.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	return &state{dir: dir, name: filepath.Base(dir)}, nil
}

func (s *state) remove() error {
	return errors.Join(removeCgroups(s.name), removeLimits(s.name), os.RemoveAll(s.dir))
}

// sweep removes what crashed owners left. It removes only names that hold the pid and start time of a process that is
// gone. It tells of no error: the next sweep tries again.
func sweep() {
	var names []string
	for _, dir := range append(append(cgroupRoots(), limitRoots()...), os.TempDir()) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name, _, _ := strings.Cut(e.Name(), ".") // a cgroup ends in .INDEX
			if ownerGone(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, n := range names {
		_ = (&state{dir: filepath.Join(os.TempDir(), n), name: n}).remove()
	}
}

// ownerGone says whether name is one of ours and its owner does not run any more.
func ownerGone(name string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "-")
	if len(parts) != 3 {
		return false
	}
	pid, err := strconv.Atoi(parts[0])
	if err != nil || pid <= 0 {
		return false
	}
	start, err := startTime(pid)
	return errors.Is(err, os.ErrNotExist) || err == nil && start != parts[1]
}

// startTime is field 22 of /proc/PID/stat, in clock ticks since boot: with the pid it names
// one process.
func startTime(pid int) (string, error) {
	f, err := statFields(pid)
	if err != nil {
		return "", err
	}
	return f[19], nil
}

// statFields are the fields of /proc/PID/stat from the third, the state, to the 22nd at least.
// The second may hold spaces and parentheses, so they count from its end.
func statFields(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	return f, nil
}
