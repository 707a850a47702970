package examine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/doctor"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/rdma"
)

// FabricConfig is the image's benchmarks as part of a Doctor.
type FabricConfig struct {
	Run      bool
	Dirs     []string  // where programs are looked for first, on the hosts
	Baseline string    // file to compare with, written where it is not there; "": none
	Write    bool      // it is written in any case
	Use      rdma.Wish // as a run's
}

// Bounds of one benchmark's run. A pair takes a second or two; what takes longer hangs.
const (
	pairLimit  = time.Minute
	wholeLimit = 5 * time.Minute
	maxRounds  = 64      // of pairs: with more than 33 hosts not all meet
	maxOutput  = 1 << 20 // bytes of a benchmark's output that are kept, the last
)

// bench runs the benchmarks of hosts that were looked at, each as a job of its own.
type bench struct {
	cfg   *Config
	hosts []subject                                  // that were looked at
	paths map[string]string                          // of programs, by name, where all hosts have them
	start func(context.Context, launcher.Config) int // Run, but in tests

	mu    sync.Mutex
	knows map[string]int // which of its Args a program understands, guarded by mu
}

// fabric runs what the image has, and gives the report the result.
func (c *Config) fabric(ctx context.Context, e *examined, baseline *doctor.Baseline) error {
	b := &bench{cfg: c, hosts: e.reached, start: launcher.Run, knows: map[string]int{}}
	f := &doctor.Fabric{File: c.Fabric.Baseline, Baseline: baseline}
	for _, h := range b.hosts {
		f.Hosts = append(f.Hosts, h.Entry.Name)
	}
	b.paths, f.Partly = b.programs()
	f.Found = map[string]string{}
	for name, path := range b.paths {
		f.Found[name] = visible.Line(path) // the report's; the path itself is as the hosts have it
	}
	f.Measured = slices.Concat(b.verbs(ctx, f), b.pairs(ctx), b.whole(ctx), b.nccl(ctx, f))
	for i := range f.Measured {
		f.Measured[i].Path = visible.Line(f.Measured[i].Path)
	}
	if f.File != "" && (baseline == nil || c.Fabric.Write) && ctx.Err() == nil {
		if err := writeBaseline(f); err != nil {
			return err
		}
	}
	e.report.Benchmarks(f)
	return nil
}

// programs are those that all hosts have at the same place, and sentences on the others.
func (b *bench) programs() (found map[string]string, partly []string) {
	found = map[string]string{}
	for _, name := range doctor.ProgramNames() {
		at := map[string][]string{} // hosts by path
		for _, h := range b.hosts {
			path := h.found.Programs[name]
			at[path] = append(at[path], h.Entry.Name)
		}
		switch {
		case len(at) == 1 && at[""] == nil:
			for path := range at {
				found[name] = path
			}
		case len(at) > 1:
			partly = append(partly, fmt.Sprintf("%s is not at one place on all hosts, and was not run: %s", name, placesOf(at)))
		}
	}
	return found, partly
}

func placesOf(at map[string][]string) string {
	var parts []string
	for path, hosts := range at {
		if path == "" {
			path = "none"
		}
		parts = append(parts, visible.Line(path)+" on "+visible.Few(hosts, 4, ","))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// part is a program's ranks on one of the hosts.
type part struct{ host, slots int }

// outcome is what became of a program's run.
type outcome struct {
	out   string
	code  int
	lines []string // of the verdict; none where the code is 0
	last  []string // of the output of the rank at fault
}

// err is why a run failed; nil where it did not.
func (o *outcome) err() error {
	if o.code == 0 {
		return nil
	}
	text := fmt.Sprintf("it ended with code %d", o.code)
	if len(o.lines) > 0 {
		text = o.lines[0]
	}
	if len(o.last) > 0 {
		text += fmt.Sprintf("; its last line: %.200q", o.last[len(o.last)-1])
	}
	return errors.New(text)
}

// run starts argv on parts of the hosts as a job like any other, and returns what it printed.
func (b *bench) run(ctx context.Context, argv []string, pmi job.Protocol, limit time.Duration, parts ...part) (string, error) {
	o := b.job(ctx, argv, pmi, limit, false, parts...)
	return o.out, o.err()
}

// job starts argv on parts of the hosts. With merge what it wrote to standard error is part of the output.
func (b *bench) job(ctx context.Context, argv []string, pmi job.Protocol, limit time.Duration, merge bool, parts ...part) outcome {
	out := &tail{}
	var o outcome
	cfg := launcher.Config{
		Reach:  b.cfg.Reach,
		Wishes: launcher.Wishes{Timeout: limit, PMI: pmi, Net: b.cfg.Net, MPIPorts: b.cfg.MPIPorts, Fabric: b.cfg.Fabric.Use},
	}
	cfg.Stdout, cfg.Stderr, cfg.TerminationLog, cfg.Terminal = out, &tail{}, "", false
	cfg.Told = func(l, t []string) { o.lines, o.last = l, t }
	cfg.Output.Merge = merge
	set := &hosts.Set{From: "mpiup doctor"}
	n := 0
	for _, p := range parts {
		w := b.hosts[p.host].Wanted
		w.Entry = hostlist.Entry{Name: w.Entry.Name, Slots: p.slots, Given: true}
		set.Hosts = append(set.Hosts, w)
		n += p.slots
	}
	cfg.Wait = execPatience
	cfg.Apps = []job.App{{Argv: argv, N: n, Env: b.cfg.Env}}
	cfg.Known = set
	o.code = b.start(ctx, cfg)
	o.out = out.String()
	return o
}

// execPatience: the hosts have answered a moment ago.
const execPatience = 10 * time.Second

// measure runs a test by the program at path, with the options that it understands, and returns the result. The output of one
// that was ended for the time that it took may have it, too.
func (b *bench) measure(ctx context.Context, path string, t doctor.Test, limit time.Duration, parts ...part) (string, float64, error) {
	b.mu.Lock()
	skip := b.knows[path]
	b.mu.Unlock()
	var first error
	for i, args := range t.Args[skip:] {
		out, err := b.run(ctx, append([]string{path}, args...), job.AutoProtocol, limit, parts...)
		v, none := t.Parse(out)
		if none == nil {
			b.mu.Lock()
			b.knows[path] = skip + i
			b.mu.Unlock()
			return out, v, nil
		}
		if first == nil {
			first = cmp.Or(err, none)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", 0, first
}

// readBaseline is the file's; nil where there is none, and one can be made.
func readBaseline(path string) (*doctor.Baseline, error) {
	if path == "" {
		return nil, nil
	}
	text, err := bounded.Regular(path, doctor.MaxBaseline)
	if errors.Is(err, os.ErrNotExist) {
		f, err := outfile.At(path)
		if err == nil {
			err = errors.Join(f.Try(), f.Close())
		}
		if err != nil {
			return nil, reach.Failf(job.ExitOutput, "--baseline: %v", err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "--baseline: %v", err)
	}
	b, err := doctor.ParseBaseline(text)
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "--baseline %s: %v", path, err)
	}
	return b, nil
}

// writeBaseline keeps what was measured; nothing is written where that is nothing. An older file stays whole until
// the new one is.
func writeBaseline(f *doctor.Fabric) error {
	b := doctor.NewBaseline(f)
	if len(b.Tests) == 0 {
		return nil
	}
	text, err := b.Text()
	if err != nil {
		return err
	}
	at, err := outfile.At(f.File)
	if err == nil {
		err = errors.Join(at.Replace(text, 0o644), at.Close())
	}
	if err != nil {
		return reach.Failf(job.ExitOutput, "--baseline: %v", err)
	}
	f.Written = true
	return nil
}

// tail keeps the last bytes of what is written to it, maxOutput at least.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len() > 2*maxOutput {
		t.buf.Next(t.buf.Len() - maxOutput)
	}
	return t.buf.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
