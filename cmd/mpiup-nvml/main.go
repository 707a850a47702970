//go:build cgo

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/mpiup/mpiup/internal/visible"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, nvml.New(), os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// leastInterval keeps a stream from being a load of its own.
const leastInterval = 100 * time.Millisecond

func run(ctx context.Context, lib nvml.Interface, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("mpiup-nvml", flag.ContinueOnError)
	fs.SetOutput(stderr)
	interval := fs.Duration("interval", 0, "print a report with the GPUs' use every `TIME` (default: one, without)")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if fs.NArg() > 0 || *interval != 0 && *interval < leastInterval {
		fmt.Fprintf(stderr, "mpiup-nvml: the only argument is --interval TIME, at least %v\n", leastInterval)
		return 2
	}
	// Before Init has succeeded no other function may be called: the process would die.
	if ret := lib.Init(); ret != nvml.SUCCESS {
		visible.Fprintf(stderr, "mpiup-nvml: NVML: %s\n", reason(ret))
		return 1
	}
	defer lib.Shutdown()
	s := survey{lib: lib, usage: *interval > 0, warn: stderr}
	if s.usage {
		defer s.listen()()
	}
	if err := s.print(ctx, *interval, stdout); err != nil {
		visible.Fprintln(stderr, "mpiup-nvml:", err)
		return 1
	}
	return 0
}

// reason is what an error of Init means here; nvmlErrorString cannot be called yet.
func reason(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "libnvidia-ml.so.1 is not there (does the container get the driver's libraries, NVIDIA_DRIVER_CAPABILITIES=utility?)"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the driver is not loaded"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission to talk to the driver"
	}
	return fmt.Sprintf("error %d", int(ret))
}

// print writes one report, or one an interval until ctx ends or nobody reads any more.
func (s *survey) print(ctx context.Context, interval time.Duration, to io.Writer) error {
	out := json.NewEncoder(to)
	for {
		report, err := s.report()
		if err != nil {
			return err
		}
		err = out.Encode(report)
		if interval == 0 {
			return err
		}
		if err != nil {
			return nil // the reader of a stream has gone
		}
		if !s.pause(ctx, interval) {
			return nil
		}
	}
}
