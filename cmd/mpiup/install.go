package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/watch"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/spf13/cobra"
)

// installCommand is for an init container that brings mpiup into somebody else's image: the
// mpiup image is made from scratch and has no cp.
func installCommand(p *process) *cobra.Command {
	var names []string
	c := &cobra.Command{
		Use:   "install [flags] DIR",
		Short: "Copy this binary into a directory, for an init container",
		Long: `Copy this binary to DIR/mpiup, and make links to it with the names of --names beside it. What stands beside this
binary, as in the images, is copied too: mpiup-nvml, which asks NVIDIA's library for GPUs, mpiup-otel, which sends
spans, and libmpiup-watch.so, which finds slow ranks (--watch-ranks).

In an init container of the mpiup image, with DIR on an emptyDir volume, it brings mpiup into a
pod whose own image does not have it (examples/mpijob-any-image.yaml). With DIR first on PATH its
mpirun, mpiexec and ssh are mpiup. A file of such a name that is not mpiup is not replaced.`,
		Example: `  mpiup install /opt/mpiup
  mpiup install --names all /opt/mpiup
  mpiup install --names sshd,ssh /opt/mpiup`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(errors.New("install takes one directory, such as /opt/mpiup"))
			}
			links, err := linkNames(names)
			if err != nil {
				return usage(err)
			}
			paths, err := installWith(args[0], helpers().Files(), links)
			if err != nil {
				return &exitError{job.ExitOutput, fmt.Errorf("install: %w", err)}
			}
			_, err = visible.Fprint(p.stdout, strings.Join(paths, "\n")+"\n")
			return err
		},
	}
	c.Flags().StringSliceVar(&names, "names", nil, "also make links of these `NAMES`, with commas between; all is "+strings.Join(appletNames(), ", ")+" (default: none)")
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

// installWith is installAll, and links to mpiup beside it, once it is clear that all of it can be done.
func installWith(dir string, helpers, links []string) (paths []string, err error) {
	names := append([]string{"mpiup"}, links...)
	for _, h := range helpers {
		names = append(names, filepath.Base(h))
	}
	if err = free(dir, names); err != nil {
		return nil, err
	}
	if paths, err = installAll(dir, helpers); err != nil {
		return nil, err
	}
	for _, n := range links {
		if err := link(dir, n, "mpiup"); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// free looks whether dir can take files of these names. What is there and is no mpiup stays.
func free(dir string, names []string) error {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not there: make it, or mount a volume there", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", dir)
	}
	for _, n := range names {
		path := filepath.Join(dir, n)
		if _, err := os.Lstat(path); err == nil && !ours(path) && !isWatch(path) {
			return fmt.Errorf("%s is there and is not mpiup: remove it, or choose another directory", path)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isWatch says that a file is the library for --watch-ranks, by its own name.
func isWatch(path string) bool {
	f, err := bounded.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	o, err := mpilib.Read(f)
	return err == nil && o.Name == watch.LibraryName
}

// link makes dir/name a link to a program, which is there at any time if it was before.
func link(dir, name, to string) error {
	temp, err := os.MkdirTemp(dir, ".mpiup-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.Symlink(to, filepath.Join(temp, name)); err != nil {
		return err
	}
	return os.Rename(filepath.Join(temp, name), filepath.Join(dir, name))
}

// installAll copies this binary and its helpers.
func installAll(dir string, helpers []string) (paths []string, err error) {
	path, err := install("/proc/self/exe", dir, "mpiup")
	if err != nil {
		return nil, err
	}
	paths = append(paths, path)
	for _, h := range helpers {
		if path, err = install(h, dir, filepath.Base(h)); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// install copies from to dir/name, which is whole or not there at any time.
func install(from, dir, name string) (path string, err error) {
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
	path = filepath.Join(dir, name)
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		os.Remove(out.Name())
		return "", err
	}
	return path, nil
}
