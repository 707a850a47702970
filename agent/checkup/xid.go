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
type Xid struct {
	PCI    string // without the function: "0000:17:00"
	Number int
	Ago    time.Duration
}

// ofPrograms are Xids that a faulty program causes (NVIDIA's Xid catalogue: illegal accesses, and what follows from
// them); all others point at the GPU, its driver or its links.
var ofPrograms = []int{13, 31, 43, 45, 68}

// parseXid reads one record of /dev/kmsg: "6,1234,5678901,-;text", the third of which is microseconds since boot.
func parseXid(record string, now time.Duration) (x Xid, ok bool) {
	head, text, ok := strings.Cut(record, ";")
	if !ok {
		return x, false
	}
	_, text, ok = strings.Cut(text, "NVRM: Xid (PCI:")
	if !ok {
		return x, false
	}
	address, rest, ok := strings.Cut(text, "): ")
	const longest = len("00000000:00:00")
	if !ok || len(address) > longest || strings.Trim(address, "0123456789abcdefABCDEF:") != "" {
		return x, false
	}
	number, _, _ := strings.Cut(rest, ",")
	if x.Number, _ = strconv.Atoi(strings.TrimSpace(number)); x.Number <= 0 || x.Number > 10_000 {
		return x, false
	}
	x.PCI = strings.ToLower(address)
	if fields := strings.Split(head, ","); len(fields) > 2 {
		if at, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
			x.Ago = max(now-time.Duration(at)*time.Microsecond, 0)
		}
	}
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

// Xids is those of the kernel's log, oldest first; false where this container may not read it.
func Xids() (list []Xid, readable bool) {
	const most, mostRecords = 1000, 200_000
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return nil, false
	}
	now := time.Duration(ts.Nano())
	record := make([]byte, 8<<10) // CONSOLE_EXT_LOG_MAX, kernel/printk
	for range mostRecords {
		n, err := unix.Read(fd, record)
		switch {
		case err == unix.EPIPE || err == unix.EINTR: // overwritten meanwhile
			continue
		case err == unix.EAGAIN || err == nil && n == 0:
			return list, true
		case err != nil:
			return list, readable // EPERM with dmesg_restrict
		}
		readable = true
		if x, ok := parseXid(string(record[:n]), now); ok && len(list) < most {
			list = append(list, x)
		}
	}
	return list, true
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
			parts = append(parts, fmt.Sprintf("GPU %d: %d, the last %d, %v ago", g.Number, count, last.Number, last.Ago.Round(time.Second)))
		}
	}
	switch {
	case len(parts) > 0:
		text := strings.Join(parts[:min(len(parts), mostNamed)], "; ")
		if more := len(parts) - mostNamed; more > 0 {
			text += fmt.Sprintf(" and %d GPUs more", more)
		}
		return Finding{name, Warn, text, "look the number up in NVIDIA's Xid catalogue; drain the node and reset the GPU (nvidia-smi -r) if it was not since"}
	case !h.Log:
		return Finding{Name: name, Verdict: Unknown, Text: "the kernel's log (/dev/kmsg) cannot be read here"}
	case nowhere > 0:
		return Finding{Name: name, Verdict: Unknown, Text: fmt.Sprintf("the PCI address of %s is not known", visible.Count(nowhere, "GPU"))}
	case programs > 0:
		return Finding{Name: name, Text: fmt.Sprintf("%d that programs cause, none of the GPUs' own", programs)}
	}
	return Finding{Name: name, Text: "none in the kernel's log"}
}
