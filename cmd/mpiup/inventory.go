package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/topology/sysfs"
	"github.com/mpiup/mpiup/topology/usable"
)

// inventory is what this container may use, as files tell it.
func (p *process) inventory(log *slog.Logger) (usable.Inventory, gpu.Inventory) {
	inv, err := usable.Read(os.DirFS("/"))
	if err != nil {
		log.Info("inventory", "cause", err)
	}
	gpus := gpu.Read(sysfs.Host(), p.lookup)
	inv.GPUs, inv.Vendor = len(gpus.Units()), string(gpus.Vendor)
	return inv, gpus
}

// helper is mpiup-nvml beside this program; "" where it is not.
func helper() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(exe), "mpiup-nvml")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
