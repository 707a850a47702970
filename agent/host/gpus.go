package host

import (
	"context"
	"sync"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// gpus is what this host's GPUs are by the best source, which may be a program that takes seconds
// and is asked once. The zero value has not asked yet.
type gpus struct {
	mu    sync.Mutex // held while it asks: others want the same answer
	asked bool       // guarded by mu
	inv   gpu.Inventory
}

// GPUs asks, unless that was done. A launch that is given up is not waited for.
func (h *Host) GPUs(ctx context.Context) gpu.Inventory {
	h.gpus.mu.Lock()
	defer h.gpus.mu.Unlock()
	if h.gpus.asked {
		return h.gpus.inv
	}
	inv, err := h.cfg.Ask(ctx, h.gpuConfig())
	if err != nil {
		h.cfg.Log.Info("GPUs: a better source tells nothing", "used", inv.Source, "cause", err)
	}
	if h.gpus.asked = ctx.Err() == nil; h.gpus.asked {
		h.gpus.inv = inv
	}
	return inv
}

func (h *Host) gpuConfig() gpu.Config {
	return gpu.Config{FS: sysfs.Host(), Env: h.Getenv, Helper: h.cfg.GPUHelper, Run: h.cfg.Run}
}

// Health is the GPUs as mpiup-nvml, or nvidia-smi, tells of them now; nil where neither does before ctx ends.
func (h *Host) Health(ctx context.Context) []gpu.GPU {
	if inv, err := h.cfg.Ask(ctx, h.gpuConfig()); err == nil || inv.Source != "" {
		return inv.GPUs
	}
	return nil
}
