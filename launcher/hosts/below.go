package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/hostlist"
)

// ReadBelow reads a file that a rank named. It must lie below dir, which the user named, whatever links lie there.
// ReadBelow reads regular files only: others may never end. No error quotes the file: a rank may name one that it
// cannot read itself.
func ReadBelow(dir, path string) ([]hostlist.Entry, error) {
	root, err := bounded.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("--spawn-hostfiles %s: %w", dir, bounded.Cause(err))
	}
	defer root.Close()
	name := path
	if filepath.IsAbs(path) {
		base, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if name, err = filepath.Rel(base, path); err != nil {
			return nil, err
		}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe without a writer must not hold us
	if err != nil {
		return nil, fmt.Errorf("hostfile %.200q is not to be had below %s (--spawn-hostfiles): %w", path, dir, bounded.Cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("hostfile %.200q below %s is no regular file", path, dir)
	}
	text, err := bounded.Read(f, hostlist.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("hostfile %.200q below %s cannot be read as one", path, dir)
	}
	entries, err := hostlist.ParseFile(string(text), path, hostlist.Own)
	var line *hostlist.LineError
	switch {
	case errors.As(err, &line):
		return nil, fmt.Errorf("hostfile %.200q below %s: line %d is none of a hostfile", path, dir, line.Line)
	case err != nil:
		return nil, fmt.Errorf("hostfile %.200q below %s cannot be read as one", path, dir)
	}
	return entries, nil
}
