package mpilib

import (
	"path"
	"strings"

	"github.com/mpiup/mpiup/agent/mpilib/script"
)

// Activated is the environment after "conda activate NAME", as far as it matters.
func (k *look) Activated(e script.Env, dir, name string) script.Env {
	prefix := k.condaPrefix(e, dir, name)
	if prefix == "" {
		return e
	}
	return e.With("CONDA_PREFIX", prefix).With("PATH", path.Join(prefix, "bin")+":"+e.Get("PATH"))
}

// condaPrefix is where a conda environment lies; "" if it is not found. Its root is that of the
// conda that is active or on PATH, or one of the usual places.
func (k *look) condaPrefix(e script.Env, dir, name string) string {
	if strings.Contains(name, "/") {
		return script.Absolute(dir, name)
	}
	var roots []string
	if v := e.Get("MAMBA_ROOT_PREFIX"); v != "" {
		roots = append(roots, v)
	}
	if v := e.Get("CONDA_EXE"); v != "" {
		roots = append(roots, path.Dir(path.Dir(v)))
	}
	if exe := k.Resolve("conda", e, dir); exe != "" {
		roots = append(roots, path.Dir(path.Dir(k.files.real(exe))))
	}
	roots = append(roots, "/opt/conda")
	if home := e.Get("HOME"); home != "" {
		for _, d := range []string{"miniconda3", "miniforge3", "anaconda3"} {
			roots = append(roots, path.Join(home, d))
		}
	}
	for _, root := range roots {
		prefix := path.Join(root, "envs", name)
		if name == "base" {
			prefix = root
		}
		if k.files.stat(path.Join(prefix, "bin")).dir() {
			return prefix
		}
	}
	return ""
}

// condaRun follows "conda run -n NAME command", and the same of mamba and micromamba.
func (k *look) condaRun(c command, depth int) hit {
	args := c.Argv[2:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, joined := strings.Cut(args[0], "=")
		args = args[1:]
		switch name {
		case "-n", "--name", "-p", "--prefix", "--cwd":
			if !joined {
				if len(args) == 0 {
					return hit{}
				}
				value, args = args[0], args[1:]
			}
			if name == "--cwd" {
				c.Dir = script.Absolute(c.Dir, value)
			} else {
				c.Env = k.Activated(c.Env, c.Dir, value)
			}
		}
	}
	c.Argv = args
	return k.command(c, depth+1)
}
