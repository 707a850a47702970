// Package checkup looks at one host before a job: what a container was given that MPI, UCX and NCCL need.
//
//	Host (facts, read once) ──▶ Look ──▶ findings: name, verdict, what is so, what to do
//	                       └──▶ Facts ─▶ name and value, which should be the same on all hosts
//
// A finding fails when ranks will not start or die; it warns when they will be slow or fail in some uses. A
// fix names what to write where: pods have no root, so most are lines of YAML, some are the node's.
//
// Read gathers, and Devices asks when a rank fails; everything else is a function of what they found. Pairs of hosts are agent/ways's.
package checkup

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/rdma"
)

// Verdict is how a check ended.
type Verdict int

// The verdicts, numbered as in the protocol.
const (
	Pass Verdict = iota
	Warn
	Fail
	Unknown // what the check needs could not be read: neither well nor wrong
)

// Finding is what one check says.
type Finding struct {
	Name    string // of the check, the same on all hosts: "shared memory"
	Verdict Verdict
	Text    string // what is so
	Fix     string // what to do; "" when it passed, or when nothing makes the unknown known
}

// Host is what is known of the host.
type Host struct {
	Ranks       int       // that are to run here; 0: one a slot
	GPUsPerRank int       // that each of them is to see; 0: one
	Ports       job.Ports // that MPI may listen on; zero: any

	Slots int     // that the host has
	CPUs  int     // usable hardware threads, quota considered
	Quota float64 // CFS quota in CPUs; 0: none

	ShmSize uint64 // of /dev/shm in bytes; 0: not there
	ShmFree uint64
	Temp    Temp // where MPI libraries keep files of a job

	Locked rdma.Locked
	Root   bool   // ranks run as uid 0
	Files  uint64 // RLIMIT_NOFILE that processes may raise to

	PtraceScope int  // yama's; -1: no yama
	Ptrace      bool // CAP_SYS_PTRACE is effective
	OwnMemory   bool // process_vm_readv of the own process is let through

	HugePages     int    // of 2 MiB that the node has reserved; -1: unknown
	HugePageLimit string // of the cgroup in bytes, "max"; "": unknown

	GPUs       gpu.Inventory
	HCAs       rdma.Inventory
	LinkErrors []string // of HCAs, as readErrors has them
	Uncounted  []string // ports without counters
	Xids       []Xid    // of the node's GPUs
	Log        bool     // the kernel's log, where those stand, can be read

	Watch string // why no rank can be watched (--watch-ranks); "": they can

	MPI string // library of the program or of the image; "": none was found
}

// Look judges a host. Every check is in the result, in the same order, so that hosts can be compared.
func Look(h *Host) []Finding {
	return []Finding{
		sharedMemory(h), temporary(h), lockedMemory(h), openFiles(h), slots(h), portRange(h), singleCopy(h), hugePages(h), hcas(h), ports(h),
		linkErrors(h), gpus(h), gpuHealth(h), gpuXids(h), watchLibrary(h),
	}
}

// WatchFix is how a host or an image gets the library that finds slow ranks.
const WatchFix = "copy libmpiup-watch.so of the mpiup image beside mpiup (mpiup install does)"

// watchLibrary: what finds slow ranks is a file beside mpiup, which is easily left behind.
func watchLibrary(h *Host) Finding {
	const name = "watch library"
	if h.Watch != "" {
		return Finding{name, Warn, "--watch-ranks finds nobody here: " + h.Watch, WatchFix}
	}
	return Finding{Name: name, Text: "there, for --watch-ranks"}
}

const mib = 1 << 20

// ShmFix is how a pod gets shared memory.
const ShmFix = "mount a volume {name: shm, emptyDir: {medium: Memory}} at /dev/shm"

// LeastShm is what /dev/shm must have free for MPI to begin.
const LeastShm = 8 * mib

// sharedMemory: NCCL, PyTorch's loaders and every MPI library put buffers there, and die of SIGBUS when it is
// full. Containers get 64 MiB unless told otherwise.
func sharedMemory(h *Host) Finding {
	const name, fix = "shared memory", ShmFix
	ranks := max(h.ranks(), 1)
	want := uint64(ranks) * 16 * mib
	if len(h.GPUs.GPUs) > 0 {
		want = max(want, 1024*mib)
	}
	switch {
	case h.ShmSize == 0:
		return Finding{name, Fail, "/dev/shm is not there", fix}
	case h.ShmSize < LeastShm: // nothing that fills it could be ended
		return Finding{name, Fail, fmt.Sprintf("/dev/shm has %s in all", sizeOf(h.ShmSize)), fix}
	case h.ShmFree < LeastShm:
		return Finding{name, Fail, fmt.Sprintf("/dev/shm has %s free of %s", sizeOf(h.ShmFree), sizeOf(h.ShmSize)), "end what fills it (ls -l /dev/shm), or " + fix}
	case h.ShmSize < want:
		return Finding{name, Warn, fmt.Sprintf("/dev/shm has %s for %s", sizeOf(h.ShmSize), visible.Count(ranks, "rank")), fix}
	}
	return Finding{Name: name, Text: fmt.Sprintf("/dev/shm has %s", sizeOf(h.ShmSize))}
}

func (h *Host) ranks() int {
	if h.Ranks > 0 {
		return h.Ranks
	}
	return h.Slots
}

// lockedMemory: verbs lock every buffer. A container that does not run as root loses added capabilities, since
// Kubernetes knows no ambient ones.
func lockedMemory(h *Host) Finding {
	const name = "locked memory"
	switch {
	case h.Locked.Any:
		return Finding{Name: name, Text: "any amount (CAP_IPC_LOCK)"}
	case h.Locked.Limit == rdma.Unlimited:
		return Finding{Name: name, Text: "unlimited"}
	}
	text := fmt.Sprintf("limit %s (ulimit -l)", sizeOf(h.Locked.Limit))
	if h.Locked.Limit >= 64*mib || len(h.HCAs.HCAs) == 0 {
		return Finding{Name: name, Text: text}
	}
	fix := "add securityContext.capabilities.add: [IPC_LOCK]"
	if !h.Root {
		fix = "set LimitMEMLOCK=infinity for the node's container runtime (containerd.service), since IPC_LOCK has no effect for a user other than root"
	}
	if len(h.HCAs.Usable()) == 0 {
		return Finding{name, Warn, text + ": RDMA needs more", fix}
	}
	return Finding{name, Fail, text + ": RDMA cannot register its buffers", fix}
}

// openFiles: a rank of a job over TCP has a socket for each other rank, and more with threads.
func openFiles(h *Host) Finding {
	const name, enough = "open files", 4096
	text := fmt.Sprintf("limit %d (ulimit -n)", h.Files)
	if h.Files == ^uint64(0) {
		text = "unlimited"
	}
	if h.Files < enough {
		return Finding{name, Warn, text, "set LimitNOFILE=1048576 for the node's container runtime"}
	}
	return Finding{Name: name, Text: text}
}

func slots(h *Host) Finding {
	const name = "slots and CPUs"
	cpus := fmt.Sprintf("%s on %s", visible.Count(h.ranks(), "rank"), visible.Count(h.CPUs, "usable CPU"))
	if h.Quota > 0 {
		cpus += fmt.Sprintf(" (quota %.4g)", h.Quota)
	}
	if h.ranks() > h.CPUs {
		return Finding{name, Warn, cpus + ": ranks that wait actively slow each other down", "give this host more CPUs (a " +
			"container by its request and limit), or start fewer ranks here (slots in the hostfile, -N)"}
	}
	return Finding{Name: name, Text: cpus}
}

// singleCopy: ranks of one host read each other's memory (process_vm_readv), which seccomp profiles and
// Yama may forbid; libraries then copy twice.
func singleCopy(h *Host) Finding {
	const name = "single copy between ranks"
	const fix = "add securityContext.capabilities.add: [SYS_PTRACE], or quiet the libraries: OMPI_MCA_btl_vader_single_copy_mechanism=none, UCX_TLS=^cma"
	switch {
	case !h.OwnMemory:
		return Finding{name, Warn, "process_vm_readv is not allowed (a seccomp profile): large messages within a host are copied twice", fix}
	case h.PtraceScope >= 1 && !h.Ptrace:
		return Finding{name, Warn, fmt.Sprintf("kernel.yama.ptrace_scope is %d: large messages within a host are copied twice", h.PtraceScope),
			fix + "; or set kernel.yama.ptrace_scope=0 on the node"}
	}
	return Finding{Name: name, Text: "allowed"}
}

func hugePages(h *Host) Finding {
	const name = "huge pages"
	switch {
	case h.HugePages > 0 && h.HugePageLimit == "0":
		return Finding{name, Warn, fmt.Sprintf("there are %d of 2 MiB, and this container may use none: UCX may warn or die of SIGBUS", h.HugePages),
			"request hugepages-2Mi in resources.limits, or set UCX_ALLOC_PRIO=thp,md:*,mmap,heap"}
	case h.HugePages < 0:
		return Finding{Name: name, Verdict: Unknown, Text: "/sys/kernel/mm/hugepages cannot be read here"}
	case h.HugePages > 0 && h.HugePageLimit == "":
		return Finding{Name: name, Verdict: Unknown, Text: fmt.Sprintf("there are %d of 2 MiB; whether this container may use them cannot be read here", h.HugePages)}
	}
	return Finding{Name: name, Text: fmt.Sprintf("%d of 2 MiB on the node", h.HugePages)}
}

func hcas(h *Host) Finding {
	const name = "RDMA"
	usable := h.HCAs.Usable()
	if len(h.HCAs.HCAs) == 0 {
		return Finding{Name: name, Text: "no device: TCP"}
	}
	if missing := h.HCAs.Missing(rdma.Locked{Any: true}); len(missing) > 0 {
		what, fix, _ := strings.Cut(missing[0], ": ")
		verdict := Warn
		if len(h.GPUs.GPUs) == 0 && !h.HCAs.Wanted() {
			verdict = Pass // an Ethernet card, most likely
			return Finding{Name: name, Text: what + ": TCP"}
		}
		return Finding{name, verdict, what, fix}
	}
	var names []string
	for _, u := range usable {
		names = append(names, u.Name)
	}
	text := visible.Count(len(usable), "device") + " (" + strings.Join(names, ", ") + ")"
	if len(h.GPUs.GPUs) > 0 && h.HCAs.GDR.PeerMemory == "" && !h.HCAs.GDR.DMABuf {
		return Finding{name, Warn, text + ": no GPUDirect RDMA (" + h.HCAs.GDR.String() + ")", "load nvidia_peermem on the node, or run a kernel with DMA-BUF (5.12)"}
	}
	return Finding{Name: name, Text: text}
}

func gpus(h *Host) Finding {
	const name = "GPUs"
	n := len(h.GPUs.Units())
	if n == 0 {
		return Finding{Name: name, Text: "none"}
	}
	text := fmt.Sprintf("%d, by %s", n, h.GPUs.Source)
	if h.GPUs.Driver != "" {
		text += ", driver " + h.GPUs.Driver
	}
	each := max(h.GPUsPerRank, 1)
	switch {
	case each > 1 && h.ranks()*each > n:
		return Finding{name, Fail, fmt.Sprintf("%s: fewer than %s with --gpus-per-rank %d see", text, visible.Count(h.ranks(), "rank"), each),
			"start fewer ranks here (-N), or let each see fewer GPUs"}
	case h.ranks() > n:
		return Finding{name, Warn, text + ": fewer than ranks (" + fmt.Sprint(h.ranks()) + ")", "start as many ranks as GPUs, or share them on purpose"}
	}
	return Finding{Name: name, Text: text}
}

// gpuHealth is what NVML knows of NVIDIA's.
func gpuHealth(h *Host) Finding {
	const name = "GPU health"
	var errors, asleep []string
	known := 0
	for _, g := range h.GPUs.GPUs {
		if g.Health == nil {
			continue
		}
		known++
		if g.Health.Uncorrected > 0 {
			errors = append(errors, fmt.Sprintf("GPU %d: %d", g.Number, g.Health.Uncorrected))
		}
		if !g.Health.Persistence {
			asleep = append(asleep, fmt.Sprint(g.Number))
		}
	}
	switch {
	case len(h.GPUs.GPUs) == 0:
		return Finding{Name: name, Text: "no GPU"}
	case len(errors) > 0:
		return Finding{name, Fail, "uncorrected memory errors, " + strings.Join(errors, ", "), "drain the node and reset the " +
			"GPU (nvidia-smi -r), or have it exchanged"}
	case len(asleep) > 0:
		return Finding{name, Warn, "persistence mode is off on GPU " + strings.Join(asleep, ", ") + ": the first use takes seconds",
			"run nvidia-persistenced on the node"}
	}
	switch all := len(h.GPUs.GPUs); {
	case known == 0 && h.GPUs.Vendor == gpu.NVIDIA:
		return Finding{name, Unknown, "neither mpiup-nvml nor nvidia-smi tells of it", "put mpiup-nvml of the mpiup image beside mpiup (mpiup install does)"}
	case known == 0:
		return Finding{Name: name, Verdict: Unknown, Text: "mpiup reads it of NVIDIA's GPUs only"}
	case known < all:
		return Finding{Name: name, Verdict: Unknown, Text: fmt.Sprintf("%d of %d GPUs have no uncorrected memory errors; of the others nothing is told", known, all)}
	}
	return Finding{Name: name, Text: "no uncorrected memory errors, persistence mode on"}
}

// Fact is what should be the same on all hosts of a job; Value "" is not known.
type Fact struct{ Name, Value string }

// Facts are those that the host can have: without GPUs it has no GPU's driver.
func Facts(h *Host) []Fact {
	facts := []Fact{{"MPI library", cmp.Or(h.MPI, "none found")}}
	if n := len(h.GPUs.Units()); n > 0 {
		gpus := fmt.Sprint(n)
		if m := h.GPUs.GPUs[0].Model; m != "" {
			gpus += " " + m
		}
		facts = append(facts, Fact{"GPUs", gpus}, Fact{"GPU driver", h.GPUs.Driver})
		if h.GPUs.Vendor == gpu.NVIDIA {
			facts = append(facts, Fact{"CUDA", h.GPUs.CUDA})
		}
	}
	return append(facts, Fact{"RDMA devices", fmt.Sprint(len(h.HCAs.Usable()))}, Fact{"CPUs", fmt.Sprint(h.CPUs)})
}

func sizeOf(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= mib:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
