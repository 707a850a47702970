package main

import (
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/draw"
	"github.com/mpiup/mpiup/topology/sysfs"
	"github.com/mpiup/mpiup/topology/usable"
	"github.com/spf13/cobra"
)

// topoFlags are the flags of mpiup topo.
type topoFlags struct {
	root string
	json bool
}

func topoCommand(p *process) *cobra.Command {
	var f topoFlags
	c := &cobra.Command{
		Use:   "topo",
		Short: "Show this machine: processors, memory, GPUs, HCAs, and what of it may be used",
		Long: `Show this machine: packages, NUMA nodes, caches and cores, the GPUs and HCAs where they hang,
and what of it this container may use (affinity mask, cpuset, CPU quota, device files).`,
		Example: `  mpiup topo
  mpiup topo --json | jq .summary
  mpiup topo --root /mnt/other       the machine whose sys/ and proc/ are there`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := p.topo(f); err != nil {
				return usage(fmt.Errorf("topo: %w", err))
			}
			return nil
		},
	}
	fs := c.Flags()
	fs.BoolVar(&f.json, "json", false, "print JSON, which begins with a summary")
	fs.StringVar(&f.root, "root", "", "read the machine whose sys/ and proc/ are in this `DIR`, and nothing of this process")
	_ = c.MarkFlagDirname("root")
	return c
}

func (p *process) topo(f topoFlags) error {
	view := &draw.View{Name: p.host}
	var fsys fs.FS = os.DirFS("/")
	files, cfg := sysfs.Host(), discover.Config{}
	if f.root != "" {
		dir, err := openRoot(f.root)
		if err != nil {
			return err
		}
		defer dir.Close()
		view.Name, fsys, files = f.root, dir, sysfs.New(dir)
		cfg.PageSize = 4096
	}
	if err := look(view, fsys, files, cfg); err != nil {
		if f.root != "" {
			return fmt.Errorf("below %s: %w", f.root, err)
		}
		return err
	}
	if f.json {
		return draw.JSON(p.stdout, view)
	}
	return draw.Text(p.stdout, view)
}

// openRoot opens a directory that holds a machine.
func openRoot(dir string) (sysfs.Dir, error) {
	d, err := sysfs.OpenDir(dir)
	if err != nil {
		return d, err
	}
	if f := sysfs.New(d); !f.Exists("sys") && !f.Exists("proc") {
		d.Close()
		return d, fmt.Errorf("%s holds neither sys/ nor proc/", dir)
	}
	return d, nil
}

// maxNotes is how many notes are shown.
const maxNotes = 20

// look fills in a view. A file that is there and cannot be understood becomes a note.
func look(v *draw.View, fsys fs.FS, files sysfs.FS, cfg discover.Config) (err error) {
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
	files = files.Noting(note)
	if v.Machine, err = discover.Machine(files, cfg); err != nil {
		return err
	}
	if v.Limits, err = usable.Limit(fsys, v.Machine); err != nil {
		note(err)
	}
	v.Devices = usable.Devices(files, v.Machine)
	if more > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("and %d more files like these", more))
	}
	return nil
}
