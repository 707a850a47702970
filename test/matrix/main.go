// Program matrix runs real MPI programs of many kinds under mpiup with many MPI libraries, and writes
// docs/matrix.md. A cell is a program with a stack, on one host and on two hosts.
//
//	prepare   trees of Debian's, virtual environments, compiled programs     ~/.cache/mpiup
//	run       cell after cell, each with a bound on its time                 .cache/matrix/results/STACK/PROGRAM.json
//	report    all results there are, those of earlier runs too               docs/matrix.md
//
// How it is run:
//
//	make matrix                              all cells; hours on two cores
//	make matrix CELL='*/[^m]*'               all but mpi4py's suites, which take most of the time; ten minutes
//	make matrix CELL=debian12-openmpi/ring   one cell; either side may be empty or a pattern
//	bin/matrix -report                       only the page, of the results there are
//
// It needs root, a C compiler, debootstrap and, the first time, the network: prepare.sh brings trees and wheels.
// CI does not run it; the package's own tests, which judge recorded outputs, need nothing.
//
// Cells run one at a time, since ranks of MPI libraries spin. The program ends only processes on the hosts that it made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("matrix", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cell := flags.String("cell", "", "STACK/PROGRAM patterns of the cells to run; empty is all")
	bin := flags.String("mpiup", "bin/mpiup", "the mpiup to test")
	peers := flags.Bool("peers", false, "run the cells with the libraries' own launchers instead, and keep nothing")
	tests := flags.String("tests", "", "run only these of mpi4py's tests, even if they are left out otherwise, and keep nothing")
	report := flags.Bool("report", false, "only write docs/matrix.md from the results there are")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	m, err := newMatrix(*bin, stdout)
	if err == nil && !*report {
		m.peers, m.tests = *peers, *tests
		err = m.run(ctx, *cell)
	}
	if err == nil && !*peers && *tests == "" {
		err = m.report()
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// matrix is one use of this program.
type matrix struct {
	out    io.Writer
	root   string // of the repository
	cache  string // ~/.cache/mpiup
	dir    string // .cache/matrix: results, and what hosts see
	bin    string // a copy of mpiup in dir
	key    string
	commit string // of mpiup
	peers  bool
	tests  string // of mpi4py's suite, "" for all that can work
	auto   bool   // mpiup finds out by itself which protocol ranks speak
}

func newMatrix(bin string, out io.Writer) (*matrix, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	dir := filepath.Join(root, ".cache", "matrix")
	m := &matrix{out: out, root: root, cache: filepath.Join(cache, "mpiup"), dir: dir, bin: bin, key: filepath.Join(dir, "key")}
	return m, os.MkdirAll(filepath.Join(dir, "files"), 0o755)
}

// run runs the cells that match, stack by stack.
func (m *matrix) run(ctx context.Context, cell string) error {
	if os.Geteuid() != 0 {
		return errors.New("hosts are network namespaces, which need root")
	}
	if err := m.install(ctx); err != nil {
		return err
	}
	wantStack, wantProgram, _ := strings.Cut(cell, "/")
	cells := 0
	for _, s := range stacks {
		var ps []program
		for _, p := range programs {
			if matches(wantStack, s.name) && matches(wantProgram, p.name) {
				ps = append(ps, p)
			}
		}
		cells += len(ps)
		if len(ps) == 0 {
			continue
		}
		if err := m.runStack(ctx, s, ps); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if cells == 0 {
		return fmt.Errorf("no cell matches %q; stacks are %s", cell, strings.Join(names(), ", "))
	}
	return nil
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return pattern == "" || ok && err == nil
}

// install puts what all hosts see into dir.
func (m *matrix) install(ctx context.Context) error {
	from := filepath.Dir(m.bin)
	for _, name := range []string{filepath.Base(m.bin), "libmpiup-watch.so"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return fmt.Errorf("mpiup to test: %w (make build makes it)", err)
		}
		own := filepath.Join(m.dir, name)
		// Under another name first: an earlier copy may be running.
		if err := errors.Join(os.WriteFile(own+".new", b, 0o755), os.Rename(own+".new", own)); err != nil {
			return err
		}
	}
	m.bin = filepath.Join(m.dir, filepath.Base(m.bin))
	if err := m.makeKey(); err != nil {
		return err
	}
	help, err := m.tool(ctx, m.bin, "run", "--help")
	if err != nil {
		return err
	}
	m.auto = strings.Contains(help, "--mpi ")
	said, err := m.tool(ctx, m.bin, "version") // mpiup COMMIT (...), whatever the commit of this program
	if err != nil {
		return err
	}
	fields := strings.Fields(said)
	if len(fields) < 2 {
		return fmt.Errorf("%s version says %q, which names no commit", m.bin, said)
	}
	m.commit = fields[1]
	if err := m.sources(); err != nil {
		return err
	}
	_, err = m.tool(ctx, "cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", m.yielding(), filepath.Join("test", "mpi", "yield.c"))
	return err
}

// yielding is the library by which the suites' ranks, which are more than the processors, leave those to each other.
func (m *matrix) yielding() string { return filepath.Join(m.dir, "yield.so") }

// sources copies the programs' texts to where all hosts see them.
func (m *matrix) sources() error {
	to := filepath.Join(m.dir, "src")
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.CopyFS(to, os.DirFS(filepath.Join(m.root, "test", "mpi"))); err != nil {
		return err
	}
	header, err := os.ReadFile(filepath.Join(m.root, "test", "matrix", "examples.h"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "examples.h"), header, 0o644); err != nil {
		return err
	}
	// Older examples want openpmix's configuration, of which they need nothing.
	if err := writeFile(filepath.Join(to, "src", "include", "pmix_config.h"), nil); err != nil {
		return err
	}
	return m.standIns(filepath.Join(to, "simple"))
}

// internals are the headers of openpmix's own that its test/simple include.
var internals = []string{
	"include/pmix_config.h", "include/pmix_globals.h", "include/pmix_types.h", "util/pmix_argv.h", "util/pmix_environ.h",
	"util/pmix_output.h", "util/pmix_printf.h", "class/pmix_list.h", "class/pmix_object.h",
}

// standIns puts simple.h into a folder under the names of openpmix's internal headers.
func (m *matrix) standIns(to string) error {
	header, err := os.ReadFile(filepath.Join(m.root, "test", "matrix", "simple.h"))
	if err != nil {
		return err
	}
	for _, name := range internals {
		if err := writeFile(filepath.Join(to, "src", name), header); err != nil {
			return err
		}
	}
	return nil
}

// writeFile makes the file's folder, too.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// tool runs a command on this machine, in the repository.
func (m *matrix) tool(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = m.root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
