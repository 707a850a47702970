// Package checkup looks at one host before a job: what a container was given that MPI, UCX and NCCL need.
//
//	Host (facts, read once) ──▶ Look ──▶ findings: name, verdict, what is so, what to do
//	                       └──▶ Facts ─▶ name and value, which should be the same on all hosts
//
// A finding fails when ranks will not start or die; it warns when they will be slow or fail in some uses. A
// fix names what to write where: pods have no root, so most are lines of YAML, some are the node's.
//
// It is pure: Read gathers, everything else is a function of its result. Pairs of hosts are agent/probe's.
package checkup

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/rdma"
)

// Verdict is how a check ended.
type Verdict int

// The verdicts, the worst last.
const (
	Pass Verdict = iota
	Warn
	Fail
)

// Finding is what one check says.
type Finding struct {
	Name    string // of the check, the same on all hosts: "shared memory"
	Verdict Verdict
	Text    string // what is so
	Fix     string // what to do; "" when it passed
}

// Host is what is known of the host.
type Host struct {
	Ranks int // that are to run here; 0: one a slot

	Slots int     // that the host has
	CPUs  int     // usable hardware threads, quota considered
	Quota float64 // CFS quota in CPUs; 0: none

	ShmSize uint64 // of /dev/shm in bytes; 0: not there
	ShmFree uint64

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
	Xids       []Xid    // of the node's GPUs
	Log        bool     // the kernel's log, where those stand, can be read

	MPI string // library of the program or of the image; "": none was found
}

// Look judges a host. Every check is in the result, in the same order, so that hosts can be compared.
func Look(h *Host) []Finding {
	return []Finding{
		sharedMemory(h), lockedMemory(h), openFiles(h), slots(h), singleCopy(h), hugePages(h), hcas(h), ports(h), linkErrors(h), gpus(h), gpuHealth(h), gpuXids(h),
	}
}

const mib = 1 << 20

// sharedMemory: NCCL, PyTorch's loaders and every MPI library put buffers there, and die of SIGBUS when it is
// full. Containers get 64 MiB unless told otherwise.
func sharedMemory(h *Host) Finding {
	const name, fix = "shared memory", "mount a volume {name: shm, emptyDir: {medium: Memory}} at /dev/shm"
	ranks := max(h.ranks(), 1)
	want := uint64(ranks) * 16 * mib
	if len(h.GPUs.GPUs) > 0 {
		want = max(want, 1024*mib)
	}
	switch {
	case h.ShmSize == 0:
		return Finding{name, Fail, "/dev/shm is not there", fix}
	case h.ShmFree < 8*mib:
		return Finding{name, Fail, fmt.Sprintf("/dev/shm has %s free of %s", bytes(h.ShmFree), bytes(h.ShmSize)), "end what fills it (ls -l /dev/shm), or " + fix}
	case h.ShmSize < want:
		return Finding{name, Warn, fmt.Sprintf("/dev/shm has %s for %s", bytes(h.ShmSize), count(ranks, "rank")), fix}
	}
	return Finding{Name: name, Text: fmt.Sprintf("/dev/shm has %s", bytes(h.ShmSize))}
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
	text := fmt.Sprintf("limit %s (ulimit -l)", bytes(h.Locked.Limit))
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
	cpus := fmt.Sprintf("%s on %s", count(h.ranks(), "rank"), count(h.CPUs, "usable CPU"))
	if h.Quota > 0 {
		cpus += fmt.Sprintf(" (quota %.4g)", h.Quota)
	}
	if h.ranks() > h.CPUs {
		return Finding{name, Warn, cpus + ": ranks that wait actively slow each other down", "raise the pod's CPU request and limit, or start fewer ranks here (slots in the hostfile, -N)"}
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
		return Finding{name, Warn, fmt.Sprintf("the node has %d of 2 MiB, and this pod may use none: UCX may warn or die of SIGBUS", h.HugePages),
			"request hugepages-2Mi in resources.limits, or set UCX_ALLOC_PRIO=thp,md:*,mmap,heap"}
	case h.HugePages < 0:
		return Finding{Name: name, Text: "unknown"}
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
	text := count(len(usable), "device") + " (" + strings.Join(names, ", ") + ")"
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
	if h.ranks() > n {
		return Finding{name, Warn, text + ": fewer than ranks (" + fmt.Sprint(h.ranks()) + ")", "start as many ranks as GPUs, or share them on purpose"}
	}
	return Finding{Name: name, Text: text}
}

// gpuHealth is what NVML knows of NVIDIA's.
func gpuHealth(h *Host) Finding {
	const name = "GPU health"
	var errors, asleep []string
	known := false
	for _, g := range h.GPUs.GPUs {
		if g.Health == nil {
			continue
		}
		known = true
		if g.Health.Uncorrected > 0 {
			errors = append(errors, fmt.Sprintf("GPU %d: %d", g.Number, g.Health.Uncorrected))
		}
		if !g.Health.Persistence {
			asleep = append(asleep, fmt.Sprint(g.Number))
		}
	}
	switch {
	case !known:
		return Finding{Name: name, Text: "unknown (bin/mpiup-nvml or nvidia-smi would tell)"}
	case len(errors) > 0:
		return Finding{name, Fail, "uncorrected memory errors, " + strings.Join(errors, ", "), "drain the node and reset the GPU (nvidia-smi -r), or have it exchanged"}
	case len(asleep) > 0:
		return Finding{name, Warn, "persistence mode is off on GPU " + strings.Join(asleep, ", ") + ": the first use takes seconds", "run nvidia-persistenced on the node"}
	}
	return Finding{Name: name, Text: "no uncorrected memory errors, persistence mode on"}
}

// Fact is what should be the same on all hosts of a job; Value "" is not known.
type Fact struct{ Name, Value string }

// Facts are those of a host.
func Facts(h *Host) []Fact {
	gpus := ""
	if n := len(h.GPUs.Units()); n > 0 {
		gpus = fmt.Sprintf("%d", n)
		if m := h.GPUs.GPUs[0].Model; m != "" {
			gpus += " " + m
		}
	}
	return []Fact{
		{"MPI library", h.MPI}, {"GPUs", gpus}, {"GPU driver", h.GPUs.Driver}, {"CUDA", h.GPUs.CUDA},
		{"RDMA devices", fmt.Sprint(len(h.HCAs.Usable()))}, {"CPUs", fmt.Sprint(h.CPUs)},
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func bytes(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= mib:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
