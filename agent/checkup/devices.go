package checkup

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Devices tell what became of the devices that a rank had when it fails: its GPUs and its host's adapters.
//
//	job starts ──▶ WatchDevices: ports that are up, GPUs' health                 (NVIDIA's library takes a while: beside the start)
//	rank fails ──▶ AtOnce: Xids of the kernel's log, ports that are down   (with its exit)
//	           └─▶ Later:  GPUs' health against that of the start          (with its output's end, within HealthBound)
//
// The kernel's log and NVIDIA's library tell of the whole node. What is of other GPUs, or was before the rank's start, is none of its
// business and is not told.
//
// A Devices may be asked by any number of goroutines.

// Bounds.
const (
	HealthBound = 4 * time.Second // of a question to NVIDIA's library, which can hang in the kernel
	lasting     = 2 * time.Second // an answer is good for all ranks that fail within it
	mostTrouble = 8               // that are told of one rank at a time
)

// Trouble is what went wrong with a device.
type Trouble struct {
	What   job.DeviceFault
	Device string        // a GPU's PCI address, an adapter's port: "0000:17:00", "mlx5_0:1"
	Number uint32        // of the Xid; how many errors; reasons to be slow
	Ago    time.Duration // of an Xid
}

// Devices are a host's as a job finds them. The zero value knows of none.
type Devices struct {
	gpus   []gpu.GPU // that the container has, as files show them
	ports  []string  // of adapters, that were up
	health func(context.Context) []gpu.GPU

	begun  chan struct{} // closed once the library was asked at the job's start
	before []gpu.GPU     // by it, until then nobody's; nil: it does not tell

	asking sync.Mutex // held while it is asked when ranks fail: those that fail together want one answer
	last   []gpu.GPU  // that answer, guarded by asking
	good   time.Time  // until when it is, guarded by asking
}

// WatchDevices looks at ports, and has background run what asks for the GPUs' health. health asks NVIDIA's library and returns when ctx ends at
// the latest; nil: nobody can.
func WatchDevices(ctx context.Context, gpus []gpu.GPU, health func(context.Context) []gpu.GPU, background func(func())) *Devices {
	d := &Devices{gpus: gpus, ports: activePorts()}
	if health == nil || len(gpus) == 0 {
		return d
	}
	d.health, d.begun = health, make(chan struct{})
	background(func() {
		defer close(d.begun)
		ctx, cancel := awake.Within(ctx, HealthBound)
		defer cancel()
		d.before = d.health(ctx)
	})
	return d
}

// AtOnce is what the kernel tells, of a rank of an age that sees the GPUs of some names; nil: all.
func (d *Devices) AtOnce(names []string, age time.Duration) []Trouble {
	if d == nil {
		return nil
	}
	var xids []Xid
	if len(d.gpus) > 0 {
		xids, _ = Xids()
	}
	var now []string
	if len(d.ports) > 0 {
		now = activePorts()
	}
	return troubles(d.gpus, names, xids, age, d.ports, now)
}

// Later is what NVIDIA's library tells, of a rank that sees the GPUs of some names; nil: all.
func (d *Devices) Later(ctx context.Context, names []string) []Trouble {
	if d == nil || d.health == nil {
		return nil
	}
	ctx, cancel := awake.Within(ctx, HealthBound)
	defer cancel()
	select {
	case <-d.begun:
	case <-ctx.Done():
		return nil
	}
	return worse(d.gpus, names, d.before, d.now(ctx))
}

// Slow is why GPUs that a rank of some names sees are held back now, as NVIDIA's library tells.
func (d *Devices) Slow(ctx context.Context, names []string) (why job.Slow) {
	if d == nil || d.health == nil {
		return 0
	}
	ctx, cancel := awake.Within(ctx, HealthBound)
	defer cancel()
	for _, g := range seen(d.gpus, names, d.now(ctx)) {
		if g.Health != nil {
			why |= g.Health.Slow
		}
	}
	return why
}

// now is the GPUs' health.
func (d *Devices) now(ctx context.Context) []gpu.GPU {
	d.asking.Lock()
	defer d.asking.Unlock()
	if time.Now().After(d.good) {
		d.last = d.health(ctx)
		d.good = time.Now().Add(lasting)
	}
	return d.last
}

// seen are, of the GPUs that the library tells of, those that the container has and a rank of some names sees.
func seen(own []gpu.GPU, names []string, told []gpu.GPU) (list []*gpu.GPU) {
	for i := range told {
		if g := &told[i]; g.Located() && has(own, g, len(told)) && sees(g, names) {
			list = append(list, g)
		}
	}
	return list
}

// has says that a container has a GPU: by its address, or where files show none, since it has as many as the library tells of.
func has(own []gpu.GPU, g *gpu.GPU, told int) bool {
	if !slices.ContainsFunc(own, func(o gpu.GPU) bool { return o.Located() }) {
		return told == len(own)
	}
	return slices.ContainsFunc(own, func(o gpu.GPU) bool { return o.Located() && o.At == g.At })
}

// worse are, of GPUs that the container has and a rank sees, what is worse than before.
func worse(own []gpu.GPU, names []string, before, now []gpu.GPU) (list []Trouble) {
	for _, g := range seen(own, names, now) {
		var then *gpu.Health
		if at := slices.IndexFunc(before, func(o gpu.GPU) bool { return o.At == g.At && o.UUID == g.UUID }); at >= 0 {
			then = before[at].Health
		}
		w := g.Health.Worse(then)
		for _, f := range []struct {
			is     bool
			what   job.DeviceFault
			number uint64
		}{
			{w.Uncorrected > 0, job.GPUMemoryErrors, w.Uncorrected},
			{w.Failed, job.GPUMemoryFailed, 0},
			{w.Pending, job.GPUMemoryPending, 0},
			{w.Slow != 0, job.GPUSlow, uint64(w.Slow)},
		} {
			if f.is && len(list) < mostTrouble {
				list = append(list, Trouble{What: f.what, Device: XidAddress(g.At), Number: uint32(min(f.number, math.MaxUint32))})
			}
		}
	}
	return list
}

// activePorts are the adapters' ports that are up, as "mlx5_0:1".
func activePorts() (list []string) {
	inv := rdma.Read(sysfs.Host(), rdma.Config{})
	for _, h := range inv.Usable() {
		for _, port := range h.Active() {
			list = append(list, fmt.Sprintf("%s:%d", h.Name, port.Number))
		}
	}
	return list
}

// troubles are, of a rank of an age, Xids of GPUs of which it saw those of some names (nil: all), and ports that were up before.
func troubles(gpus []gpu.GPU, names []string, xids []Xid, age time.Duration, before, now []string) (list []Trouble) {
	for _, x := range slices.Backward(xids) { // the latest tells most
		i := slices.IndexFunc(gpus, func(g gpu.GPU) bool { return g.Located() && x.On(g.At) })
		if i < 0 || x.Ago > age || len(list) == mostTrouble || !sees(&gpus[i], names) {
			continue
		}
		what := job.GPUXid
		if x.OfProgram() {
			what = job.GPUXidOfProgram
		}
		list = append(list, Trouble{What: what, Device: x.PCI, Number: uint32(x.Number), Ago: x.Ago})
	}
	for _, port := range before {
		if !slices.Contains(now, port) && len(list) < mostTrouble {
			list = append(list, Trouble{What: job.PortDown, Device: port})
		}
	}
	return list
}

// sees says that one of the names is the GPU's, or of a part of it; without names it is seen.
func sees(g *gpu.GPU, names []string) bool {
	return len(names) == 0 || slices.Contains(names, g.UUID) || slices.ContainsFunc(g.MIG, func(m gpu.MIG) bool { return slices.Contains(names, m.UUID) })
}
