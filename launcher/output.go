package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/progress"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/mpiup/mpiup/launcher/verdict"
)

func (r *driver) prepareOutput() error {
	out := r.cfg.Output
	if out.Stdout == nil {
		out.Stdout = r.cfg.Stdout
	}
	if out.Stderr == nil {
		out.Stderr = r.cfg.Stderr
	}
	out.Append = r.course.Again != nil
	out.Ranks, out.Begun = len(r.plan.Placements), r.begun
	out.Process = func(id int) job.Process { return r.places.who().Process(id) }
	out.Host = func(id int) string { return r.places.hosts()[r.places.who().HostOf(id)].Name }
	out.Node = func(id int) int { return r.places.who().HostOf(id) }
	out.PID = r.pids.of
	out.Written = r.back.written
	r.back.prompt = r.cfg.Loss.Hold > 0
	out.Broken = func(err error) {
		r.mail.put(run.Unwritten{Reader: errors.Is(err, syscall.EPIPE), Errno: errnoOf(err), Text: err.Error()})
	}
	r.back.send = func(id, n int) {
		r.send(r.places.who().HostOf(id), (&apiv1.Credit{Rank: uint32(id), Bytes: uint32(n)}).Frame())
	}
	if out.Style == iof.OwnStyle && out.Dir != "" {
		dir := out.Dir
		if err := out.NextAttempt(); err != nil {
			return unwritable("output", err)
		}
		if dir != out.Dir && r.course.Again != nil {
			r.say("the output of restart %d goes to %s", r.course.Again.Number, out.Dir)
		} else if dir != out.Dir {
			r.say("%s has the output of an earlier run; this one's goes to %s", dir, out.Dir)
		}
	}
	sink, err := iof.New(out)
	if err != nil {
		return unwritable("output", err)
	}
	if r.sink = sink; r.cfg.Made != nil {
		r.cfg.Made(sink)
	}
	if r.cfg.Stall.Progress.On() && r.exec == nil {
		begun, name := r.clock.Now(), func(id int) string { return fmt.Sprintf("%v on %s", out.Process(id), out.Host(id)) }
		follow := progress.NewFollow(r.cfg.Stall.Progress, out.Ranks, name, func() time.Duration { return r.clock.Now() - begun })
		follow.Keep = r.remains.Point
		r.remains.Watched()
		follow.Found = func(f progress.Finding) {
			r.mail.put(run.Watched{Text: f.Text, Ends: r.cfg.Stall.Progress.Abort, Hangs: f.Hangs})
		}
		r.sink.Follow(follow)
		r.cfg.Metrics.Progress(follow.Numbers)
		term, logs := r.cfg.Env("TERM"), r.cfg.Log.Enabled(context.Background(), slog.LevelInfo) // whose lines go their own way
		if r.cfg.Terminal && term != "" && term != "dumb" && !logs {
			r.status = r.sink.Status(r.cfg.Stderr, r.cfg.Width, follow.Status)
		}
	}
	return nil
}

// pids are the numbers of the run's processes on their hosts, for tags before lines. They come before any output of
// their process, on the same connection.
type pids struct {
	mu   sync.Mutex
	byID map[int]int // guarded by mu
}

func (p *pids) note(id, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID == nil {
		p.byID = map[int]int{}
	}
	p.byID[id] = pid
}

func (p *pids) of(id int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id]
}

// ready sees whether everything that the user wants written can be: nothing is started otherwise.
func (r *driver) ready() error {
	if err := r.remains.Ready(); err != nil {
		return unwritable("--report "+r.cfg.Report.Dir, err)
	}
	if err := r.cfg.Output.Open(); err != nil {
		return unwritable("output", err)
	}
	if r.cfg.TerminationBy == "" || r.cfg.TerminationLog == "" {
		return nil
	}
	f, err := outfile.At(r.cfg.TerminationLog)
	if err == nil {
		err = f.Try()
	}
	if err != nil {
		log := r.cfg.TerminationLog
		r.cfg.TerminationLog = "" // the failure is not written there, and is told of once
		return unwritable(r.cfg.TerminationBy+" "+log, err)
	}
	r.cfg.Termination = f
	return nil
}

func unwritable(what string, err error) error {
	return &reach.Failure{Code: job.ExitOutput, Lines: []string{what + ": " + err.Error(), verdict.WriteHint}}
}

// credits gathers written bytes into few frames.
type credits struct {
	send func(id, n int)

	mu     sync.Mutex
	prompt bool // the agents keep what has not left us: they are told at once that it has

	owed []int32 // by id, guarded by mu
	due  []int32 // bytes owed to a process that are worth a frame, by id, guarded by mu
}

// grow adds n processes with that window.
func (c *credits) grow(n, window int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = append(c.owed, make([]int32, n)...)
	due := int32(max(min(window, job.OutputChunks(window))/4, 1)) // of short lines a chunk may be one byte
	if c.prompt {
		due = 1
	}
	c.due = append(c.due, slices.Repeat([]int32{due}, n)...)
}

func (c *credits) written(id, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed[id] += int32(n); c.owed[id] >= c.due[id] {
		c.send(id, int(c.owed[id]))
		c.owed[id] = 0
	}
}

// prepareInput makes the way of standard input, and returns the ranks that get it.
func (r *driver) prepareInput() ([]int, error) {
	targets, err := streams.Targets(r.cfg.StdinTarget, len(r.plan.Placements))
	if err != nil {
		return nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	if r.cfg.Stdin == nil || len(targets) == 0 {
		return nil, nil
	}
	r.feed = make(chan struct{})
	hosts := sync.OnceValue(func() (list []int) { // of the targets, once these have their places
		for _, t := range targets {
			list = append(list, r.places.who().HostOf(t))
		}
		slices.Sort(list)
		return slices.Compact(list)
	})
	r.input = streams.NewInput(streams.InputConfig{File: r.cfg.Stdin, Targets: targets, Send: func(data []byte, eof bool) {
		for _, h := range hosts() {
			r.send(h, (&apiv1.Input{Data: data, Eof: eof}).Frame())
		}
	}})
	return targets, nil
}

// startCopy sends the first job's files to its hosts, beside the loop.
func (r *driver) startCopy() {
	if r.sources.Len() == 0 {
		return
	}
	to := r.places.who().Job(0).Hosts
	r.copier = streams.NewCopier(r.sources, to, apiv1.CopyWindow, func(h int, data []byte) {
		r.send(h, (&apiv1.CopyData{Data: data}).Frame())
	})
	begun := time.Now()
	r.aside(func(life context.Context) {
		if err := r.copier.Run(life); err != nil {
			r.mail.put(run.NotCopied{Errno: errnoOf(err), Text: err.Error()})
			return
		}
		r.cfg.Log.Info("files sent", "files", r.sources.Len(), "hosts", len(to), "took", time.Since(begun))
	})
}

// prepare makes the run and its parts from the plan: host connections, output, input.
func (r *driver) prepare(have []reach.Found, o *reach.Opener) error {
	byName := map[string]reach.Found{}
	for _, f := range have {
		byName[f.Entry.Name] = f
	}
	r.opener, r.places = o, newPlaces()
	if err := r.prepareOutput(); err != nil {
		return err
	}
	input, err := r.prepareInput()
	if err != nil {
		return err
	}
	cfg := r.cfg.forRun()
	cfg.ID, cfg.Number, cfg.Proof, cfg.Begun, cfg.Plan, cfg.PID = o.Run, r.number, r.proof, r.begun, r.plan, os.Getpid()
	cfg.Restarts, cfg.Failures = r.course.Restarts, r.course.Failures()
	cfg.Input, cfg.Sites = input, r.sites
	cfg.Errno = func(n int32) (name, text string) { return unix.ErrnoName(unix.Errno(n)), unix.Errno(n).Error() }
	for _, f := range r.sources.Announced() {
		cfg.Files = append(cfg.Files, &apiv1.CopyFile{Name: f.Name, Mode: uint32(f.Mode), Size: uint64(f.Size)})
	}
	for i := range r.cfg.Apps {
		cfg.Copied = append(cfg.Copied, r.sources.Program(i))
	}
	if r.exec != nil {
		cfg.Exec = r.exec.asked()
	}
	attach := r.dial(&r.cfg.Reach, len(r.plan.Hosts))
	for _, h := range r.plan.Hosts {
		f := byName[h.Name]
		r.addHost(f, attach)
		cfg.Hosts = append(cfg.Hosts, *r.hostOf(f))
		delete(byName, h.Name)
	}
	for i := range cfg.Hosts {
		cfg.Hosts[i].Meets = meetsAt(i, r.places.hosts())
	}
	for name, unused := range byName {
		if r.course.Spare[name] {
			// What its agent says is for nobody.
			r.spares = append(r.spares, r.keeps(-1, unused, attach, func(*apiv1.Frame) error { return nil }))
		} else {
			reach.CloseAll([]reach.Found{unused})
		}
	}
	first := newNamespace()
	if r.predecessor != nil {
		first, cfg.Adopted, cfg.Asked, cfg.Hold = r.predecessor.journal.Namespace, true, anyNumber(), r.signs(r.predecessor.journal)
	} else if cfg.Hold, err = r.describe(o.Run, first, r.places.hosts()); err != nil {
		return err
	}
	cfg.Namespace = func() string {
		name := cmp.Or(first, newNamespace())
		first = ""
		return name
	}
	if r.exec == nil {
		cfg.Wrote = r.wordsSoFar
	}
	r.run = run.New(cfg)
	return nil
}

// errnoOf is the name of the system call's failure that an error is of; "" where it is of none.
func errnoOf(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	return unix.ErrnoName(errno)
}
