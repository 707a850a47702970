package checkup

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// fit is a host without any complaint.
func fit() Host {
	return Host{Slots: 4, CPUs: 4, ShmSize: 8 << 30, ShmFree: 8 << 30, Files: 1 << 20, PtraceScope: -1, OwnMemory: true, HugePages: 0, Temp: Temp{Dir: "/tmp", Free: 1 << 30},
		Locked: rdma.Locked{Limit: rdma.Unlimited}}
}

func hca(denied, state string, ethernet bool) rdma.Inventory {
	return rdma.Inventory{HCAs: []rdma.HCA{{Name: "mlx5_0", Kind: rdma.Verbs, Verbs: "uverbs0", Denied: denied, Missing: denied,
		Ports: []rdma.Port{{Number: 1, State: state, Ethernet: ethernet}}}}}
}

// rails are devices with a port each, of these rates in Gb/s; 0 is down.
func rails(rates ...float64) (inv rdma.Inventory) {
	for i, rate := range rates {
		p := rdma.Port{Number: 1, State: "ACTIVE", Rate: rate}
		if rate == 0 {
			p.State = "DOWN"
		}
		inv.HCAs = append(inv.HCAs, rdma.HCA{Name: fmt.Sprintf("mlx5_%d", i), Kind: rdma.Verbs, Ports: []rdma.Port{p}})
	}
	return inv
}

func located() gpu.Inventory {
	inv := gpu.Inventory{Vendor: gpu.NVIDIA}
	for i, bus := range []uint8{0x17, 0x65} {
		at := topology.PCIAddr{Bus: bus}
		inv.GPUs = append(inv.GPUs, gpu.GPU{Number: i, At: at})
	}
	return inv
}

func healthy(h gpu.Health) gpu.Inventory {
	return gpu.Inventory{Vendor: gpu.NVIDIA, GPUs: []gpu.GPU{{Number: 0, Health: &h}}}
}

func TestLook(t *testing.T) {
	nvidia := gpu.Inventory{Source: "/proc/driver/nvidia", Vendor: gpu.NVIDIA, GPUs: []gpu.GPU{{Number: 0}, {Number: 1}}}
	for _, tt := range []struct {
		name    string
		change  func(*Host)
		check   string
		verdict Verdict
		says    string // of text and fix
	}{
		{"no /dev/shm", func(h *Host) { h.ShmSize = 0 }, "shared memory", Fail, "medium: Memory"},
		{"Docker's /dev/shm and many ranks", func(h *Host) { h.ShmSize, h.ShmFree, h.Slots, h.CPUs = 64<<20, 64<<20, 8, 8 }, "shared memory", Warn, "64 MiB for 8 ranks"},
		{"Docker's /dev/shm and one rank", func(h *Host) { h.ShmSize, h.ShmFree, h.Ranks = 64<<20, 64<<20, 1 }, "shared memory", Pass, "64 MiB"},
		{"Docker's /dev/shm and GPUs", func(h *Host) { h.ShmSize, h.ShmFree, h.Ranks, h.GPUs = 64<<20, 64<<20, 1, nvidia }, "shared memory", Warn, "for 1 rank"},
		{"tiny /dev/shm", func(h *Host) { h.ShmSize, h.ShmFree = 64<<10, 64<<10 }, "shared memory", Fail, "64 KiB in all mount a volume"},
		{"/dev/shm is full", func(h *Host) { h.ShmFree = 1 << 20 }, "shared memory", Fail, "1 MiB free of 8192 MiB"},
		{"small memlock without HCAs", func(h *Host) { h.Locked.Limit = 64 << 10 }, "locked memory", Pass, "64 KiB"},
		{"small memlock with an HCA, no root", func(h *Host) { h.Locked.Limit, h.HCAs = 64<<10, hca("", "ACTIVE", false) }, "locked memory", Fail, "LimitMEMLOCK=infinity"},
		{"small memlock with an HCA, root", func(h *Host) { h.Locked.Limit, h.HCAs, h.Root = 64<<10, hca("", "ACTIVE", false), true }, "locked memory", Fail, "IPC_LOCK"},
		{"small memlock with an HCA that is not granted", func(h *Host) { h.Locked.Limit, h.HCAs = 64<<10, hca("no file", "ACTIVE", false) }, "locked memory", Warn, "RDMA needs more"},
		{"IPC_LOCK", func(h *Host) { h.Locked, h.HCAs = rdma.Locked{Limit: 1, Any: true}, hca("", "ACTIVE", false) }, "locked memory", Pass, "CAP_IPC_LOCK"},
		{"few files", func(h *Host) { h.Files = 1024 }, "open files", Warn, "LimitNOFILE"},
		{"more ranks than CPUs", func(h *Host) { h.Ranks = 5 }, "slots and CPUs", Warn, "5 ranks on 4 usable CPUs"},
		{"a quota", func(h *Host) { h.Quota = 3.5 }, "slots and CPUs", Pass, "quota 3.5"},
		{"seccomp", func(h *Host) { h.OwnMemory = false }, "single copy between ranks", Warn, "SYS_PTRACE"},
		{"yama", func(h *Host) { h.PtraceScope = 1 }, "single copy between ranks", Warn, "ptrace_scope is 1"},
		{"yama with the capability", func(h *Host) { h.PtraceScope, h.Ptrace = 1, true }, "single copy between ranks", Pass, "allowed"},
		{"huge pages that may not be used", func(h *Host) { h.HugePages, h.HugePageLimit = 512, "0" }, "huge pages", Warn, "hugepages-2Mi"},
		{"InfiniBand that is not granted", func(h *Host) { h.HCAs = hca("its device file /dev/infiniband/uverbs0 is not here", "ACTIVE", false) }, "RDMA", Warn, "resources.limits"},
		{"an Ethernet card of that kind", func(h *Host) { h.HCAs = hca("its device file /dev/infiniband/uverbs0 is not here", "ACTIVE", true) }, "RDMA", Pass, "TCP"},
		{"no GPUDirect", func(h *Host) { h.HCAs, h.GPUs = hca("", "ACTIVE", false), nvidia }, "RDMA", Warn, "nvidia_peermem"},
		{"a port that is down", func(h *Host) { h.HCAs = rails(400, 400, 0) }, "RDMA ports", Warn, "mlx5_2:1 is DOWN"},
		{"a slow port", func(h *Host) { h.HCAs = rails(400, 200, 400) }, "RDMA ports", Warn, "mlx5_1:1 has 200 Gb/s, where the fastest has 400"},
		{"a slow port of another pod", func(h *Host) { h.HCAs = rails(400, 200); h.HCAs.HCAs[1].Missing = "/dev/infiniband/uverbs1" }, "RDMA ports", Pass, "all 1 port active"},
		{"no port at all", func(h *Host) { h.HCAs = rails(0) }, "RDMA ports", Pass, "none is active"},
		{"a GPU off the bus", func(h *Host) {
			h.GPUs, h.Log = located(), true
			h.Xids = []Xid{{"0000:17:00", 48, time.Hour}, {"0000:17:00", 79, time.Minute}, {"0000:99:00", 79, 0}}
		}, "GPU Xids", Warn, "GPU 0: 2 Xids, the last Xid 79, 1m0s ago"},
		{"a program's fault", func(h *Host) { h.GPUs, h.Log, h.Xids = located(), true, []Xid{{"00000000:65:00", 31, 0}} }, "GPU Xids", Pass, "1 that programs cause"},
		{"a log that cannot be read", func(h *Host) { h.GPUs = located() }, "GPU Xids", Unknown, "cannot be read"},
		{"a GPU at an unknown address", func(h *Host) { h.GPUs, h.Log = nvidia, true }, "GPU Xids", Unknown, "2 GPUs is not known"},
		{"nothing tells of GPUs' health", func(h *Host) { h.GPUs = nvidia }, "GPU health", Unknown, "mpiup-nvml"},
		{"half of the GPUs tell of their health", func(h *Host) {
			h.GPUs = healthy(gpu.Health{Persistence: true})
			h.GPUs.GPUs = append(h.GPUs.GPUs, gpu.GPU{Number: 1})
		}, "GPU health", Unknown, "1 of 2 GPUs"},
		{"no GPU to be healthy", func(*Host) {}, "GPU health", Pass, "no GPU"},
		{"a port without counters", func(h *Host) { h.HCAs, h.Uncounted = hca("", "ACTIVE", false), []string{"mlx5_0:1"} }, "RDMA link errors", Unknown, "of mlx5_0:1"},
		{"huge pages that cannot be read", func(h *Host) { h.HugePages = -1 }, "huge pages", Unknown, "cannot be read"},
		{"huge pages without a known limit", func(h *Host) { h.HugePages = 512 }, "huge pages", Unknown, "whether this container may"},
		{"a read-only /tmp", func(h *Host) { h.Temp.Err = syscall.EROFS }, "temporary files", Fail, "nothing can be written to /tmp (read-only file system)"},
		{"a full /tmp", func(h *Host) { h.Temp.Free = 4096 }, "temporary files", Fail, "/tmp has 4 KiB free"},
		{"fewer ports than ranks", func(h *Host) { h.Ports = job.Ports{Low: 18000, High: 18001} }, "MPI's ports", Fail, "2 ports for 4 ranks"},
		{"a port for each rank", func(h *Host) { h.Ports = job.Ports{Low: 18000, High: 18003} }, "MPI's ports", Pass, "4 ports for 4 ranks"},
		{"fewer GPUs than ranks are to see", func(h *Host) { h.GPUs, h.Ranks, h.GPUsPerRank = nvidia, 2, 2 }, "GPUs", Fail, "--gpus-per-rank 2"},
		{"a clean log", func(h *Host) { h.GPUs, h.Log = located(), true }, "GPU Xids", Pass, "none in the kernel's log"},
		{"errors of a link", func(h *Host) { h.HCAs, h.LinkErrors = hca("", "ACTIVE", false), []string{"mlx5_0:1 link_downed 3"} }, "RDMA link errors", Warn, "link_downed 3"},
		{"a GPU's memory", func(h *Host) { h.GPUs = healthy(gpu.Health{Persistence: true, Uncorrected: 2}) }, "GPU health", Fail, "GPU 0: 2"},
		{"a GPU asleep", func(h *Host) { h.GPUs = healthy(gpu.Health{}) }, "GPU health", Warn, "nvidia-persistenced"},
		{"a GPU in good health", func(h *Host) { h.GPUs = healthy(gpu.Health{Persistence: true}) }, "GPU health", Pass, "no uncorrected"},
		{"more ranks than GPUs", func(h *Host) { h.GPUs, h.Ranks = nvidia, 3 }, "GPUs", Warn, "fewer than ranks (3)"},
		{"as many ranks as GPUs", func(h *Host) { h.GPUs, h.Ranks = nvidia, 2 }, "GPUs", Pass, "2, by /proc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := fit()
			tt.change(&h)
			for _, f := range Look(&h) {
				if f.Name != tt.check {
					continue
				}
				if f.Verdict != tt.verdict || !strings.Contains(f.Text+" "+f.Fix, tt.says) {
					t.Errorf("%d: %s; %s", f.Verdict, f.Text, f.Fix)
				}
				if f.Verdict != Unknown && (f.Verdict == Pass) != (f.Fix == "") {
					t.Errorf("verdict %d with the fix %q", f.Verdict, f.Fix)
				}
				return
			}
			t.Errorf("no check %q", tt.check)
		})
	}
	h := fit()
	for _, f := range Look(&h) {
		if f.Verdict != Pass {
			t.Errorf("a fit host: %+v", f)
		}
	}
}

func TestLacking(t *testing.T) {
	tmp := Temp{Dir: "/tmp", Free: 1 << 30}
	for _, tt := range []struct {
		name string
		room Room
		want string // the beginning; "": nothing
	}{
		{"enough", Room{Ranks: 4, ShmSize: 64 << 20, ShmFree: 64 << 20, Temp: tmp}, ""},
		{"Docker's /dev/shm and many ranks", Room{Ranks: 16, ShmSize: 64 << 20, ShmFree: 64 << 20}, "/dev/shm has 64 MiB for 16 ranks"},
		{"Docker's /dev/shm and SIGBUS", Room{Ranks: 8, ShmSize: 64 << 20, ShmFree: 64 << 20, Bus: true}, "/dev/shm has 64 MiB for 8 ranks"},
		{"tiny", Room{Ranks: 1, ShmSize: 64 << 10, ShmFree: 64 << 10}, "/dev/shm has 64 KiB for 1 rank, and MPI libraries need more: mount"},
		{"full", Room{Ranks: 1, ShmSize: 1 << 30, ShmFree: 4096}, "/dev/shm has 4 KiB free of 1024 MiB"},
		{"none", Room{Ranks: 1}, "/dev/shm is not there"},
		{"a read-only /tmp", Room{ShmSize: 1 << 30, ShmFree: 1 << 30, Temp: Temp{Dir: "/tmp", Err: syscall.EROFS}}, "nothing can be written to /tmp (read-only file system), and Open MPI"},
	} {
		if _, got := tt.room.Lacking(); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// The directory is looked at, not remembered: one that is not there, one that is a file, one that can be written.
func TestLookTemp(t *testing.T) {
	dir := t.TempDir()
	if temp := LookTemp(dir, time.Minute); temp.Wrong() != "" || temp.Free == 0 {
		t.Errorf("%+v", temp)
	}
	if temp := LookTemp(dir+"/none", time.Minute); !strings.Contains(temp.Wrong(), "no such file") {
		t.Errorf("%+v", temp)
	}
	if temp := LookTemp("/proc/self/status", time.Minute); !strings.Contains(temp.Wrong(), "not a directory") {
		t.Errorf("%+v", temp)
	}
}

// What is read of this machine is what the kernel says elsewhere.
func TestRead(t *testing.T) {
	h := Host{}
	h.Read(sysfs.Host())
	if h.Files == 0 || h.Locked.Limit == 0 && !h.Locked.Any {
		t.Errorf("%+v", h)
	}
	if h.ShmSize < h.ShmFree {
		t.Errorf("/dev/shm has %d, free %d", h.ShmSize, h.ShmFree)
	}
}

func TestParseXid(t *testing.T) {
	for _, tt := range []struct {
		name, record string
		want         Xid
		ok           bool
	}{
		{"as the driver writes it", "4,1234,60000000,-;NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n SUBSYSTEM=pci",
			Xid{"0000:17:00", 79, time.Minute}, true},
		{"capitals and a long domain", "4,1,120000000,-;NVRM: Xid (PCI:00000000:1B:00): 31, pid=12, Ch 0000001e", Xid{"00000000:1b:00", 31, 0}, true},
		{"an instance in MIG mode", "4,1,60000000,-;NVRM: Xid (PCI:0000:17:00 GPU-I:05 GPU-CI:00): 94, pid=12, name=a.out", Xid{"0000:17:00", 94, time.Minute}, true},
		{"a GPU instance alone", "4,1,60000000,-;NVRM: Xid (PCI:0000:17:00 GPU-I:05): 94, Contained", Xid{"0000:17:00", 94, time.Minute}, true},
		{"no time", "4,1;NVRM: Xid (PCI:0000:17:00): 79, pid=1", Xid{}, false},
		{"another message of the driver", "4,1,1,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15", Xid{}, false},
		{"no number", "4,1,1,-;NVRM: Xid (PCI:0000:17:00): many, pid=1", Xid{}, false},
		{"a number that is none", "4,1,1,-;NVRM: Xid (PCI:0000:17:00): 99999999999999999999, pid=1", Xid{}, false},
		{"no address", "4,1,1,-;NVRM: Xid (PCI:\x1b[31m): 79, pid=1", Xid{}, false},
		{"no head", "NVRM: Xid (PCI:0000:17:00): 79", Xid{}, false},
		{"nothing", "", Xid{}, false},
	} {
		got, ok := parseXid(tt.record, 2*time.Minute)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, got, ok)
		}
	}
}

// The kernel's log is read to its end without waiting for more.
func TestReadXids(t *testing.T) {
	if list, _ := Xids(); len(list) > 2*mostXids {
		t.Errorf("%d Xids", len(list))
	}
}

// In a storm of Xids the latest are kept. An error means that the log was not read to its end.
func TestXidStorm(t *testing.T) {
	for end, whole := range map[error]bool{unix.EAGAIN: true, unix.EIO: false} {
		const records = 5*mostXids + 7
		i := 0
		list, got := readXids(func(record []byte) (int, error) {
			switch i++; {
			case i == 3:
				return 0, unix.EPIPE
			case i > records:
				return 0, end
			}
			return copy(record, fmt.Sprintf("4,%d,%d,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1", i, i)), nil
		}, records*time.Microsecond)
		if n := len(list); got != whole || n < mostXids || n > 2*mostXids || list[n-1].Ago != 0 || list[0].Ago != time.Duration(n-1)*time.Microsecond {
			t.Errorf("%v: %v, %d Xids, of %v to %v ago", end, got, n, list[0].Ago, list[n-1].Ago)
		}
	}
}

func FuzzXid(f *testing.F) {
	f.Add("4,1234,60000000,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1")
	f.Fuzz(func(t *testing.T, record string) {
		defer cost.Watch(t, cost.Parser, len(record))()
		if x, ok := parseXid(record, time.Hour); ok && (x.Number <= 0 || x.Ago < 0 || len(x.PCI) > 14) {
			t.Errorf("%+v", x)
		}
	})
}
