package proctree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"path/filepath"
	"strconv"
)

// Mark is the number that all processes of a session carry as their soft limit of file locks. The kernel has not used that limit since
// 2.4.25 (setrlimit(2), RLIMIT_LOCKS), hands it to each child, keeps it through every exec and shows it to everybody. So a process that
// cleared its environment, left its process session and lost its parents is known by it; one that means to hide can change it. It is
// made of the session's name, so that a guard needs no more than that, and has 62 bits: never a limit that somebody set, nor none.
func Mark(session string) uint64 {
	sum := sha256.Sum256([]byte(session))
	return 1<<61 | binary.LittleEndian.Uint64(sum[:])>>3
}

// Mark is the soft limit of file locks of a process; 0: it is gone, or has none.
func (p Proc) Mark(pid int) uint64 {
	b, err := ReadSome(filepath.Join(p.Root, strconv.Itoa(pid), "limits"), 4096)
	if err != nil {
		return 0
	}
	return markOf(b)
}

// markOf reads the soft limit in a line of /proc/PID/limits: "Max file locks   unlimited   unlimited   locks".
func markOf(limits []byte) uint64 {
	_, rest, _ := bytes.Cut(limits, []byte("Max file locks "))
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	f := bytes.Fields(line)
	if len(f) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(f[0]), 10, 62)
	if err != nil { // "unlimited"
		return 0
	}
	return n
}
