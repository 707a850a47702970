package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/test/netns"
	"golang.org/x/sync/errgroup"
)

// python is Debian's, which has its torch and torchrun.
const python = "/usr/bin/python3"

// contender is a way to start an example on two hosts, two ranks each.
type contender struct {
	name   string
	argv   [][]string // commands that are given at once, on the launcher or on one host each
	hosts  []string
	times  []float64 // until the last rank's first all-reduce, in s
	walls  []float64 // until all commands have ended, in s
	ranks  int
	extras []string // environment
}

var firstLine = regexp.MustCompile(`first all-reduce after (\d+) us`)

// turn runs it once.
func (c *contender) turn(ctx context.Context, l *lab, keep bool) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	outs := make([]bytes.Buffer, len(c.argv))
	start := time.Now()
	var g errgroup.Group
	for i, argv := range c.argv {
		cmd := l.cluster.Command(ctx, c.hosts[i], argv...)
		cmd.Stdout, cmd.Stderr, cmd.Env = &outs[i], &outs[i], append(environ(start), c.extras...)
		g.Go(cmd.Run)
	}
	err := g.Wait()
	wall := time.Since(start).Seconds()
	var last float64
	n := 0
	for i := range outs {
		for _, m := range firstLine.FindAllSubmatch(outs[i].Bytes(), -1) {
			us, _ := strconv.ParseFloat(string(m[1]), 64)
			last = max(last, us/1e6)
			n++
		}
	}
	if err != nil || n != c.ranks {
		for i := range outs {
			err = errors.Join(err, fmt.Errorf("%.3000s", outs[i].Bytes()))
		}
		return fmt.Errorf("%s: %d of %d ranks came to the first all-reduce: %w", c.name, n, c.ranks, err)
	}
	if keep {
		c.times, c.walls = append(c.times, last), append(c.walls, wall)
	}
	return nil
}

// inTurn runs all so often, after a round of warm-up.
func (b *bench) inTurn(ctx context.Context, l *lab, all ...*contender) error {
	for round := range b.rounds + 1 {
		for _, c := range all {
			if err := c.turn(ctx, l, round > 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// trainings measures from the command to the first all-reduce of the examples: torch's against torchrun with its own
// rendezvous, Horovod's against horovodrun over OpenSSH, and what mpiup adds to a bare Python.
func (b *bench) trainings(ctx context.Context, l *lab) error {
	key := filepath.Join(b.dir, "key")
	first := filepath.Join(b.scripts, "first.py")
	launcher := []string{netns.Launcher}
	run := func(args ...string) [][]string {
		return [][]string{append([]string{b.mpiup, "run", "--key", key, "-x", "T0", "--host", "w0:2,w1:2", "-n", "4"}, args...)}
	}
	ddp := filepath.Join(b.examples, "torch-ddp", "train.py")
	ours := &contender{name: "mpiup run", argv: run(python, first, ddp), hosts: launcher, ranks: 4}
	line := []string{"torchrun", "--nnodes", "2", "--nproc_per_node", "2", "--rdzv_backend", "c10d", "--rdzv_id", "bench", "--rdzv_endpoint", "w0:29400", first, ddp}
	// Without these two, which name a rank that is not there, torchrun 1.13 fails on Python 3.11.
	theirs := &contender{name: "torchrun, c10d", argv: [][]string{line, line}, hosts: []string{"w0", "w1"}, ranks: 4, extras: []string{"PET_REDIRECTS=9:1", "PET_TEE=9:1"}}
	if err := b.inTurn(ctx, l, ours, theirs); err != nil {
		return err
	}
	const what = "2x2 torch-ddp to the first all-reduce"
	b.compare(what, "s", ours.times, theirs.name, theirs.times, 0.7)
	if err := errors.Join(b.alone(ctx, l, "an empty python3", python, "-c", sayWhen), b.alone(ctx, l, "torch-ddp with one rank", python, first, ddp)); err != nil {
		return err
	}
	if b.horovod == "" {
		return nil
	}
	if _, err := exec.LookPath("sshd"); err != nil {
		fmt.Println("horovodrun over OpenSSH: not measured, no sshd (make bench-peers)")
		return nil
	}
	stop, err := l.sshd(ctx, "w0", "w1")
	if err != nil {
		return err
	}
	defer stop()
	hvd := filepath.Join(b.examples, "horovod-pytorch", "train.py")
	const horovodrun = "import sys; from horovod.runner.launch import run_commandline; sys.exit(run_commandline())"
	theirsWith := func(how string) *contender {
		return &contender{name: "horovodrun " + how + ", OpenSSH", hosts: launcher, ranks: 4, argv: [][]string{{b.horovod, "-c", horovodrun, how, "-p", "2222",
			"-np", "4", "-H", "w0:2,w1:2", b.horovod, first, hvd}}, extras: []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}}
	}
	gloo := &contender{name: "mpiup run, Gloo", argv: run("--env", "horovod", b.horovod, first, hvd), hosts: launcher, ranks: 4}
	mpi := &contender{name: "mpiup run, MPI", argv: run(b.horovod, first, hvd), hosts: launcher, ranks: 4}
	theirGloo, theirMPI := theirsWith("--gloo"), theirsWith("--mpi")
	if err := b.inTurn(ctx, l, gloo, theirGloo, mpi, theirMPI); err != nil {
		return err
	}
	const hvdWhat = "2x2 horovod-pytorch to the first all-reduce"
	b.compare(hvdWhat+", Gloo", "s", gloo.times, theirGloo.name, theirGloo.times, 0.7)
	b.compare(hvdWhat+", MPI", "s", mpi.times, theirMPI.name, theirMPI.times, 0.7)
	return nil
}

// sayWhen is a program that needs nothing, and says when it runs as first.py does.
const sayWhen = `import os, time; print("first all-reduce after", (time.time_ns() - int(os.environ["T0"])) // 1000, "us")`

// alone measures what mpiup adds to one rank, which meets nobody: here, and on a host with an agent.
func (b *bench) alone(ctx context.Context, l *lab, what string, program ...string) error {
	launcher := []string{netns.Launcher}
	as := func(name string, before ...string) *contender {
		return &contender{name: name, argv: [][]string{append(before, program...)}, hosts: launcher, ranks: 1}
	}
	bare := as("")
	bare.extras = []string{"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29511"}
	here := as("mpiup run", b.mpiup, "run", "-x", "T0", "-n", "1")
	there := as("mpiup run --host", b.mpiup, "run", "--key", filepath.Join(b.dir, "key"), "-x", "T0", "--host", "w0", "-n", "1")
	if err := b.inTurn(ctx, l, bare, here, there); err != nil {
		return err
	}
	b.report(what+" without mpiup", "s", bare.times, 0)
	for _, c := range []*contender{here, there} {
		b.added(what+", added by "+c.name, c.times, bare.times)
		b.added("the same, to the end", c.walls, bare.walls)
	}
	return nil
}

// added reports medians' difference in ms.
func (b *bench) added(what string, ours, theirs []float64) {
	b.report(what, "ms", []float64{1000 * (median(ours) - median(theirs))}, 100)
}

// sshd starts OpenSSH's server on hosts, with one key for all as the MPI Operator's images have it, and makes the
// launcher's client take it.
func (l *lab) sshd(ctx context.Context, hosts ...string) (stop func(), err error) {
	dir := filepath.Join(l.b.dir, "ssh")
	files := map[string]string{
		"sshd_config": "Port 2222\nHostKey " + dir + "/id\nStrictModes no\nPidFile none\nAuthorizedKeysFile " + dir + "/id.pub\n",
		"config":      "IdentityFile " + dir + "/id\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\nPort 2222\n",
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-N", "", "-f", filepath.Join(dir, "id")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	if err := l.cluster.Command(ctx, netns.Launcher, "sh", "-c", `mkdir -p /root/.ssh && cp "$1" /root/.ssh/config`, "sh", filepath.Join(dir, "config")).Run(); err != nil {
		return nil, err
	}
	var servers []*netns.Cmd
	stop = func() {
		for _, s := range servers {
			_ = s.Process.Signal(syscall.SIGTERM)
			_ = s.Wait()
		}
	}
	l.sshHost = func(h string) error {
		s := l.cluster.Command(ctx, h, "sh", "-c", `mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e -f "$1" 2>/dev/null`, "sh", filepath.Join(dir, "sshd_config"))
		if err := s.Start(); err != nil {
			return errors.Join(err, ctx.Err())
		}
		servers = append(servers, s)
		probe := l.cluster.Command(ctx, netns.Launcher, "ssh", "-o", "ConnectionAttempts=20", h, "true")
		if out, err := probe.CombinedOutput(); err != nil {
			return fmt.Errorf("ssh %s: %w: %s", h, err, strings.TrimSpace(string(out)))
		}
		return nil
	}
	for _, h := range hosts {
		if err := l.sshHost(h); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}
