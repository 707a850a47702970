package checkup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/topology"
)

// Xid is an error of a GPU as NVIDIA's driver writes it to the kernel's log:
//
//	NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
//	NVRM: Xid (PCI:0000:17:00 GPU-I:05 GPU-CI:00): 13, pid=12, name=a.out, Graphics Exception   (in MIG mode)
type Xid struct {
	PCI    string // without the function, and the instances in MIG mode: "0000:17:00"
	Number int
	Ago    time.Duration
}

// ofPrograms are Xids that a faulty program causes: illegal accesses, and what follows from them (docs.nvidia.com/deploy/xid-errors,
// the catalogue for Ampere and later). All others point at the GPU, its driver or its links.
var ofPrograms = []int{13, 31, 43, 45, 68}

// parseXid reads one record of /dev/kmsg: "6,1234,5678901,-;text", the third of which is microseconds since boot. Without it, it is no record.
func parseXid(record string, now time.Duration) (x Xid, ok bool) {
	head, text, ok := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 3 {
		return x, false
	}
	at, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return x, false
	}
	_, text, ok = strings.Cut(text, "NVRM: Xid (PCI:")
	if !ok {
		return x, false
	}
	address, rest, ok := strings.Cut(text, "): ")
	address, _, _ = strings.Cut(address, " ")
	const longest = len("00000000:00:00")
	if !ok || len(address) > longest || strings.Trim(address, "0123456789abcdefABCDEF:") != "" {
		return x, false
	}
	number, _, _ := strings.Cut(rest, ",")
	if x.Number, _ = strconv.Atoi(strings.TrimSpace(number)); x.Number <= 0 || x.Number > 10_000 {
		return x, false
	}
	x.PCI, x.Ago = strings.ToLower(address), max(now-time.Duration(at)*time.Microsecond, 0)
	return x, true
}

// OfProgram says that a faulty program causes such an Xid.
func (x Xid) OfProgram() bool { return slices.Contains(ofPrograms, x.Number) }

// On says that it is of the GPU at an address.
func (x Xid) On(at topology.PCIAddr) bool {
	address := XidAddress(at)
	return x.PCI == address || x.PCI == "0000"+address
}

// XidAddress is a GPU's PCI address as Xids have it, without the function: "0000:17:00".
func XidAddress(at topology.PCIAddr) string {
	return strings.ToLower(strings.TrimSuffix(at.String(), "."+strconv.Itoa(int(at.Function))))
}

// Xids is those of the kernel's log, oldest first; false where this container may not read it, or not to its end.
func Xids() (list []Xid, whole bool) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil { // EPERM with dmesg_restrict
		return nil, false
	}
	defer unix.Close(fd)
	var ts unix.Timespec
	// The log's stamps are of local_clock (kernel/printk), which NTP does not slew. Of the clocks that programs have this is the nearest.
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts); err != nil {
		return nil, false
	}
	return readXids(func(record []byte) (int, error) { return unix.Read(fd, record) }, time.Duration(ts.Nano()))
}

// mostXids is how many of the latest are kept at least, where there are as many.
const mostXids = 1000

// readXids reads one record at a time.
func readXids(read func([]byte) (int, error), now time.Duration) (list []Xid, whole bool) {
	const mostRecords = 200_000
	record := make([]byte, 8<<10) // CONSOLE_EXT_LOG_MAX, kernel/printk
	for range mostRecords {
		n, err := read(record)
		switch {
		case err == unix.EPIPE || err == unix.EINTR: // EPIPE: what was next is overwritten
			continue
		case err == unix.EAGAIN || err == nil && n == 0:
			return list, true
		case err != nil:
			return list, false
		}
		if x, ok := parseXid(string(record[:n]), now); ok {
			if len(list) == 2*mostXids {
				list = slices.Delete(list, 0, mostXids)
			}
			list = append(list, x)
		}
	}
	return list, false
}

// gpuXids: errors since the node was started, of this container's GPUs.
func gpuXids(h *Host) Finding {
	const name, mostNamed = "GPU Xids", 4
	if len(h.GPUs.GPUs) == 0 {
		return Finding{Name: name, Text: "no GPU"}
	}
	var parts []string
	programs, nowhere := 0, 0
	for _, g := range h.GPUs.GPUs {
		if !g.Located() {
			nowhere++
			continue
		}
		last, count := Xid{}, 0
		for _, x := range h.Xids {
			switch {
			case !x.On(g.At):
			case x.OfProgram():
				programs++
			default:
				last, count = x, count+1
			}
		}
		if count > 0 {
			parts = append(parts, fmt.Sprintf("GPU %d: %s, the last Xid %d, %v ago", g.Number, visible.Count(count, "Xid"), last.Number, last.Ago.Round(time.Second)))
		}
	}
	switch {
	case len(parts) > 0:
		text := strings.Join(parts[:min(len(parts), mostNamed)], "; ")
		if more := len(parts) - mostNamed; more > 0 {
			text += fmt.Sprintf(" and %s more", visible.Count(more, "GPU"))
		}
		return Finding{name, Warn, text,
			"look the number up in NVIDIA's Xid catalogue; drain the node and reset the GPU (nvidia-smi -r) unless it has been reset since"}
	case !h.Log:
		return Finding{Name: name, Verdict: Unknown, Text: "the kernel's log (/dev/kmsg) cannot be read here"}
	case nowhere > 0:
		return Finding{Name: name, Verdict: Unknown, Text: fmt.Sprintf("the PCI address of %s is not known", visible.Count(nowhere, "GPU"))}
	case programs > 0:
		return Finding{Name: name, Text: fmt.Sprintf("%d that programs cause, none of the GPUs' own", programs)}
	}
	return Finding{Name: name, Text: "none in the kernel's log"}
}
