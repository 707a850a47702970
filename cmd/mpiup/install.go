package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/cmd/mpiup/install"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

func installCommand(p *process) *cobra.Command {
	var names []string
	c := &cobra.Command{
		Use:   "install [flags] DIR",
		Short: "Copy this binary into a directory, for an init container",
		Long: `Copy this binary to DIR/mpiup, which is made where its parent is there, and make
links to it with the names of --names beside it. What stands beside this
binary, as in the images, is copied too: mpiup-nvml, which asks NVIDIA's library for GPUs, mpiup-otel, which sends
spans, and libmpiup-watch.so, which finds slow ranks (--watch-ranks).

In an init container of the mpiup image, with DIR on an emptyDir volume, it brings mpiup into a
pod whose own image does not have it (examples/mpijob-any-image.yaml). With DIR first on PATH its
mpirun, mpiexec and ssh are mpiup. A file of such a name that is not mpiup is not replaced.`,
		Example: `  mpiup install /opt/mpiup
  mpiup install --names all /opt/mpiup
  mpiup install --names sshd,ssh /opt/mpiup`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usage(errors.New("install takes one directory, last: mpiup install --names all /opt/mpiup"))
			}
			links, err := linkNames(names)
			if err != nil {
				return usage(err)
			}
			paths, made, err := install.To(args[0], helpers().Files(), links)
			if err != nil {
				return &exitError{job.ExitOutput, fmt.Errorf("install: %w", err)}
			}
			if made {
				visible.Fprintf(p.stderr, "mpiup: made %s, mode 0755\n", args[0])
			}
			_, err = visible.Fprint(p.stdout, strings.Join(paths, "\n")+"\n")
			return err
		},
	}
	c.Flags().StringSliceVar(&names, "names", nil,
		"also make links of these `NAMES`, with commas between; all is "+strings.Join(appletNames(), ", ")+" (default: none)")
	return c
}

// appletNames are the names by which mpiup stands in for other programs.
func appletNames() []string { return slices.Sorted(maps.Keys(applets())) }

// linkNames are the names that a list of --names means.
func linkNames(list []string) (names []string, err error) {
	for _, n := range list {
		switch {
		case n == "all":
			names = append(names, appletNames()...)
		case !slices.Contains(appletNames(), n):
			return nil, fmt.Errorf("--names: mpiup does not go by the name %.40q; use all, or some of %s", n, strings.Join(appletNames(), ", "))
		default:
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
