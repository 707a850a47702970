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
	version   = 4
	levels    = 4
	perLevel  = 48
	shift     = 5
	header    = 512
	onePoint  = 40
	binsAt    = header + levels*perLevel*onePoint
	bins      = 2048
	bin       = 20 * time.Millisecond
	flagTicks = 1

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

// A Page is the agent's end of one rank's page.
type Page struct {
	file  *os.File
	since time.Duration // CLOCK_MONOTONIC at its making: nothing in it is older
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
	return &Page{file: f, since: now}, nil
}

// Close ends reading; the file is its maker's to remove.
func (p *Page) Close() error { return p.file.Close() }

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
	for i := range b {
		if n, err := p.file.ReadAt(b[i][:], 0); n != pageBytes && (err == nil || errors.Is(err, io.EOF)) {
			return Sample{}, fmt.Errorf("%s was cut to %d bytes by its rank", p.file.Name(), n)
		} else if n != pageBytes {
			return Sample{}, err
		}
	}
	return parse(b[0][:], b[1][:], p.since, monotonic()), nil
}
