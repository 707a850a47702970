package reap

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// slotBytes is the size of one record. Writes of a whole record within a page of a memfd are
// seen whole by a later reader.
const slotBytes = 128

// ledger is what a guard has to know when the agent is gone: a memfd of fixed records, written
// in place by the agent and read by the guard only then, so it costs a pwrite per process and
// wakes nobody.
//
//	"session 5c1f…\n" NUL…     a session that may have processes
//	"dirs /tmp/mpiup-0\n" NUL…  Config.SessionDirs
//	"leader 4711 998877 5c1f…\n" NUL…  pid, starttime, session ("-": none)
//	NUL…                       a free slot
//
// A nil ledger, where there is no guard, records nothing.
type ledger struct {
	file *os.File

	mu   sync.Mutex
	used int   // guarded by mu: slots ever used
	free []int // guarded by mu
}

// record is one slot: a session, or, with a pid, the leader of a process session, or where sessions
// have directories.
type record struct {
	dirs    string
	session string
	pid     int
	start   uint64
}

func newLedger() (*ledger, error) {
	fd, err := unix.MemfdCreate("mpiup-ledger", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return &ledger{file: os.NewFile(uintptr(fd), "ledger")}, nil
}

func (r record) encode() []byte {
	b := make([]byte, slotBytes)
	if r.dirs != "" { // one that is too long has no line end, and is skipped
		copy(b, "dirs "+r.dirs+"\n")
		return b
	}
	if r.pid == 0 {
		copy(b, "session "+r.session+"\n")
		return b
	}
	session := r.session
	if session == "" {
		session = "-"
	}
	copy(b, fmt.Sprintf("leader %d %d %s\n", r.pid, r.start, session))
	return b
}

// add writes a record and returns its slot; -1 without a ledger or when it cannot be written.
func (l *ledger) add(r record) int {
	if l == nil {
		return -1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slot := l.used
	if n := len(l.free); n > 0 {
		slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		l.used++
	}
	if _, err := l.file.WriteAt(r.encode(), int64(slot)*slotBytes); err != nil {
		l.free = append(l.free, slot)
		return -1
	}
	return slot
}

func (l *ledger) remove(slot int) {
	if l == nil || slot < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.WriteAt(make([]byte, slotBytes), int64(slot)*slotBytes); err == nil {
		l.free = append(l.free, slot)
	}
}

func (l *ledger) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}

// readLedger reads what is whole among records; the rest is skipped, as an agent may have died
// while it wrote.
func readLedger(b []byte) []record {
	var out []record
	for len(b) >= slotBytes {
		slot := b[:slotBytes]
		b = b[slotBytes:]
		line, _, whole := bytes.Cut(slot, []byte{'\n'})
		if !whole {
			continue
		}
		if dirs, ok := bytes.CutPrefix(line, []byte("dirs ")); ok {
			out = append(out, record{dirs: string(dirs)})
		} else if r, ok := parseRecord(bytes.Fields(line)); ok {
			out = append(out, r)
		}
	}
	return out
}

func parseRecord(f [][]byte) (record, bool) {
	switch {
	case len(f) == 2 && string(f[0]) == "session":
		return record{session: string(f[1])}, true
	case len(f) == 4 && string(f[0]) == "leader":
		pid, err1 := strconv.Atoi(string(f[1]))
		start, err2 := strconv.ParseUint(string(f[2]), 10, 64)
		if err1 != nil || err2 != nil || pid < 2 {
			return record{}, false
		}
		r := record{session: string(f[3]), pid: pid, start: start}
		if r.session == "-" {
			r.session = ""
		}
		return r, true
	}
	return record{}, false
}
