package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/svg"
)

// patience bounds how long a run on a busy machine may need until it is said to hang.
const patience = 5 * time.Minute

// pictures makes the pictures of README and of docs from real runs, from the last benchmark and from machines' files.
func (d *demo) pictures(ctx context.Context, to string) error {
	bars, err := bars("docs/data/performance.tsv")
	if err != nil {
		return err
	}
	page, err := d.hang(ctx)
	if err != nil {
		return err
	}
	if err := d.ways(ctx); err != nil {
		return err
	}
	plan, err := os.ReadFile("launcher/survey/testdata/h100.svg") // of two H100 machines' files, by a test
	if err != nil {
		return err
	}
	all := map[string][]byte{"plan.svg": plan}
	for name, p := range map[string]*svg.Picture{"hang.svg": terminal(page), "start.svg": bars} {
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			return err
		}
		all[name] = b.Bytes()
	}
	for _, name := range []string{"stacks.svg", "net.svg", "run.png"} {
		if all[name], err = os.ReadFile(filepath.Join(d.dir, name)); err != nil {
			return err
		}
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(to, name), text, 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", filepath.Join(to, name))
	}
	return nil
}

// ways measures the ways between six hosts, of which one has the fifth of a CPU, and draws them.
func (d *demo) ways(ctx context.Context) (err error) {
	h, err := newHosts(ctx, d, "w0", "w1", "w2", "w3", "w4", "w5")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if h.cluster != nil {
		if err := h.cluster.Throttle("w4", 0.2); err != nil {
			return err
		}
	}
	doctor := d.command(ctx, h, []string{"mpiup", "doctor", "--host", strings.Join(h.names(), ","), "--wait", "60", "--bandwidth",
		"--svg", filepath.Join(d.dir, "net.svg")})
	var said bytes.Buffer
	doctor.Stdout, doctor.Stderr = &said, &said
	if err := doctor.Run(); err != nil && doctor.ProcessState.ExitCode() != 1 { // what fails in a namespace is drawn too
		return fmt.Errorf("mpiup doctor: %w\n%s", err, &said)
	}
	return nil
}

// hang runs a training over three hosts, of which one rank hangs, until mpiup has named it, and asks then where the
// ranks are. The page is what a terminal shows of it.
func (d *demo) hang(ctx context.Context) (page string, err error) {
	for name, from := range map[string]string{"train.py": "test/demo/train.py", "py-spy": ""} {
		if from == "" {
			if from, err = exec.LookPath(name); err != nil {
				return "", fmt.Errorf("the picture shows lines of Python: pip install py-spy: %w", err)
			}
		}
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(d.dir, name), text, 0o755)
		}
		if err != nil {
			return "", err
		}
	}
	if err := d.keygen(ctx); err != nil {
		return "", err
	}
	d.env = []string{"PATH=" + d.dir + ":/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8", "OMP_NUM_THREADS=1", "MPIUP_KEY=" + d.key}
	h, err := newHosts(ctx, d, "w0", "w1", "w2")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, h.close()) }()

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list := strings.Join(h.names(), ":2,") + ":2"
	run := []string{"mpiup", "run", "--host", list, "--stall-timeout", "20s", "python3", "train.py"}
	job := d.command(ctx, h, slices.Concat(run[:len(run)-2], []string{"--report", d.dir + "/report", "--watch", `step (?P<step>\d+)(?:.*loss (?P<loss>\S+))?`}, run[len(run)-2:len(run)-1], []string{d.dir + "/train.py"}))
	out, err := job.StdoutPipe()
	if err != nil {
		return "", err
	}
	job.Stderr = job.Stdout
	if err := job.Start(); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "$ %s\n", strings.Join(run, " "))
	said, err := until(out, "odd one out", &b)
	if err == nil {
		stacks := d.command(ctx, h, []string{"mpiup", "stacks", "--host", strings.Join(h.names(), ","), "--svg", filepath.Join(d.dir, "stacks.svg")})
		var text, why bytes.Buffer
		stacks.Stdout, stacks.Stderr = &text, &why
		if err = stacks.Run(); err != nil {
			err = fmt.Errorf("mpiup stacks: %w\n%s%s", err, &why, &text)
		}
		fmt.Fprintf(&b, "\n$ mpiup stacks --host %s\n%s", strings.Join(h.names(), ","), &text)
	}
	err = errors.Join(err, job.Process.Signal(syscall.SIGINT))
	_, _ = io.Copy(io.Discard, said)
	_ = job.Wait() // it was interrupted
	if err == nil {
		err = d.page(ctx)
	}
	return strings.ReplaceAll(b.String(), d.dir+"/", ""), err
}

// page is a picture of what a browser shows of the run's report.
func (d *demo) page(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, d.mpiup, "report", d.dir+"/report", "--html", d.dir+"/run.html").CombinedOutput(); err != nil {
		return fmt.Errorf("mpiup report: %w\n%s", err, out)
	}
	out, err := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+d.dir+"/chromium",
		"--window-size=1100,1250", "--screenshot="+d.dir+"/run.png", "file://"+d.dir+"/run.html").CombinedOutput()
	if err != nil {
		return fmt.Errorf("chromium, which make page-check brings: %w\n%s", err, out)
	}
	return nil
}

// command is mpiup on the launcher's host, under its own name.
func (d *demo) command(ctx context.Context, h *hosts, argv []string) *command {
	c := h.onLauncher(ctx, append([]string{d.mpiup}, argv[1:]...)...)
	c.Env, c.Dir = d.env, d.dir
	return c
}

// until copies lines to b up to one that has the words.
func until(r io.Reader, words string, b *strings.Builder) (rest io.Reader, err error) {
	lines := bufio.NewReader(r)
	var all bytes.Buffer
	for {
		line, err := lines.ReadString('\n')
		all.WriteString(line)
		if err != nil {
			return lines, fmt.Errorf("the run said nothing of %q: %w\n%s", words, err, all.Bytes())
		}
		b.WriteString(line)
		if strings.Contains(line, words) {
			return lines, nil
		}
	}
}
