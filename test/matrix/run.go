package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	testlab "github.com/mpiup/mpiup/test/lab"
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
	defer l.warn(l.close)
	if err := l.mpi4py(ctx); err != nil {
		return err
	}
	version := m.version(ctx, l, s)
	for _, p := range ps {
		for _, at := range []where{one, several} {
			if m.peers || m.tests != "" {
				err = m.show(ctx, l, s, p, at)
			} else {
				err = m.runCell(ctx, l, s, p, at, version)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// runCell runs a cell and keeps what came of it.
func (m *matrix) runCell(ctx context.Context, l *lab, s stack, p program, at where, version string) error {
	r := m.cell(ctx, l, s, p, at)
	if race := s.races[p.name]; race != "" && r.Word == fails {
		if r = m.cell(ctx, l, s, p, at); r.Word == ok {
			r.Word, r.Reason = onRetry, race
		}
	}
	if err := ctx.Err(); err != nil { // it says nothing about the cell
		return err
	}
	r.Version, r.Commit, r.Date = version, m.commit, time.Now().UTC().Format("2006-01-02")
	kept, err := m.load(s.name, p.name, at)
	if err != nil {
		return err
	}
	r = r.after(kept)
	fmt.Fprintf(m.out, "%-18s %-17s %-9s %-11s %6.1fs %s\n", s.name, p.name, at, r.Word, r.Seconds, r.Reason)
	if err := m.save(r); err != nil {
		return err
	}
	if r.Word != fails {
		return nil
	}
	return l.renew(ctx) // what a failure leaves behind must not become the next cell's
}

// prepare brings the stack's files and what its programs need.
func (m *matrix) prepare(ctx context.Context, s stack, ps []program) error {
	script := filepath.Join(m.root, "test", "matrix", "prepare.sh")
	var todo [][]string
	if s.tree != "" {
		todo = append(todo, []string{"tree", s.tree})
	}
	mpi4py := []string{"mpi4py==" + mpi4pyVersion, "numpy"}
	switch name := s.environment(); {
	case s.foreign != "": // with the tree's numpy
		todo = append(todo, []string{"foreign", s.foreign, mpi4py[0]})
	case len(s.wheels) > 0:
		todo = append(todo, append([]string{"wheels", name}, s.wheels...))
	case name != "":
		todo = append(todo, append([]string{"wheels", name}, mpi4py...))
	}
	if slices.ContainsFunc(ps, func(p program) bool { return p.kind == suite }) {
		todo = append(todo, []string{"suite", s.suiteVersion()})
	}
	if s.tests != "" && slices.ContainsFunc(ps, func(p program) bool { return p.kind == simple }) {
		todo = append(todo, []string{"pmix", s.tests})
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

const notKnown = "not known"

// version is the first line that the library says of itself and that has a digit.
func (m *matrix) version(ctx context.Context, l *lab, s stack) string {
	argv := make([]string, len(s.version))
	for i, a := range s.version {
		argv[i] = s.expand(m.cache, a)
	}
	cmd := l.command(ctx, argv...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=/root"}, s.environ(m)...) // Open MPI 5 says nothing without HOME
	out, err := cmd.Output()
	for line := range strings.Lines(string(out)) {
		if strings.ContainsAny(line, "0123456789") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "version of %s: %v\n", s.name, err)
	}
	return notKnown
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
	argv := m.argv(s, p, at, program)
	var bare string
	if p.watched {
		same := p
		same.watched, same.bare = false, true
		bare = m.start(ctx, l, same, m.argv(s, same, at, program), nil).stdout
	}
	start := time.Now()
	end := m.start(ctx, l, p, argv, nil)
	r.Seconds = time.Since(start).Seconds()
	end.left = l.left(ctx)
	r.Word, r.Reason = p.judge(end, at)
	if p.watched && r.Word == ok && accused.MatchString(end.stderr) {
		r.Word, r.Reason = fails, "another rank than the late one is named: "+accused.FindString(end.stderr)
	}
	if p.watched && r.Word == ok && byLine(end.stdout) != byLine(bare) {
		r.Word, r.Reason = fails, fmt.Sprintf("without --watch-ranks it prints %q, and with it %q", bare, end.stdout)
	}
	if p.kind == suite {
		r.Suite = summary(end.stderr)
		if why := r.Suite.hollow(p.size()); why != "" && r.Word == ok {
			r.Word, r.Reason = fails, why
		}
		if n := len(r.Suite.Failed); n > 0 && r.Word == fails {
			r.Reason = fmt.Sprintf("%d of %d tests failed: %s", n, r.Suite.Ran, grouped(r.Suite.Failed))
		}
	}
	if r.Word == fails {
		return m.keep(r, argv, fmt.Sprintf("exit code %d\n-- stdout:\n%s\n-- stderr:\n%s\n%s\n", end.code, end.stdout, end.stderr, l.said()))
	}
	return r
}

// accused is somebody else than rank 1, the late one of p.watched.
var accused = regexp.MustCompile(`(?m)rank [^1 ]\d* \([^)]*\): .*others (have )?waited.*$`)

// byLine is an output with its lines in order of their text.
func byLine(output string) string {
	list := strings.Split(output, "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// start runs argv on the launcher's host to its end, or to the end of the program's time.
func (m *matrix) start(ctx context.Context, l *lab, p program, argv, env []string) ended {
	ctx, cancel := context.WithTimeout(ctx, p.limit())
	defer cancel()
	var stdout, stderr testlab.Text
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
