package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/agent"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli"
)

// agentFlags are the agent's own; which secret and which peers it shares with every command.
type agentFlags struct {
	hosts    cli.HostFlags
	policy   policyFlags
	name     string
	listen   string
	port     int
	http     string
	slots    int
	termExit int
	grace    time.Duration
	idleExit time.Duration
	gpuEvery time.Duration
	noGossip bool
	unshown  bool
	check    bool
	verbose  bool
	logJSON  bool
}

// defaultHTTP is the address of the agent's probes and metrics.
const defaultHTTP = ":7612"

func agentCommand(p *process) *cobra.Command {
	f := &agentFlags{}
	c := &cobra.Command{
		Use:   "agent",
		Short: "Serve this worker: start ranks for launchers of the same job",
		Long: `Serve this worker: start ranks for launchers of the same job.

It needs no arguments in a pod of an MPIJob: the secret is found where the operator mounts it,
and the port is a fixed one, or one of seven others derived from the job when that is taken. It
may be PID 1, needs no root, no capability and no writable file system.`,
		Example: `  mpiup agent                           in a pod that an operator made
  mpiup agent --key key --name w0       anywhere else; launchers use --host w0 --key key
  mpiup agent --key key --listen 127.0.0.2  one of several on this machine: --host 127.0.0.2
  mpiup agent --check                   for a readinessProbe`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.run(p) },
	}
	fs := c.Flags()
	f.hosts.Register(fs)
	f.registerHost(fs)
	fs.StringVar(&f.listen, "listen", "", "address to listen on, without port (default: all)")
	fs.IntVar(&f.port, "port", 0, "port to listen on (default: the first free one of the job's eight)")
	fs.IntVar(&f.termExit, "term-exit", -1, "exit code after SIGTERM (default: 0 when idle, 143 while a job runs)")
	cli.DurationVar(fs, &f.grace, "grace", 0, true, "between SIGTERM and SIGKILL of ranks when the agent is told to end "+
		"(default: $MPIUP_POD_GRACE less 5s, else 25s)")
	cli.DurationVar(fs, &f.idleExit, "idle-exit", 0, true, "end with exit code 0 when a job has run and no session has come for `TIME`; 0 is never (default 0)")
	fs.BoolVar(&f.noGossip, "no-gossip", false, "do not look for peers; launchers must name their hosts")
	fs.BoolVar(&f.check, "check", false, "ask this container's agent whether it serves, and exit")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "say more in the log")
	fs.BoolVar(&f.logJSON, "log-json", false, "log in JSON")
	return c
}

// registerHost adds the flags that say what this host is for launchers.
func (f *agentFlags) registerHost(fs *pflag.FlagSet) {
	fs.StringVar(&f.name, "name", "", "name of this host (default: its host name; with --listen 127.x.y.z that address)")
	fs.StringVar(&f.http, "http", defaultHTTP, "address of /healthz, /readyz and /metrics, or \"off\"")
	fs.BoolVar(&f.unshown, "no-metrics", false, "serve /healthz and /readyz, and no /metrics")
	cli.DurationVar(fs, &f.gpuEvery, "gpu-metrics", 0, true,
		"show NVIDIA GPUs' use on /metrics too, read every `TIME` while it is scraped (default: $MPIUP_GPU_METRICS, else 0: not)")
	fs.IntVar(&f.slots, "slots", 0, "ranks this host takes when the launcher does not say (default: GPUs, else CPUs)")
	f.policy.register(fs)
}

// checkHost finds what no agent can be made of, and gives the host its name.
func (f *agentFlags) checkHost(p *process) error {
	said := "the host name"
	if ip, err := netip.ParseAddr(f.listen); f.name != "" {
		p.host, said = f.name, "--name"
	} else if err == nil && ip.Is4() && ip.IsLoopback() && ip != netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
		p.host = f.listen // one of several agents of a machine, which are told apart by their names
	}
	if host, number, err := net.SplitHostPort(f.listen); err == nil {
		return usage(fmt.Errorf("--listen: an address without a port; write --listen %s --port %s", host, number))
	}
	if err := hostlist.CheckName(p.host); err != nil {
		return usage(fmt.Errorf("%s: %w; give this agent another one with --name", said, err))
	}
	if f.port < 0 || f.port > 65535 {
		return usage(fmt.Errorf("--port: %d is not a port; use 1 to 65535", f.port))
	}
	if f.slots < 0 || f.slots > agent.MaxSlots {
		return usage(fmt.Errorf("--slots: %d is out of range; use 1 to %d, or leave it out for as many as GPUs, else CPUs", f.slots, agent.MaxSlots))
	}
	return nil
}

func (f *agentFlags) run(p *process) error {
	if err := f.checkHost(p); err != nil {
		return err
	}
	id, err := p.identity(&f.hosts.IdentityFlags, identity.RoleAgent, f.logger(p))
	if err != nil {
		return identityError(err)
	}
	life := identity.IncarnationOf("/", p.host)
	runDir := host.RunDir(p.getenv("TMPDIR"), os.Getuid())
	if f.check {
		return f.runCheck(p, id, life, runDir)
	}
	cfg, err := f.config(p, id, life, runDir)
	if err != nil {
		return err
	}
	_, err = f.serve(p, cfg)
	return err
}

// serve is an agent until it is told to end, by SIGTERM or a launcher; told is what that launcher said.
func (f *agentFlags) serve(p *process, cfg agent.Config) (told string, err error) {
	a, err := agent.New(cfg)
	if err != nil {
		return "", &exitError{job.ExitInternal, err}
	}
	if err := reap.RaiseLimits(); err != nil {
		cfg.Log.Warn("limits", "cause", err)
	}
	outliveReaders()
	ctx, cancel := p.untilEnded()
	defer cancel()
	p.code, err = a.Run(ctx)
	var taken *port.ListenError
	switch {
	case errors.As(err, &taken):
		return "", usage(fmt.Errorf("%w; see --listen and --port", err))
	case err != nil:
		return "", &exitError{job.ExitInternal, err}
	}
	if ctx.Err() != nil && f.termExit >= 0 {
		p.code = f.termExit
	}
	return a.Told(), nil
}

func (f *agentFlags) config(p *process, id *identity.Identity, life, runDir string) (agent.Config, error) {
	if f.hosts.Insecure && !loopback(f.listen) {
		if f.listen != "" {
			return agent.Config{}, usage(fmt.Errorf("--insecure listens on loopback only, not on %s", f.listen))
		}
		f.listen = "127.0.0.1"
	}
	if f.hosts.Insecure && f.http == defaultHTTP {
		f.http = net.JoinHostPort(f.listen, strings.TrimPrefix(defaultHTTP, ":"))
	}
	if host, _, err := net.SplitHostPort(f.http); f.hosts.Insecure && f.http != "off" && (err != nil || !loopback(host)) {
		return agent.Config{}, usage(fmt.Errorf("--insecure listens on loopback only, not for --http %s: leave it out, or write --http 127.0.0.1%s, or off", f.http, defaultHTTP))
	}
	log := f.logger(p)
	inv, gpus := inventory(p, log)
	rules, err := f.policy.read(p.lookup)
	if err == nil {
		err = p.read(setting{"MPIUP_GPU_METRICS", f.policy.set.Changed("gpu-metrics"), into(&f.gpuEvery, cli.ParseDuration)})
	}
	if err != nil {
		return agent.Config{}, usage(err)
	}
	grace, err := termGrace(p.getenv, f.grace)
	if err != nil {
		return agent.Config{}, usage(err)
	}
	entries, err := f.hosts.Entries()
	if err != nil {
		return agent.Config{}, usage(err)
	}
	var seeds []string
	for _, e := range entries {
		seeds = append(seeds, e.Name)
	}
	if f.http == defaultHTTP && f.listen != "" {
		f.http = net.JoinHostPort(f.listen, strings.TrimPrefix(defaultHTTP, ":"))
	}
	return agent.Config{
		Name: p.host, Node: nodeName(p.getenv, log), Version: version, Incarnation: life, Inventory: inv, GPUs: gpus, Helpers: helpers(), Slots: f.slots, Env: p.env,
		Dir: dirOrRoot(), RunDir: runDir, Executable: guardExe(), Stdout: p.stdout, Stderr: p.stderr, Log: log,
		Identity: id, Listen: f.listen, Port: f.port, HTTP: f.http, NoMetrics: f.unshown,
		Resolver: resolve.New(resolve.Config{}), Seeds: append(seeds, serviceNames("/", p.host)...),
		Grace: grace, Gossip: !f.noGossip, Ready: p.ready, Hasten: p.hasten, Rest: rest, IdleExit: f.idleExit, GPUMetrics: f.gpuEvery, Policy: rules,
	}, nil
}

// nodeName is the pod's node where the pod tells. Launchers refuse an agent whose node is no host name, since commands have it.
func nodeName(env func(string) string, log *slog.Logger) string {
	name := env("NODE_NAME")
	if name != "" && hostlist.CheckName(name) != nil {
		log.Warn("NODE_NAME is no name of a host, and is not told to launchers", "value", visible.Line(name[:min(len(name), 80)]))
		return ""
	}
	return name
}

func (f *agentFlags) logger(p *process) *slog.Logger {
	o := &slog.HandlerOptions{}
	if f.verbose {
		o.Level = slog.LevelDebug
	}
	if f.logJSON {
		return slog.New(slog.NewJSONHandler(visible.Writer(p.stderr), o))
	}
	return slog.New(slog.NewTextHandler(p.stderr, o))
}

func (f *agentFlags) runCheck(p *process, id *identity.Identity, life, runDir string) error {
	ctx, cancel := awake.Within(context.Background(), 10*time.Second)
	defer cancel()
	addr, err := agent.Check(ctx, id, life, runDir)
	if err != nil {
		return &exitError{1, errors.Join(errors.New("agent --check: not serving"), err)}
	}
	visible.Fprintf(p.stdout, "the agent of this container serves at %s\n", addr)
	return nil
}
