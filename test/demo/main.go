// Command demo shows mpiup at work to somebody who has just cloned it: one MPI program, first
// on this machine with the agent inside mpiup run, then on three hosts with an agent each. It
// is what make demo runs; everything it starts is gone when it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	mpiup := flag.String("mpiup", "bin/mpiup", "the `binary` to show")
	source := flag.String("source", "examples/hello/hello.c", "the MPI `program`")
	pictures := flag.String("pictures", "", "make README's pictures in this `directory` instead (root, Debian's torch, py-spy)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	limit := 2 * time.Minute
	if *pictures != "" {
		limit += patience
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	dir, err := os.MkdirTemp("", "mpiup-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &demo{dir: dir, hello: filepath.Join(dir, "hello"), key: filepath.Join(dir, "key")}
	if d.mpiup, err = filepath.Abs(*mpiup); err != nil {
		return err
	}
	if *pictures != "" {
		return d.pictures(ctx, *pictures)
	}
	if err := d.compile(ctx, *source); err != nil {
		return err
	}
	if err := d.onThisMachine(ctx); err != nil {
		return err
	}
	return d.onThreeHosts(ctx)
}

// demo is what both parts need.
type demo struct {
	dir   string
	mpiup string // paths
	hello string
	key   string
	env   []string // of agents and commands; nil for a container's
}

func (d *demo) compile(ctx context.Context, source string) error {
	heading("An MPI program, compiled with Debian's MPICH")
	argv := []string{"mpicc.mpich", "-O2", "-rdynamic", "-o", d.hello, source}
	show("", "mpicc.mpich -O2 -rdynamic -o hello "+source)
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", source, err, out)
	}
	return nil
}

func (d *demo) onThisMachine(ctx context.Context) error {
	heading("On this machine: no hosts, no secret, no set-up")
	show("", "mpiup run -n 4 ./hello")
	cmd := exec.CommandContext(ctx, d.mpiup, "run", "-n", "4", "-x", start(), d.hello)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mpiup run: %w", err)
	}
	return nil
}

func (d *demo) onThreeHosts(ctx context.Context) (err error) {
	if err := d.keygen(ctx); err != nil {
		return err
	}
	h, err := newHosts(ctx, d, "w0", "w1", "w2")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()

	list := strings.Join(h.names(), ":2,") + ":2"
	args := []string{"run", "--key", d.key, "--host", list, "-n", "6"}
	short := "mpiup run --key key --host " + list + " -n 6 "

	heading("Which rank goes where")
	show(h.launcher(), short+"--dry-run ./hello")
	plan := h.onLauncher(ctx, append([]string{d.mpiup}, append(args, "--dry-run", d.hello)...)...)
	plan.Stdout, plan.Stderr = os.Stdout, os.Stderr
	if err := plan.Run(); err != nil {
		return h.explain(fmt.Errorf("mpiup run --dry-run: %w", err))
	}

	heading("The job")
	show(h.launcher(), short+"./hello")
	job := h.onLauncher(ctx, append([]string{d.mpiup}, append(args, "-x", start(), d.hello)...)...)
	job.Stdout, job.Stderr = os.Stdout, os.Stderr
	if err := job.Run(); err != nil {
		return h.explain(fmt.Errorf("mpiup run: %w", err))
	}
	fmt.Println("\nThe same on your own machines: README.md. More examples: examples/.")
	return nil
}

// keygen makes the secret that an operator would mount into every pod of a job.
func (d *demo) keygen(ctx context.Context) error {
	heading("On three hosts: a secret that all share, an agent on each")
	show("", "mpiup keygen key")
	out, err := exec.CommandContext(ctx, d.mpiup, "keygen").Output()
	if err != nil {
		return fmt.Errorf("mpiup keygen: %w", err)
	}
	return os.WriteFile(d.key, out, 0o600)
}

// start is the time of a job's start as a variable, from which hello counts.
func start() string { return "T0=" + strconv.FormatInt(time.Now().UnixNano(), 10) }

func heading(text string) { fmt.Printf("\n== %s\n", text) }

func show(host, command string) { fmt.Printf("%s$ %s\n", host, command) }
