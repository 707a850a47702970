package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// hosts are two hosts with room for half of n ranks each.
func hosts(n int) string {
	half := (n + 1) / 2
	if n == 1 { // those that it spawns go to the other host, too
		return "w0:2,w1:2"
	}
	return fmt.Sprintf("w0:%d,w1:%d", half, half)
}

// argv is the cell's command line.
func (m *matrix) argv(s stack, p program, at where, program []string) []string {
	args := []string{m.bin, "run"}
	if at == several {
		args = append(args, "--key", m.key, "--host", hosts(p.size()), "--wait", "30s")
	}
	args = append(args, "-n", strconv.Itoa(p.size()), "--oversubscribe")
	if s.openMPI && !m.auto {
		args = append(args, "--mpi", "pmix")
	}
	if p.kind == example || p.kind == simple { // some spawn another one, which is in their directory
		args = append(args, "--wdir", filepath.Join(m.dir, "build", s.name))
	}
	if p.watched {
		args = append(args, "--watch-ranks", "--watch-window", "2s")
	} else if p.bare {
		args = append(args, "--watch-ranks=false")
	}
	for _, e := range s.environ(m) {
		args = append(args, "-x", e)
	}
	if p.kind == suite {
		args = append(args, "-x", "LD_PRELOAD="+m.yielding())
	}
	return append(args, program...)
}

// program is the program and its arguments, compiled if need be.
func (m *matrix) program(ctx context.Context, l *lab, s stack, p program) ([]string, error) {
	switch p.kind {
	case script:
		argv := []string{s.interpreter(m.cache)}
		if p.module != "" {
			argv = append(argv, "-m", p.module)
		}
		return append(append(argv, filepath.Join(m.dir, "src", p.source+".py")), p.args...), nil
	case suite:
		dir, err := m.suiteDir(s)
		argv := []string{s.interpreter(m.cache), filepath.Join(m.dir, "src", "suite.py"), dir, filepath.Join(m.dir, "files")}
		argv = append(argv, s.suiteArgs...)
		if m.tests != "" {
			return append(argv, "-k", m.tests), err
		}
		for _, test := range slices.Sorted(maps.Keys(s.leftOut)) {
			argv = append(argv, "-x", test)
		}
		return argv, err
	}
	if p.also != "" {
		other := p
		other.source = p.also
		if _, err := m.compile(ctx, l, s, other); err != nil {
			return nil, err
		}
	}
	exe, err := m.compile(ctx, l, s, p)
	if err != nil {
		return nil, err
	}
	argv := []string{exe}
	for _, a := range p.args {
		if a == "{file}" {
			a = filepath.Join(m.dir, "files", s.name+"-"+p.name)
			if err := os.RemoveAll(a); err != nil {
				return nil, err
			}
		}
		argv = append(argv, a)
	}
	return argv, nil
}

// compile builds the program with the stack's compiler, in the stack's files.
func (m *matrix) compile(ctx context.Context, l *lab, s stack, p program) (string, error) {
	dir := filepath.Join(m.dir, "build", s.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	exe, src := filepath.Join(dir, p.source), filepath.Join(m.dir, "src")
	argv := []string{s.expand(m.cache, s.mpicc), "-O1", "-Wall", "-rdynamic", "-o", exe, filepath.Join(src, p.source+".c"), "-ldl"}
	if p.kind == pmixC || p.kind == example || p.kind == simple {
		text := filepath.Join(src, p.source+".c")
		switch p.kind {
		case example:
			text = examples + "/" + p.source + ".c"
		case simple: // which has the names of some examples
			src = filepath.Join(src, "simple")
			text = filepath.Join(m.wheels(), "pmix-"+s.tests, "test", "simple", p.source+".c")
			exe += "-simple"
		}
		argv = []string{"cc", "-O1", "-w", "-D_GNU_SOURCE", "-I" + src, "-I" + s.pmix + "/include", "-I" + s.pmix, "-o", exe, text,
			"-L" + s.pmix + "/lib", "-Wl,-rpath," + s.pmix + "/lib", "-lpmix", "-lpthread"}
	}
	cmd := l.command(ctx, argv...)
	if p.kind == mpiC && len(s.wheels) > 0 { // mpicc of a wheel may ask for what stands beside it
		cmd.Env = append([]string{"PATH=" + s.expand(m.cache, "{venv}/bin") + ":/usr/bin:/bin", "HOME=/root"}, s.environ(m)...)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return exe, nil
}
