package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// lookPath finds programs on this process's PATH, and then in dir.
func (p *process) lookPath(dir string) func(name string) (string, error) {
	return func(name string) (string, error) {
		if all := p.onPath(name, dir); len(all) > 0 {
			return all[0], nil
		}
		if path := filepath.Join(dir, name); runs(path) {
			return path, nil
		}
		return "", fmt.Errorf("%.100s is not on this host's PATH or in %s: write it with its directory", name, dir)
	}
}

// onPath are all programs of a name on PATH, by their absolute paths, in its order.
func (p *process) onPath(name, dir string) (all []string) {
	if strings.Contains(name, "/") || name == "" {
		return nil
	}
	for _, d := range filepath.SplitList(p.getenv("PATH")) {
		if !filepath.IsAbs(d) { // an empty one is this directory
			d = filepath.Join(dir, d)
		}
		if path := filepath.Join(d, name); runs(path) {
			all = append(all, path)
		}
	}
	return all
}

// runs says that path is a program.
func runs(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0
}
