package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/agent/reap/guard"
	"github.com/mpiup/mpiup/internal/api/codec"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/runmetrics"
	"github.com/mpiup/mpiup/launcher/streams"
)

func runCommand(p *process) *cobra.Command {
	f := &cli.RunFlags{}
	c := &cobra.Command{
		Use:   "run [flags] [--] program [args] [: [-n N] program [args]] ...",
		Short: "Run a job: ranks of a program on the workers, or on this machine",
		Long: `Run a job: ranks of a program on the workers, or on this machine.

Hosts come from --host or --hostfile, else from what the operator tells the pod, else, without a job's secret, there is
only this machine. The exit code is that of the first rank that failed; mpiup's own are 240 to
251 (mpiup help exit-codes).`,
		Example: cli.RunExample,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.Check(); err != nil {
				return usage(err)
			}
			return runJob(p, f, c.Flags(), args)
		},
	}
	f.Register(c.Flags())
	cobra.CheckErr(f.RegisterCompletion(c))
	return c
}

// hastyGC lets a run begin without a garbage collection: it allocates some 8 MB for 16 hosts,
// and collecting those was a quarter of its CPU time. What a job keeps is small against the
// launcher's memory (docs/performance.md).
const hastyGC = 400

// settled is how long after its begin a run has started, as a rule: what its launcher has allocated for that is collected then, at 512 ranks 12 of 22 MB.
const settled = 10 * time.Second

func runJob(p *process, f *cli.RunFlags, given *pflag.FlagSet, args []string) error {
	p.relaxGC()
	dir, err := workingDir()
	if err != nil {
		return usage(err)
	}
	apps, warnings, err := f.ParseApps(args, p.outside(dir))
	if err != nil {
		return usage(err)
	}
	for _, w := range warnings {
		tell(p.stderr, "mpiup: warning:", w)
	}
	unsent := handOver(p.env, apps)
	if !given.Changed("mpi") && !f.Independent {
		if f.MPI, err = protocol(p.getenv, f.MPI); err != nil {
			return usage(err)
		}
	}
	if f.MPI == native {
		if p.up != nil {
			return usage(errNativeUp)
		}
		return p.nativeRun(f, given, apps, unsent, dir)
	}
	reach, done, err := p.reach(&f.HostFlags, &f.LeaseFlags, f.Verbose)
	if err != nil {
		return err
	}
	defer done()
	reach.Unsent = unsent
	reach.Local, reach.Insist, reach.Loss = f.Local, given.Changed("wait"), f.OnLoss
	reach.LeaseSaid = given.Changed("launcher-timeout")
	if f.Rankfile != "" {
		if f.Policy.Binding.Lines, err = cli.ReadRankfile(f.Rankfile); err != nil {
			return usage(err)
		}
		if reach.Otherwise, err = mpirun.RankfileHosts(f.Policy.Binding.Lines); err != nil {
			return usage(fmt.Errorf("rankfile %s: %w", f.Rankfile, err))
		}
	}
	elastic, err := f.Elastic(apps[0].N)
	if err != nil {
		return usage(err)
	}
	if f.TerminationLog != "" {
		reach.TerminationLog, reach.TerminationBy = f.TerminationLog, "--termination-log"
	}
	cfg := launcher.Config{
		Reach:       reach,
		Command:     launcher.CommandOf(p.args, len(p.args)-len(args)),
		Pty:         f.Pty,
		ShowMap:     f.DisplayMap,
		DryRun:      f.DryRun,
		Picture:     f.Picture,
		Preflight:   f.Preflight,
		Spares:      f.Spares,
		Beside:      f.RestartBeside,
		Elastic:     elastic,
		Wishes:      f.Wishes,
		Output:      f.Output,
		Stdin:       p.stdin,
		StdinTarget: f.Stdin,
		Report:      p.remains(f.Report),
	}
	cfg.Apps, cfg.PMI = apps, protocols[f.MPI]
	cfg.Policy.Order()
	if f.SpawnFiles != "" {
		if cfg.SpawnFiles, err = spawnFiles(f.SpawnFiles); err != nil {
			return usage(fmt.Errorf("--spawn-hostfiles: %w", err))
		}
	}
	if err := p.settle(&cfg, given.Changed); err != nil {
		return usage(err)
	}
	if given.Changed("watch-window") && !cfg.Stall.Watch {
		tell(p.stderr, "mpiup: warning:", "--watch-window: ranks are watched with --watch-ranks or MPIUP_WATCH_RANKS=1 only")
	}
	if served, err := p.up.join(p, &cfg.Reach); served || err != nil {
		return err
	}
	defer p.up.leave()
	hide, err := p.showRun(&cfg, f.Metrics, f.Insecure)
	if err != nil {
		return usage(err)
	}
	defer hide()
	if f.Stall.Progress.On() {
		if trainer, told := runmetrics.TrainerOf(p.getenv, p.up != nil || cfg.Local, cfg.Say); told {
			cfg.Metrics = cmp.Or(cfg.Metrics, runmetrics.New(version))
			defer cfg.Metrics.Tell(trainer, cfg.Say)()
		}
	}
	p.code = p.launch(cfg)
	return nil
}

func (p *process) relaxGC() {
	if p.getenv("GOGC") == "" {
		debug.SetGCPercent(hastyGC)
	}
}

// hasten is for while a job starts: what is allocated for it is kept but little of, and collecting that was a tenth of an agent's CPU time.
func (p *process) hasten(on bool) {
	const usual = 100 // Go's own
	switch {
	case p.getenv("GOGC") != "":
	case on:
		debug.SetGCPercent(hastyGC)
	default:
		debug.SetGCPercent(usual)
	}
}

// rest gives back what an agent's jobs, or the start of a launcher's own, have left in memory. Twice: what a pool holds outlives one collection. What
// jobs touched of the program's file goes too; the kernel has it cached for the next.
func rest() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	guard.DropProgramPages()
}

// launch runs a job to its end, and lets the pods that serve it end as it did.
func (p *process) launch(cfg launcher.Config) int {
	signals, stop := p.passedOn(syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGTSTP)
	defer stop()
	return p.launchWith(context.Background(), cfg, signals)
}

// launchWith is launch with signals from elsewhere, until ctx ends (launcher.Run).
func (p *process) launchWith(ctx context.Context, cfg launcher.Config, signals <-chan os.Signal) int {
	cfg.Made = p.sink.Store
	defer awake.After(settled, func() { p.hasten(false); rest() })()
	p.last = trace(&cfg, p.getenv, p.env)
	cfg.Signals = signals
	code := launcher.Run(ctx, cfg)
	cfg.Metrics.Linger(signals, cfg.Say)
	p.up.dismiss(&cfg.Reach, code)
	return code
}

// trace puts a run into the trace that this process is in. last sends the run to where OTEL_* say, once it is over.
func trace(cfg *launcher.Config, getenv func(string) string, env []string) (last func()) {
	t := runmetrics.TelemetryOf(getenv, cfg.Say)
	cfg.Preempt.Trace, t.Space = t.Run, cfg.Namespace
	if t.On { // else nothing is looked for
		t.Ask = reap.Feeder(helpers().Spans, env)
	}
	cfg.Metrics, last = t.Watch(cfg.Metrics, version, cfg.Say)
	return last
}

// remains says what becomes of a run's report. What a container writes goes with it, but for what lies on a volume.
func (p *process) remains(dir string) report.Config {
	c := report.Config{Dir: dir, Kept: p.getenv("MPIUP_REPORTS")}
	if c.Kept == "" {
		c.Kept = filepath.Join(os.TempDir(), fmt.Sprintf("mpiup-reports-%d", os.Geteuid()))
		if namespace("/") != "" {
			c.Lost = " (it may go with this container; --report DIR keeps it on a volume)"
		}
	}
	return c
}

// reach is how this process gets to agents: the flags, its identity, and the agent it can be
// itself. done ends that agent.
func (p *process) reach(h *cli.HostFlags, l *cli.LeaseFlags, verbose int) (r reach.Reach, done func(), err error) {
	entries, err := h.EntriesOr("MPIUP_HOSTS", p.getenv("MPIUP_HOSTS"))
	if err != nil {
		return r, nil, usage(err)
	}
	log := slog.New(slog.DiscardHandler)
	if verbose > 0 {
		level := slog.LevelInfo
		if verbose > 1 {
			level = slog.LevelDebug
		}
		log = slog.New(streams.Voice(p.stderr, level))
	}
	id, err := p.identity(&h.IdentityFlags, identity.RoleLauncher, log)
	if err != nil && !h.Spare && !errors.Is(err, identity.ErrNoSecret) {
		return r, nil, identityError(err)
	}
	noSecret := err
	var ahead sync.WaitGroup
	if id != nil { // beside the search for hosts and what else comes before the first handshake; a run on this machine does without the most of it
		ahead.Go(func() {
			id.Prepare()
			codec.Prepare()
		})
	}
	termGrace, err := termGrace(p.getenv, l.TermGrace)
	if err != nil {
		return r, nil, usage(err)
	}
	e := &embedded{process: p, log: log}
	r = reach.Reach{
		Sources: p.sources(entries), Identity: id, NoIdentity: noSecret, Embedded: e.attach, Here: here{e},
		Wait: h.Wait, Lease: l.LauncherTimeout, NodeTimeout: l.NodeTimeout, Grace: l.Grace, TermGrace: termGrace,
		Incarnation: identity.IncarnationOf("/", p.host), Sandbox: sandbox("/", p.getenv), Version: version, Namespace: namespace("/"), Pod: p.host,
		Stdout: p.stdout, Stderr: p.stderr, Terminal: streams.IsTerminal(p.stderr), Log: log,
		Width: func() int {
			_, columns, err := streams.TerminalSize(p.stderr)
			if err != nil {
				return 80
			}
			return int(columns)
		},
		TerminationLog: p.getenv("MPIUP_TERMINATION_LOG"), TerminationBy: "MPIUP_TERMINATION_LOG",
	}
	r.Size, r.Sources.Pod = h.Size, id != nil && id.Mounted()
	if r.TerminationLog == "" {
		if r.TerminationBy = ""; !entered("/") {
			r.TerminationLog = "/dev/termination-log"
		}
	}
	if err := reap.RaiseLimits(); err != nil {
		log.Info("limits", "cause", err)
	}
	return r, func() {
		e.end()
		ahead.Wait()
	}, nil
}

// sources are where hosts may come from, entries of the command line first.
func (p *process) sources(entries []hostlist.Entry) hosts.Sources {
	return hosts.Sources{Entries: entries, Number: hosts.Number{Env: p.getenv}, Environ: func() []string { return p.env }, Hostname: p.host}
}
