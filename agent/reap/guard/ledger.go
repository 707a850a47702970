package guard

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// slotBytes is the size of one record. Writes of a whole record within a page of a memfd are
// seen whole by a later reader.
const slotBytes = 128

// Ledger is what a guard has to know when the agent is gone: a memfd of fixed records. The agent writes them in
// place, and the guard reads them only then. So the ledger costs a pwrite per process and wakes nobody.
//
//	"session 5c1f…\n" NUL…     a session that may have processes
//	"dirs /tmp/mpiup-0\n" NUL…  the directory of sessions' own
//	"leader 4711 998877 5c1f…\n" NUL…  pid, starttime, session ("-": none)
//	NUL…                       a free slot
//
// A nil Ledger, where there is no guard, records nothing.
type Ledger struct {
	File *os.File

	mu   sync.Mutex
	used int   // guarded by mu: slots ever used
	free []int // guarded by mu
}

// Record is one slot: a session, or, with a pid, the leader of a process session, or where sessions
// have directories.
type Record struct {
	Dirs    string
	Session string
	PID     int
	Start   uint64
}

// NewLedger has to be closed.
func NewLedger() (*Ledger, error) {
	fd, err := unix.MemfdCreate("mpiup-ledger", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return &Ledger{File: os.NewFile(uintptr(fd), "ledger")}, nil
}

func (r Record) encode() []byte {
	b := make([]byte, slotBytes)
	if r.Dirs != "" { // one that is too long has no line end, and is skipped
		copy(b, "dirs "+r.Dirs+"\n")
		return b
	}
	if r.PID == 0 {
		copy(b, "session "+r.Session+"\n")
		return b
	}
	copy(b, fmt.Sprintf("leader %d %d %s\n", r.PID, r.Start, cmp.Or(r.Session, "-")))
	return b
}

// Add writes a record and returns its slot; -1 without a ledger or when it cannot be written.
func (l *Ledger) Add(r Record) int {
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
	if _, err := l.File.WriteAt(r.encode(), int64(slot)*slotBytes); err != nil {
		l.free = append(l.free, slot)
		return -1
	}
	return slot
}

// Remove frees a slot.
func (l *Ledger) Remove(slot int) {
	if l == nil || slot < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.File.WriteAt(make([]byte, slotBytes), int64(slot)*slotBytes); err == nil {
		l.free = append(l.free, slot)
	}
}

func (l *Ledger) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.File.Close()
}

// read reads what is whole among records; the rest is skipped, as an agent may have died
// while it wrote.
func read(b []byte) []Record {
	var out []Record
	for len(b) >= slotBytes {
		slot := b[:slotBytes]
		b = b[slotBytes:]
		line, _, whole := bytes.Cut(slot, []byte{'\n'})
		if !whole {
			continue
		}
		if dirs, ok := bytes.CutPrefix(line, []byte("dirs ")); ok {
			out = append(out, Record{Dirs: string(dirs)})
		} else if r, ok := parseRecord(bytes.Fields(line)); ok {
			out = append(out, r)
		}
	}
	return out
}

func parseRecord(f [][]byte) (Record, bool) {
	switch {
	case len(f) == 2 && string(f[0]) == "session":
		return Record{Session: string(f[1])}, true
	case len(f) == 4 && string(f[0]) == "leader":
		pid, err1 := strconv.Atoi(string(f[1]))
		start, err2 := strconv.ParseUint(string(f[2]), 10, 64)
		if err1 != nil || err2 != nil || pid < 2 {
			return Record{}, false
		}
		r := Record{Session: string(f[3]), PID: pid, Start: start}
		if r.Session == "-" {
			r.Session = ""
		}
		return r, true
	}
	return Record{}, false
}
