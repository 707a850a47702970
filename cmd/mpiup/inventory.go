package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mpiup/mpiup/agent"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/watch"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/launcher/runmetrics"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// inventory is what this container may use, as files tell it.
func inventory(p *process, log *slog.Logger) (discover.Inventory, gpu.Inventory) {
	inv, err := discover.ReadInventory(sysfs.Host())
	if err != nil {
		log.Info("inventory", "cause", err)
	}
	gpus := gpu.Read(sysfs.Host(), p.lookup)
	inv.GPUs, inv.Vendor = len(gpus.Units()), string(gpus.Vendor)
	return inv, gpus
}

// helpers are what is there beside this program.
func helpers() agent.Helpers {
	return agent.Helpers{GPU: beside("mpiup-nvml"), Waits: beside(watch.LibraryName), Spans: beside(runmetrics.Helper)}
}

// beside is a file beside this program; "" where it is not.
func beside(name string) string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(exe), name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// askPrograms is how programs are asked of GPUs outside of an agent.
func askPrograms(env []string, lookup func(string) (string, bool)) (cfg gpu.Config, done func()) {
	super, done := reap.Parent()
	run := func(ctx context.Context, argv []string) (gpu.Result, error) {
		o, err := reap.CollectTool(ctx, super(), reap.Tool{Argv: argv, Env: env}, gpu.MaxReport)
		return gpu.Result{Out: o.Out, Err: o.Err, Code: o.Exit.Status()}, err
	}
	return gpu.Config{Env: lookup, Helper: helpers().GPU, Run: run}, done
}
