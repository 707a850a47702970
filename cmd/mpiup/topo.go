package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mpiup/mpiup/cmd/mpiup/draw"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
	"github.com/spf13/cobra"
)

// topoFlags are the flags of mpiup topo.
type topoFlags struct {
	root, capture string
	json          bool
}

func topoCommand(p *process) *cobra.Command {
	var f topoFlags
	c := &cobra.Command{
		Use:   "topo",
		Short: "Show this machine: processors, memory, GPUs, HCAs, and what of it may be used",
		Long: `Show this machine: packages, NUMA nodes, caches and cores, the GPUs and HCAs where they hang,
and what of it this container may use (affinity mask, cpuset, CPU quota, device files).

--capture writes what was read as one text file, which --root reads on any other machine. It
holds no environment, host name, serial number, UUID, address or name of a pod.`,
		Example: `  mpiup topo
  mpiup topo --json | jq .summary
  mpiup topo --capture host.txtar    write a file for others to look at
  mpiup topo --root host.txtar       and look at it
  mpiup topo --root /mnt/other       the machine whose sys/ and proc/ are there`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := showTopo(c.Context(), p, f)
			var file *fs.PathError
			switch {
			case errors.As(err, &file) && file.Op == "write":
				return &exitError{job.ExitOutput, fmt.Errorf("topo: %w", err)}
			case err != nil:
				return usage(fmt.Errorf("topo: %w", err))
			}
			return nil
		},
	}
	fs := c.Flags()
	fs.BoolVar(&f.json, "json", false, "print JSON, which begins with a summary")
	fs.StringVar(&f.capture, "capture", "", "write the machine to this `FILE` (- for standard output) instead of showing it")
	fs.StringVar(&f.root, "root", "", "read the machine of this `DIR`, which holds sys/ and proc/, or of a captured file, and nothing of this process")
	c.MarkFlagsMutuallyExclusive("json", "capture")
	return c
}

func showTopo(ctx context.Context, p *process, f topoFlags) error {
	asked, done := askPrograms(p.env, p.lookup)
	defer done()
	name, src := p.host, draw.Here(asked)
	if f.root != "" {
		var err error
		if src, err = draw.Open(f.root); err != nil {
			return err
		}
		name = f.root
	}
	defer src.Close()
	if f.capture != "" {
		return writeCapture(p, f.capture, src.Files)
	}
	view, err := draw.Look(ctx, name, src)
	if err != nil {
		if f.root != "" {
			return fmt.Errorf("in %s: %w", f.root, err)
		}
		return err
	}
	if f.json {
		return draw.JSON(p.stdout, view)
	}
	return draw.Text(p.stdout, view)
}

func writeCapture(p *process, name string, files sysfs.FS) error {
	taken, err := discover.Take(files)
	if err != nil {
		return err
	}
	text := discover.Format("Captured by mpiup topo --capture ("+version+").", taken)
	if len(text) > discover.MaxBytes {
		return fmt.Errorf("%s would have %d bytes; the limit is %d", name, len(text), discover.MaxBytes)
	}
	if name == "-" {
		_, err = p.stdout.Write(text)
		return err
	}
	if err := outfile.Write(name, text); err != nil {
		return err
	}
	visible.Fprintf(p.stderr, "mpiup: wrote %s: %d files in %d bytes\n", name, len(taken), len(text))
	return nil
}
