package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/spf13/cobra"
)

// installCommand is for an init container that brings mpiup into somebody else's image: the
// mpiup image is made from scratch and has no cp.
func installCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "install DIR",
		Short: "Copy this binary into a directory, for an init container",
		Long: `Copy this binary to DIR/mpiup.

In an init container of the mpiup image, with DIR on an emptyDir volume, it brings mpiup into a
pod whose own image does not have it (examples/mpijob-any-image.yaml).`,
		Example: `  mpiup install /opt/mpiup`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(errors.New("install takes one directory, such as /opt/mpiup"))
			}
			path, err := install("/proc/self/exe", args[0])
			if err != nil {
				return &exitError{job.ExitInternal, fmt.Errorf("install: %w", err)}
			}
			fmt.Fprintln(p.stdout, path)
			return nil
		},
	}
}

// install copies from to dir/mpiup, which is whole or not there at any time.
func install(from, dir string) (path string, err error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp(dir, ".mpiup-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(0o755), out.Close())
	path = filepath.Join(dir, "mpiup")
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		os.Remove(out.Name())
		return "", err
	}
	return path, nil
}
