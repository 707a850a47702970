// Package examine looks at all hosts before a job, and runs the benchmarks that the image has: mpiup doctor.
//
//	hosts ─▶ Hello ─▶ the same plan as a run's ─▶ survey.Look ─▶ doctor.Judge ─▶ the report
//	                                                 ├─ with benchmarks: each is a run of its own (launcher.Run) ─▶ doctor.Fabric
//	                                                 └─ with trials: a run on each host, of mpiup or a site's command ─▶ doctor.JudgeShared and its like
//
// Concurrency: Doctor blocks until all it started has ended; benchmarks of pairs run beside each other, no host in two at a time.
//
// The package judges nothing: launcher/doctor does.
package examine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/doctor"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/survey"
)

// Config is one look at all hosts before a job.
type Config struct {
	reach.Reach
	Argv        []string         // the program, for its MPI library; nil: what images have
	Ranks       int              // of the job; 0: one a slot, or PerNode a host
	Policy      placement.Policy // where they run
	GPUsPerRank int              // 0: not said
	Net         job.Network
	MPIPorts    job.Ports
	Measure     bool // bandwidth of every way too
	Strict      bool // a warning is a failure
	JSON        bool
	Picture     string // a file for the heat map of the ways; "-": standard output, which has nothing else then; "": none
	Fabric      FabricConfig
	Trials      TrialConfig
	Env         []string // what benchmarks and trials are given of this process's own environment
}

// examined is what a look at all hosts gave.
type examined struct {
	report  *doctor.Report
	code    int       // not 0: a host was not reached, or the command line does not fit one
	reached []subject // who was looked at, in the job's order
}

// Doctor prints what agents find and returns 0, 1 when something failed, or the code of why hosts could not
// be reached. Where ctx ends by a reach.GotSignal it ends what it started, removes what that wrote, and returns the signal's code.
func Doctor(ctx context.Context, cfg Config) int {
	cfg.Fill()
	baseline, err := readBaseline(cfg.Fabric.Baseline)
	if err != nil {
		return launcher.End(&cfg.Reach, err)
	}
	e, err := cfg.examine(ctx)
	if err == nil && cfg.Fabric.Run {
		err = cfg.fabric(ctx, e, baseline)
	}
	if err == nil && ctx.Err() == nil {
		cfg.trials(ctx, e)
	}
	var sig reach.GotSignal
	if errors.As(context.Cause(ctx), &sig) {
		err = ended(sig, e)
	}
	if err != nil {
		return launcher.End(&cfg.Reach, err)
	}
	report, code := e.report, e.code
	switch {
	case cfg.Picture == "-":
		// it is drawn below
	case cfg.JSON:
		err = visible.JSON(cfg.Stdout, report)
	default:
		how := doctor.Usual
		if cfg.Log.Enabled(ctx, slog.LevelInfo) {
			how = doctor.Full
		}
		err = report.Text(cfg.Stdout, how)
	}
	if err != nil {
		return launcher.End(&cfg.Reach, reach.Unwritten(err))
	}
	if err := outfile.Draw(cfg.Picture, cfg.Stdout, report.SVG); err != nil {
		return launcher.End(&cfg.Reach, reach.Failf(job.ExitOutput, "--svg: %v", err))
	}
	switch {
	case code != 0:
		return code
	case report.Verdict == doctor.Fail, cfg.Strict && report.Verdict == doctor.Warn:
		return job.ExitUnfit
	}
	return 0
}

// ended is what is said where a signal ended the look: what was seen until then would mislead. e is nil where nothing was.
func ended(sig reach.GotSignal, e *examined) error {
	f := reach.Failf(sig.Status(true), "got %s: mpiup doctor was ended before it was done, and there is no report", job.SignalName(int(sig)))
	if e == nil || e.report.SharedDir == nil {
		return f
	}
	for _, l := range e.report.SharedDir.Left {
		f.Lines = append(f.Lines, fmt.Sprintf("host %s: %s could not be removed: %s; remove it by hand", l.Host, l.Path, l.Error))
	}
	if len(f.Lines) == 1 {
		f.Lines = append(f.Lines, fmt.Sprintf("what it wrote in %s has been removed", e.report.SharedDir.Dir))
	}
	return f
}

// subject is a host that is to be looked at.
type subject struct {
	hosts.Wanted
	agent       survey.Agent  // nil: not reached, or to be connected to
	found       *doctor.Found // nil: it was not looked at
	slots, cpus int           // that its agent counts; no slots: not reached
	cause       *link.Cause   // of that
	ranks       int
}

// examine asks all hosts that get ranks, and then each of all others.
func (c *Config) examine(ctx context.Context) (*examined, error) {
	list, err := c.subjects(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.place(list); err != nil {
		return nil, err
	}
	d := reach.NewDialer(c.Identity, len(list))
	hosts := make([]survey.Host, len(list))
	survey.InParallel(len(list), func(i int) {
		h := &hosts[i]
		h.Name, h.Ranks = list[i].Entry.Name, list[i].ranks
		switch s := &list[i]; {
		case s.cause != nil:
			h.Error = s.cause
		case s.ranks == 0:
		case s.agent != nil:
			h.Agent = s.agent
		default:
			conn, err := d.Question(ctx, s.Fixed[0])
			if err != nil {
				s.cause = link.AsCause(err)
				h.Error = s.cause
				return
			}
			h.Agent = reach.Remote{Conn: conn}
		}
	})
	defer reach.Release(hosts)
	seen := survey.Look(ctx, hosts, c.sought())
	e := &examined{}
	causes := make([]*link.Cause, len(list))
	for i, h := range seen.Hosts {
		causes[i] = list[i].cause
		if h.Wrong { // agents know the flag by its name in mpiup run
			seen.Hosts[i].Error = strings.Replace(h.Error, "--net ", "--interface ", 1)
		}
		if h.Found != nil {
			list[i].found = h.Found
			e.reached = append(e.reached, list[i])
		}
	}
	if cause := link.Telling(causes); cause != nil {
		e.code = cause.Stage.ExitCode()
	}
	if seen.Usage {
		e.code = job.ExitUsage
	}
	e.report = doctor.Judge(seen.Hosts, seen.Ways)
	return e, nil
}

func (c *Config) sought() survey.Config {
	s := survey.Config{Argv: c.Argv, GPUsPerRank: c.GPUsPerRank, Net: c.Net, MPIPorts: c.MPIPorts, Measure: c.Measure}
	if c.Fabric.Run {
		s.Programs, s.Dirs = doctor.ProgramNames(), c.Fabric.Dirs
	}
	return s
}

// subjects are the hosts of the command line or of the job, reached where that is possible; without any, this one. This
// very host may have no agent but the one in this process, as in a run.
func (c *Config) subjects(ctx context.Context) (list []subject, err error) {
	set, err := c.Others(ctx)
	if c.Here != nil && (c.Local || err != nil && c.Lonely()) {
		if _, err := c.Alone(); err != nil {
			return nil, err
		}
		s, err := c.here(ctx)
		return []subject{s}, err
	}
	if err != nil {
		return nil, err
	}
	if err := c.Fewer(set); err != nil {
		return nil, reach.Failf(job.ExitHosts, "%v", err)
	}
	byName := map[string]reach.Visited{}
	for _, v := range c.Visit(ctx, set.Hosts, nil) {
		byName[v.Entry.Name] = v
	}
	for _, w := range set.Hosts {
		v, ok := byName[w.Entry.Name]
		switch {
		case !ok && c.Here != nil:
			s, err := c.here(ctx)
			if err != nil {
				return nil, err
			}
			s.Wanted = w
			list = append(list, s)
		case !ok, v.Cause != nil && v.Bare && v.Cause.Refused:
			// without an agent, as a launcher's pod of the service is
		case v.Cause != nil:
			list = append(list, subject{Wanted: w, cause: v.Cause})
		default:
			w.Fixed = []netip.AddrPort{v.Addr}
			list = append(list, subject{Wanted: w, slots: slots(v.Hello.Slots), cpus: int(v.Hello.Cpus)})
		}
	}
	return list, nil
}

// here is this very host, by the agent in this process.
func (c *Config) here(ctx context.Context) (subject, error) {
	hello, err := c.Here.Hello(ctx)
	if err != nil {
		return subject{}, err
	}
	return subject{
		Wanted: hosts.Wanted{Entry: hostlist.Entry{Name: hello.Name}, Local: true},
		agent:  c.Here,
		slots:  slots(hello.Slots),
		cpus:   int(hello.Cpus),
	}, nil
}

// slots are an agent's; it has one at least.
func slots(n int32) int { return max(int(n), 1) }

// place says how many ranks the command line puts on each host, as a run would. A host that was not reached and whose
// slots nobody gave counts like the largest of the others: hosts of a job are alike.
func (c *Config) place(list []subject) error {
	largest := 1
	for _, s := range list {
		largest = max(largest, s.slots)
	}
	hosts := make([]job.Host, len(list))
	for i, s := range list {
		hosts[i] = phases.Answer{Wanted: s.Wanted, Host: &model.Host{Slots: cmp.Or(s.slots, largest), CPUs: s.cpus}}.Place()
	}
	argv := c.Argv
	if len(argv) == 0 {
		argv = []string{"a program"}
	}
	plan, err := placement.Place(hosts, []job.App{{Argv: argv, N: c.Ranks}}, c.Policy)
	if err != nil {
		return reach.Failf(job.ExitUsage, "%v", err)
	}
	for _, p := range plan.Placements {
		i := slices.IndexFunc(list, func(s subject) bool { return s.Entry.Name == plan.Hosts[p.Host].Name })
		list[i].ranks++
	}
	return nil
}
