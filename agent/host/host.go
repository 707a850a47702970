// Package host is what this host is, read when first wanted. It has the machine and where its CPUs lie, GPUs by the best
// source, RDMA devices, network interfaces and cgroups, and what Open MPI's own files set. It also has the shell of the host's user,
// and the directories that an agent may write to.
//
//	/sys, /proc ──▶ Machine, Layout, HCAs     again when what the container may use has changed
//	/proc/net   ──▶ Interfaces                each time
//	nvidia-smi… ──▶ GPUs                      once: it may take seconds
//	Machine     ──▶ XML ──▶ Hints             files in memory that ranks read
//	run dir     ──▶ Announce, ReadRecord      which agent is this container's, and where it listens
//
// Concurrency: all methods may be called by several goroutines; those that read wait for each other.
//
// It decides nothing by what it reads: what ranks are told of it is agent/outfit's.
package host

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Config is what a Host cannot read.
type Config struct {
	Env       []string                                                 // the container's
	GPUHelper string                                                   // mpiup-nvml with its directory; "": there is none
	Run       func(context.Context, []string) (gpu.Result, error)      // runs a program that tells of GPUs
	Ask       func(context.Context, gpu.Config) (gpu.Inventory, error) // nil: gpu.Ask
	RunDir    string                                                   // where the record of this agent is kept; "" for none
	Log       *slog.Logger
}

// Host is this host.
type Host struct {
	cfg     Config
	machine known
	gpus    gpus
	cgroups func() *discover.Cgroups

	unanswered atomic.Int32 // questions about the directory of sessions' directories that were given up and still stand
}

// New reads nothing yet.
func New(c Config) *Host {
	if c.Ask == nil {
		c.Ask = gpu.Ask
	}
	return &Host{cfg: c, cgroups: sync.OnceValue(func() *discover.Cgroups { return discover.FindCgroups(sysfs.Host()) })}
}

// Cgroups is this process's, looked up once.
func (h *Host) Cgroups() *discover.Cgroups { return h.cgroups() }

// Machine is this host's machine.
func (h *Host) Machine() (*topology.Machine, error) { return h.machine.get(sysfs.Host()) }

// XML is hwloc's XML of the machine. It takes some milliseconds the first time, and reads one file afterwards.
func (h *Host) XML() (string, error) { return h.machine.xml(sysfs.Host()) }

// Layout is where the CPUs lie that ranks here may use now. They are exclusive if no quota is below them, and they are part of
// the machine or have a quota.
func (h *Host) Layout() (*layout.Layout, *topology.Machine, error) {
	m, err := h.Machine()
	if err != nil {
		return nil, nil, err
	}
	limits, err := h.Cgroups().Limit(m)
	if err != nil {
		return nil, nil, err
	}
	l, err := m.Layout(limits.CPUs)
	if err == nil {
		l.Exclusive = limits.Sharing == discover.Exclusive || limits.Sharing == discover.Whole && limits.Quota > 0
	}
	return l, m, err
}

// HCAs is the host's RDMA devices, those included that the container was not given.
func (h *Host) HCAs() rdma.Inventory {
	fsys := sysfs.Host()
	inv := rdma.Read(fsys, rdma.Config{Addresses: Addresses})
	if m, err := h.Machine(); err == nil {
		inv.AddIdle(fsys, m)
	}
	return inv
}

// Addresses is those of this host's interfaces.
func Addresses() (list []rdma.Address) {
	links, err := Links()
	if err != nil {
		return nil // entries of interfaces that can be seen count without
	}
	for _, l := range links {
		for _, a := range l.Addrs {
			list = append(list, rdma.Address{Interface: l.Name, IP: a.Addr()})
		}
	}
	return list
}

// Getenv is a variable of the container's.
func (h *Host) Getenv(name string) (string, bool) { return Lookup(name, h.cfg.Env) }

// Lookup is a variable in the first of some environments that has it: its last value there.
func Lookup(name string, envs ...[]string) (value string, ok bool) {
	for _, env := range envs {
		for _, kv := range slices.Backward(env) {
			if value, ok = strings.CutPrefix(kv, name+"="); ok {
				return value, true
			}
		}
	}
	return "", false
}

// TempDir is where ranks put temporary files, unless they are told otherwise.
func (h *Host) TempDir() string {
	dir, _ := h.Getenv("TMPDIR")
	return cmp.Or(dir, "/tmp")
}

// Memory is what this container uses of its memory, in steps that are worth telling, and how much it may, both in bytes; 0: it does not show, or has no
// limit.
func (h *Host) Memory() (used, limit uint64) {
	const steps, unlimited = 128, 64 << 20
	limit = h.Cgroups().MemoryLimit()
	step := max(limit/steps, 1)
	if limit == 0 {
		step = unlimited
	}
	return h.Cgroups().MemoryUsed() / step * step, limit
}
