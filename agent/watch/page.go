package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
)

// What preload/page.h calls by the same names.
const (
	pageBytes = binsAt + 2*bins
	magic     = 0x6d707777
	version   = 5
	levels    = 4
	perLevel  = 48
	shift     = 5
	header    = 512
	onePoint  = 40
	binsAt    = header + levels*perLevel*onePoint
	bins      = 2048
	bin       = 20 * time.Millisecond
	flagTicks = 1

	sealedAt         = 152
	stateInitialized = 1
	stateFinalized   = 2
	stateUnknown     = 3
	sawFullTable     = 1
)

// calls are those in which a rank may wait, by their numbers in its page.
var calls = [...]string{"", "MPI_Barrier", "MPI_Allreduce", "MPI_Allgather", "MPI_Allgatherv", "MPI_Alltoall", "MPI_Alltoallv", "MPI_Alltoallw",
	"MPI_Reduce_scatter", "MPI_Reduce_scatter_block", "MPI_Bcast", "MPI_Reduce", "MPI_Gather", "MPI_Gatherv", "MPI_Scatter", "MPI_Scatterv",
	"MPI_Scan", "MPI_Exscan", "MPI_Send", "MPI_Ssend", "MPI_Recv", "MPI_Sendrecv", "MPI_Sendrecv_replace", "MPI_Probe", "MPI_Mprobe", "MPI_Wait",
	"MPI_Waitall", "MPI_Waitany", "MPI_Waitsome", "MPI_Finalize"}

// Variable names the file of a rank's page in its environment.
const Variable = "MPIUP_WATCH_PAGE"

// A Sample is what a page says at one time. Called is 0 in the Passes-th of the calls that are not measured.
type Sample struct {
	job.Waits
	Passes     uint64
	Rank, Size int    // in MPI_COMM_WORLD
	Owner      int    // the process that writes the page, as that counts; 0: none does
	Newest     uint64 // number of the last bin in which NCCL was called
	Bins       []byte // each with two bytes; the copies' own
}

// Copies are of one page, taken one after the other.
type Copies [2][pageBytes]byte

// A Page is the agent's end of one rank's page. Its file is where the rank's process says which of its descriptors has the page itself, in memory that no
// other process can map for writing:
//
//	agent: Create ──file──▶ rank: memfd, mapped, sealed ──file: pid, descriptor──▶ agent: Claim, by /proc/PID/fd ──▶ Read
//
// Whoever may write to the file may keep a rank from being watched, and no more: what Claim takes is of a process of the rank.
type Page struct {
	file     *os.File
	since    time.Duration // CLOCK_MONOTONIC at its making: nothing in it is older
	sealed   *os.File      // nil: none yet
	sealable bool          // the kernel has such a seal, and the file is no page
}

// seals are those that a page has: who has not mapped it before writes to it no more.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

// trySeals seals memory of its own: an error says that the kernel has no such seals, as Linux has since 5.1.
func trySeals() error {
	fd, err := unix.MemfdCreate("mpiup-watch", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("F_SEAL_FUTURE_WRITE: %w", err)
	}
	return nil
}

// claimed is who has the page, and its descriptor of it, as the file says; 0: nobody yet.
func (p *Page) claimed() (owner, fd int) {
	var head [sealedAt + 4]byte
	if n, err := p.file.ReadAt(head[:], 0); n != len(head) || err != nil {
		return 0, 0
	}
	owner, fd = int(binary.NativeEndian.Uint32(head[12:])), int(binary.NativeEndian.Uint32(head[sealedAt:]))
	if fd == 0 {
		return 0, 0
	}
	return owner, fd - 1
}

// Wants says that a process has the page which was not claimed yet.
func (p *Page) Wants() bool {
	if p.sealed != nil {
		return false
	}
	owner, _ := p.claimed()
	return owner != 0
}

// Claim opens the page of a process. of is that process as we count, by how it counts itself; 0: it is none of the rank's. What is no sealed memory of a
// page's size is not opened.
func (p *Page) Claim(of func(owner int) (pid int)) {
	owner, fd := p.claimed()
	if p.sealed != nil || owner == 0 {
		return
	}
	pid := of(owner)
	if pid == 0 {
		return
	}
	path, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), unix.O_PATH|unix.O_CLOEXEC, 0) // which opens nothing
	if err != nil {
		return
	}
	defer unix.Close(path)
	var is unix.Stat_t
	if unix.Fstat(path, &is) != nil || is.Mode&unix.S_IFMT != unix.S_IFREG || is.Size != pageBytes {
		return
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", path), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	if has, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || has&seals != seals || of(owner) != pid {
		f.Close()
		return
	}
	p.sealed = f
}

// Create makes the file of a page, which must not exist. Ranks run as the user of their agent.
func Create(path string) (*Page, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	now := monotonic()
	b := make([]byte, pageBytes)
	binary.NativeEndian.PutUint32(b, magic)
	binary.NativeEndian.PutUint32(b[4:], version)
	if counterIsClock() {
		binary.NativeEndian.PutUint32(b[8:], flagTicks)
	}
	if _, err = f.Write(b); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close(), os.Remove(path))
	}
	return &Page{file: f, since: now, sealable: trySeals() == nil}, nil
}

// Close ends reading; the file is its maker's to remove.
func (p *Page) Close() error {
	if p.sealed != nil {
		p.sealed.Close() // it was read only
	}
	return p.file.Close()
}

// counterIsClock says whether Linux itself keeps time by the processor's counter, so that it runs at one pace on all processors
// (/sys/devices/system/clocksource). Arm's always does (Arm ARM, D12: the system counter).
func counterIsClock() bool {
	b, err := os.ReadFile(filepath.FromSlash("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
	name := strings.TrimSpace(string(b))
	return err == nil && (name == "tsc" || name == "arch_sys_counter")
}

func monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// Read reads the page twice and keeps what did not change in between: the rank may be writing.
func (p *Page) Read(b *Copies) (Sample, error) {
	from := p.file
	if p.sealed != nil {
		from = p.sealed
	}
	for i := range b {
		if n, err := from.ReadAt(b[i][:], 0); n != pageBytes && (err == nil || errors.Is(err, io.EOF)) {
			return Sample{}, fmt.Errorf("%s was cut to %d bytes by its rank", p.file.Name(), n)
		} else if n != pageBytes {
			return Sample{}, err
		}
	}
	if p.sealed == nil && p.sealable { // anybody may have written it
		return Sample{}, nil
	}
	return parse(b[0][:], b[1][:], p.since, monotonic()), nil
}
