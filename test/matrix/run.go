package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runStack runs programs with one library.
func (m *matrix) runStack(ctx context.Context, s stack, ps []program) error {
	if err := m.prepare(ctx, s, ps); err != nil {
		return err
	}
	l, err := newLab(ctx, m, s)
	if err != nil {
		return err
	}
	defer func() { // of the last one, a cell may have replaced it
		if err := l.close(); err != nil {
			fmt.Fprintf(m.out, "%s: %v\n", s.name, err)
		}
	}()
	version := m.version(ctx, l, s)
	for _, p := range ps {
		for _, at := range []where{one, several} {
			if err := ctx.Err(); err != nil {
				return err
			}
			if m.peers {
				if err := m.peer(ctx, l, s, p, at); err != nil {
					return err
				}
				continue
			}
			r := m.cell(ctx, l, s, p, at)
			if race := s.races[p.name]; race != "" && r.Word == fails {
				if r = m.cell(ctx, l, s, p, at); r.Word == ok {
					r.Reason = "in a second attempt: " + race
				}
			}
			r.Version, r.Commit, r.Date = version, m.commit, time.Now().UTC().Format("2006-01-02")
			if err := m.save(r); err != nil {
				return err
			}
			fmt.Fprintf(m.out, "%-18s %-17s %-9s %-5s %6.1fs %s\n", s.name, p.name, at, r.Word, r.Seconds, r.Reason)
			if r.Word != fails {
				continue
			}
			// What a failure leaves behind must not become the next cell's.
			if err := l.close(); err != nil {
				fmt.Fprintf(m.out, "%s: %v\n", s.name, err)
			}
			next, err := newLab(ctx, m, s)
			if err != nil {
				return err
			}
			l = next
		}
	}
	return nil
}

// prepare brings the stack's files and what its programs need.
func (m *matrix) prepare(ctx context.Context, s stack, ps []program) error {
	script := filepath.Join(m.root, "test", "matrix", "prepare.sh")
	var todo [][]string
	if s.tree != "" {
		todo = append(todo, []string{"tree", s.tree})
	}
	if name := s.environment(); name != "" {
		wheels := s.wheels
		if len(wheels) == 0 {
			wheels = []string{"mpi4py==" + mpi4pyVersion, "numpy"}
		}
		todo = append(todo, append([]string{"wheels", name}, wheels...))
	}
	for _, p := range ps {
		if p.kind == suite {
			todo = append(todo, []string{"suite", s.suiteVersion()})
			break
		}
	}
	for _, args := range todo {
		cmd := exec.CommandContext(ctx, script, args...)
		cmd.Stdout, cmd.Stderr = m.out, m.out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("prepare.sh %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// version is the first line that the library says of itself and that has a digit.
func (m *matrix) version(ctx context.Context, l *lab, s stack) string {
	argv := make([]string, len(s.version))
	for i, a := range s.version {
		argv[i] = s.expand(m.cache, a)
	}
	cmd := l.command(ctx, argv...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, s.environ(m)...)
	out, err := cmd.Output()
	for line := range strings.Lines(string(out)) {
		if strings.ContainsAny(line, "0123456789") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	return fmt.Sprintf("not known (%v)", err)
}

// cell runs one cell and judges it.
func (m *matrix) cell(ctx context.Context, l *lab, s stack, p program, at where) result {
	r := result{Stack: s.name, Program: p.name, Where: at, Word: notApplicable}
	if r.Reason = p.missing(s, at, m.cache); r.Reason != "" {
		return r
	}
	program, err := m.program(ctx, l, s, p)
	if err != nil {
		r.Word, r.Reason = fails, "it does not compile: "+lastLine(err.Error())
		return m.keep(r, nil, err.Error())
	}
	argv := append(append([]string{m.bin, "run"}, m.flags(s, p, at)...), program...)
	start := time.Now()
	end := m.start(ctx, l, p, argv, nil)
	r.Seconds = time.Since(start).Seconds()
	end.left = l.left(ctx)
	r.Word, r.Reason = p.judge(end, at)
	if p.kind == suite {
		r.Suite = summary(end.stderr)
		if n := len(r.Suite.Failed); n > 0 {
			r.Reason = fmt.Sprintf("%d of %d tests failed: %s", n, r.Suite.Ran, grouped(r.Suite.Failed))
		}
	}
	if r.Word == fails {
		return m.keep(r, argv, fmt.Sprintf("exit code %d\n-- stdout:\n%s\n-- stderr:\n%s\n%s\n", end.code, end.stdout, end.stderr, l.said()))
	}
	return r
}

// start runs argv on the launcher's host to its end, or to the end of the program's time.
func (m *matrix) start(ctx context.Context, l *lab, p program, argv, env []string) ended {
	ctx, cancel := context.WithTimeout(ctx, p.limit())
	defer cancel()
	var stdout, stderr output
	cmd := l.command(ctx, argv...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &stdout, &stderr, env
	if now, err := os.Create(filepath.Join(m.dir, "now.txt")); err == nil { // for who watches
		defer now.Close()
		cmd.Stderr = io.MultiWriter(&stderr, now)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	return ended{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode(), err: err,
		late: errors.Is(ctx.Err(), context.DeadlineExceeded)}
}

// hosts are two hosts with room for half of n ranks each.
func hosts(n int) string {
	half := (n + 1) / 2
	if n == 1 { // those that it spawns go to the other host, too
		return "w0:2,w1:2"
	}
	return fmt.Sprintf("w0:%d,w1:%d", half, half)
}

// flags are the arguments of mpiup run before the program.
func (m *matrix) flags(s stack, p program, at where) []string {
	var args []string
	if at == several {
		args = append(args, "--key", m.key, "--host", hosts(p.size()), "--wait", "30s")
	}
	args = append(args, "-n", strconv.Itoa(p.size()), "--oversubscribe")
	if s.openMPI && !m.auto {
		args = append(args, "--mpi", "pmix")
	}
	if p.kind == example { // some spawn another one, which is in their directory
		args = append(args, "--wdir", filepath.Join(m.dir, "build", s.name))
	}
	for _, e := range s.environ(m) {
		args = append(args, "-x", e)
	}
	return args
}

// program is the program and its arguments, compiled if need be.
func (m *matrix) program(ctx context.Context, l *lab, s stack, p program) ([]string, error) {
	switch p.kind {
	case script:
		argv := []string{s.interpreter(m.cache)}
		if p.module != "" {
			argv = append(argv, "-m", p.module)
		}
		return append(argv, filepath.Join(m.dir, "src", p.source+".py")), nil
	case suite:
		dir, err := m.suiteDir(s)
		argv := []string{s.interpreter(m.cache), filepath.Join(m.dir, "src", "suite.py"), dir, filepath.Join(m.dir, "files")}
		argv = append(argv, s.suiteArgs...)
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
	if p.kind == pmixC || p.kind == example {
		text := filepath.Join(src, p.source+".c")
		if p.kind == example {
			text = "/usr/share/doc/libpmix-dev/examples/" + p.source + ".c"
		}
		const debian = "/usr/lib/x86_64-linux-gnu/pmix2"
		argv = []string{"cc", "-O1", "-w", "-D_GNU_SOURCE", "-I" + src, "-I" + debian + "/include", "-o", exe, text,
			"-L" + debian + "/lib", "-lpmix", "-lpthread"}
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
