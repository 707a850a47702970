package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/mpiup/mpiup/cmd/mpiup/draw"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/capture"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
	"github.com/mpiup/mpiup/topology/usable"
	"github.com/spf13/cobra"
)

// topoFlags are the flags of mpiup topo.
type topoFlags struct {
	root, capture string
	json, svg     bool
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
  mpiup topo --svg > host.svg
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
	fs.BoolVar(&f.svg, "svg", false, "print a picture in SVG")
	fs.StringVar(&f.capture, "capture", "", "write the machine to this `FILE` (- for standard output) instead of showing it")
	fs.StringVar(&f.root, "root", "", "read the machine of this `DIR`, which holds sys/ and proc/, or of a captured file, and nothing of this process")
	c.MarkFlagsMutuallyExclusive("json", "svg", "capture")
	return c
}

// source is a machine's files in the two ways in which they are read.
type source struct {
	fsys  fs.FS
	files sysfs.FS
	cfg   discover.Config
	gpus  gpu.Config // who is asked of GPUs besides files
	close func() error
}

func showTopo(ctx context.Context, p *process, f topoFlags) error {
	view := &draw.View{Name: p.host}
	asked, done := askPrograms(p)
	defer done()
	src := source{fsys: os.DirFS("/"), files: sysfs.Host(), gpus: asked, close: func() error { return nil }}
	if f.root != "" {
		var err error
		if src, err = openRoot(f.root); err != nil {
			return err
		}
		view.Name = f.root
	}
	defer src.close()
	if f.capture != "" {
		return writeCapture(p, f.capture, src.files)
	}
	if err := look(ctx, view, src); err != nil {
		if f.root != "" {
			return fmt.Errorf("in %s: %w", f.root, err)
		}
		return err
	}
	switch {
	case f.json:
		return draw.JSON(p.stdout, view)
	case f.svg:
		return draw.SVG(p.stdout, view)
	}
	return draw.Text(p.stdout, view)
}

// openRoot opens a directory or a captured file that holds a machine. Pages are of 4 KiB there: this
// process's say nothing of another machine.
func openRoot(name string) (source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return source{}, err
	}
	none := func(string) (string, bool) { return "", false }
	src := source{cfg: discover.Config{PageSize: 4096}, gpus: gpu.Config{Env: none}, close: func() error { return nil }}
	if info.IsDir() {
		dir, err := sysfs.OpenDir(name)
		if err != nil {
			return source{}, err
		}
		src.fsys, src.close = dir, dir.Close
	} else if src.fsys, err = readCapture(name, info); err != nil {
		return source{}, err
	}
	if src.files = sysfs.New(src.fsys); !src.files.Exists("sys") && !src.files.Exists("proc") {
		src.close()
		return source{}, fmt.Errorf("%s holds neither sys/ nor proc/", name)
	}
	return src, nil
}

func readCapture(name string, info fs.FileInfo) (fs.FS, error) {
	if !info.Mode().IsRegular() || info.Size() > capture.MaxBytes {
		return nil, fmt.Errorf("%s is neither a directory nor a file of at most %d bytes", name, capture.MaxBytes)
	}
	text, err := bounded.Regular(name, capture.MaxBytes)
	if err != nil {
		return nil, err
	}
	files, err := capture.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return files.FS(), nil
}

func writeCapture(p *process, name string, files sysfs.FS) error {
	taken, err := capture.Take(files)
	if err != nil {
		return err
	}
	text := capture.Format("Captured by mpiup topo --capture ("+version+").", taken)
	if len(text) > capture.MaxBytes {
		return fmt.Errorf("%s would have %d bytes; the limit is %d", name, len(text), capture.MaxBytes)
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

// maxNotes is how many notes are shown.
const maxNotes = 20

// look fills in a view. A file that is there and cannot be understood becomes a note.
func look(ctx context.Context, v *draw.View, src source) (err error) {
	more := 0
	note := func(err error) {
		switch text := err.Error(); {
		case slices.Contains(v.Notes, text):
		case len(v.Notes) < maxNotes:
			v.Notes = append(v.Notes, text)
		default:
			more++
		}
	}
	files := src.files.Noting(note)
	if v.Machine, err = discover.Machine(files, src.cfg); err != nil {
		return err
	}
	if v.Limits, err = usable.Limit(src.fsys, v.Machine); err != nil {
		note(err)
	}
	v.GPUs = gpu.Survey(files, src.gpus.Env, v.Machine)
	src.gpus.FS = files
	if v.Driver, err = gpu.Ask(ctx, src.gpus); err != nil && ctx.Err() == nil {
		note(err)
	}
	v.GPUs = gpu.Merge(v.GPUs, v.Driver)
	v.HCAs = rdma.Read(files, rdma.Config{Survey: true})
	v.HCAs.AddIdle(files, v.Machine)
	if more > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("and %d more files like these", more))
	}
	return nil
}
