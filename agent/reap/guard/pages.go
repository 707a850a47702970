package guard

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
)

// DropProgramPages unmaps what the start of the program has touched of its file, which is most
// of a guard's resident set, and of an idle agent's; what it needs again comes back by a page fault.
func DropProgramPages() {
	smaps, err := proctree.ReadSome("/proc/self/smaps", 1<<20)
	if err != nil {
		return
	}
	for _, m := range droppable(string(smaps)) {
		_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, m[0], m[1], unix.MADV_DONTNEED)
	}
}

// droppable reads /proc/PID/smaps and returns start and size of the mappings that equal their
// file. One that is read-only now but has pages of its own was written by the dynamic loader
// (RELRO), and they would not come back.
func droppable(smaps string) (out [][2]uintptr) {
	var start, size uintptr
	candidate := false
	for line := range strings.Lines(smaps) {
		if a, n, ok := programText(line); ok {
			start, size, candidate = a, n, true
			continue
		}
		f := strings.Fields(line)
		switch {
		case len(f) > 0 && !strings.HasSuffix(f[0], ":"):
			candidate = false // another mapping
		case candidate && len(f) == 3 && f[0] == "Anonymous:" && f[1] == "0":
			out = append(out, [2]uintptr{start, size})
		}
	}
	return out
}

// programText reads the first line of a mapping and says whether it maps a file read-only, so that
// its pages can be had again: "start-end perms offset dev inode path".
func programText(line string) (start, size uintptr, ok bool) {
	f := strings.Fields(line)
	if len(f) < 6 || f[4] == "0" || !strings.HasPrefix(f[5], "/") || len(f[1]) != 4 || f[1][1] != '-' || f[1][3] != 'p' {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	a, err1 := strconv.ParseUint(from, 16, 64)
	b, err2 := strconv.ParseUint(to, 16, 64)
	if err1 != nil || err2 != nil || b <= a {
		return 0, 0, false
	}
	return uintptr(a), uintptr(b - a), true
}
