package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/mpiup/mpiup/agent"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/watch"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// inventory is what this container may use, as files tell it.
func inventory(p *process, log *slog.Logger) (discover.Inventory, gpu.Inventory) {
	inv, err := discover.ReadInventory(os.DirFS("/"))
	if err != nil {
		log.Info("inventory", "cause", err)
	}
	gpus := gpu.Read(sysfs.Host(), p.lookup)
	inv.GPUs, inv.Vendor = len(gpus.Units()), string(gpus.Vendor)
	return inv, gpus
}

// helpers are what is there beside this program.
func helpers() agent.Helpers {
	return agent.Helpers{GPU: beside("mpiup-nvml"), Waits: beside(watch.LibraryName)}
}

// helper is mpiup-nvml beside this program; "" where it is not.
func helper() string { return beside("mpiup-nvml") }

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

// askPrograms is how programs are asked of GPUs outside of an agent. What it needs is made when the first one
// is run, and gone after done.
func askPrograms(p *process) (cfg gpu.Config, done func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	super := sync.OnceValue(func() *reap.Supervisor {
		s := reap.New(reap.Config{Log: slog.New(slog.DiscardHandler)})
		running.Go(func() { _ = s.Run(ctx) }) // what hangs in the kernel ends without us
		return s
	})
	run := func(ctx context.Context, c gpu.Command) (gpu.Result, error) {
		o, err := reap.Collect(ctx, super(), reap.Command{Argv: c.Argv, Env: p.env}, c.Limit)
		code := o.Exit.Code
		if o.Exit.Signal != 0 {
			code = 128 + o.Exit.Signal
		}
		return gpu.Result{Out: o.Out, Err: o.Err, Code: code}, err
	}
	return gpu.Config{Env: p.lookup, Helper: helper(), Run: run}, func() {
		cancel()
		running.Wait()
	}
}
