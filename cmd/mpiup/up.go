package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/agent"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/peers"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/streams"
)

func upCommand(p *process) *cobra.Command {
	f, u := &cli.RunFlags{}, &up{}
	c := &cobra.Command{
		Use:   "up [flags] [--] program [args] [: [-n N] program [args]] ...",
		Short: "Run a job whose pods all have this command: the first launches, all serve",
		Long: `Run a job whose pods all have this command: the first launches and starts ranks in itself too, the others serve. Which is the
first is what the operator tells its pods: an Indexed Job, JobSet, LeaderWorkerSet, StatefulSet, Volcano job, Kubeflow Trainer, MPI
Operator; elsewhere --index or --host says it. All pods end with the job's exit code. One that serves ends with 241 when no launcher
has come for --wait.

With MPIUP_UP=1 in the environment mpirun and mpiexec do the same (mpiup help up).`,
		Example: `  mpiup up --size 3 -N 2 ./a.out                       in an Indexed Job of three pods
  mpiup up -n 24 -N 8 ./serve                          in the pods of a LeaderWorkerSet
  mpiup up --host w0,w1 -n 4 --key key ./a.out         on w0, which launches, and on w1`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.Check(); err != nil {
				return usage(err)
			}
			if f.OnLoss.Hold > 0 {
				return usage(errors.New("--on-launcher-loss hold: the pod that launches has ranks, too, which would end with it: " +
					"leave it out, or use mpiup agent in the pods and mpiup run in one of its own"))
			}
			if c.Flags().Changed("index") && u.index < 0 {
				return usage(fmt.Errorf("--index: %d is not the number of a pod; 0 launches, the others serve", u.index))
			}
			u.agent.hosts, u.agent.verbose = f.HostFlags, f.Verbose > 0
			if err := u.agent.checkHost(p); err != nil {
				return err
			}
			p.up = u
			return runJob(p, f, c.Flags(), args)
		},
	}
	u.register(c.Flags())
	cli.ServingFlags(c.Flags())
	f.Register(c.Flags())
	cobra.CheckErr(f.RegisterCompletion(c))
	return c
}

// up is a pod's part in a job whose pods all have one command: the first launches, all serve. A nil *up is of a command that is one
// pod's own.
type up struct {
	agent agentFlags
	index int  // of this pod; negative: the operator tells
	asked bool // by MPIUP_UP, under another program's name

	part    hosts.Part
	serving *embedded // the first pod's agent; nil until it serves
	why     string    // what was said of the job's end

	mu  sync.Mutex
	met map[string]hosts.Wanted // that have answered, by name, guarded by mu
}

var errNativeUp = errors.New("the image's own launcher (native) starts its daemons by ssh from one pod: let that pod run it, and the others mpiup agent")

func (u *up) register(fs *pflag.FlagSet) {
	fs.IntVar(&u.index, "index", -1, "this pod is the job's `N`th, of which 0 launches and the others serve (default: $MPIUP_INDEX, else what the operator tells)")
	u.agent.registerHost(fs)
}

// upVariable asks for mpiup up under the names of other launchers. Its value is 1, or flags that say what each pod is for launchers.
const upVariable = "MPIUP_UP"

// upByVariable is for the names of other launchers. Within a rank they start a job of that rank's.
func upByVariable(p *process) error {
	text := strings.TrimSpace(p.getenv(upVariable))
	p.env = slices.DeleteFunc(slices.Clone(p.env), func(kv string) bool { return strings.HasPrefix(kv, upVariable+"=") })
	if _, rank := p.lookup("MPIUP_RANK"); rank || text == "" || text == "0" {
		return nil
	}
	u := &up{asked: true}
	fs := pflag.NewFlagSet(upVariable, pflag.ContinueOnError)
	u.register(fs)
	words := strings.Fields(text)
	if text == "1" {
		words = nil
	}
	if err := fs.Parse(words); err != nil || fs.NArg() > 0 {
		if err == nil {
			err = fmt.Errorf("%q is none of its flags", fs.Arg(0))
		}
		return fmt.Errorf("%s is %.80q: %w; set it to 1, or to flags as in %q", upVariable, text, err, "--slots 2 --deny exec,shell")
	}
	p.up = u
	return u.agent.checkHost(p)
}

// join takes this pod's part: where it serves, until the job has ended; where it launches, its agent serves from now on, and the caller
// launches. r is how the run would reach its hosts.
func (u *up) join(p *process, r *reach.Reach) (served bool, err error) {
	switch {
	case u == nil:
		return false, nil
	case u.asked && r.Local:
		p.up = nil
		return false, nil
	case r.Local:
		return false, usage(errors.New("--local runs all ranks in this pod alone: write mpiup run --local, or leave it out"))
	case r.Identity == nil:
		return false, identityError(r.NoIdentity)
	}
	r.Hostname, r.Pod = p.host, p.host
	life, runDir := identity.IncarnationOf("/", p.host), host.RunDir(p.getenv("TMPDIR"), os.Getuid())
	if at := u.agentHere(r.Identity, life, runDir); at != "" && u.asked {
		tell(p.stderr, "mpiup:", "this container's agent serves at "+at+" already: the job is started as without "+upVariable)
		p.up = nil
		return false, nil
	} else if at != "" {
		return false, usage(fmt.Errorf("this container's agent serves at %s already: mpiup run starts a job", at))
	}
	if u.part, err = u.partOf(p, r); err != nil {
		return false, usage(err)
	}
	r.Fill()
	r.Serves = true
	log := u.agent.logger(p)
	if u.part.First && !u.agent.verbose {
		log = slog.New(streams.Voice(p.stderr, slog.LevelWarn)) // the job's own lines are there
	}
	id, err := p.identity(&u.agent.hosts.IdentityFlags, identity.RoleAgent, log)
	if err != nil {
		return false, identityError(err)
	}
	u.agent.grace, u.agent.termExit = r.TermGrace, 128+job.SIGTERM
	cfg, err := u.agent.config(p, id, life, runDir)
	if err != nil {
		return false, err
	}
	if cfg.Log = log; !u.part.First {
		return true, u.serve(p, r, cfg)
	}
	cfg.Stdout, cfg.Stderr = io.Discard, io.Discard // the ranks' lines are there already
	u.serving = &embedded{process: p, log: log, cfg: &cfg}
	u.serving.once.Do(u.serving.start)
	r.Embedded, r.Here = u.serving.attach, here{u.serving}
	r.Told, r.Met, u.met = func(lines, _ []string) { u.why = lines[0] }, u.meets, map[string]hosts.Wanted{}
	return false, nil
}

// agentHere is where this container's agent serves; "" where there is none.
func (u *up) agentHere(id *identity.Identity, life, runDir string) string {
	ctx, cancel := awake.Within(context.Background(), queryWait)
	defer cancel()
	at, _ := agent.Check(ctx, id, life, runDir) // "" with an error
	return at
}

// partOf is which of the job's pods this is.
func (u *up) partOf(p *process, r *reach.Reach) (hosts.Part, error) {
	index := u.index
	if v := p.getenv("MPIUP_INDEX"); index < 0 && v != "" {
		n, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return hosts.Part{}, fmt.Errorf("MPIUP_INDEX is %.40q, which is not the number of a pod; 0 launches, the others serve", v)
		}
		index = int(n)
	}
	return r.Part(index, strings.HasSuffix(r.Identity.KeyFrom(), "/id_rsa"))
}

// serve is this pod's agent until the job has ended, and ends as that.
func (u *up) serve(p *process, r *reach.Reach, cfg agent.Config) error {
	cfg.Await = agent.Await{For: r.Wait, Host: u.part.Of}
	cfg.Log.Info("this pod serves", "by", u.part.By, "launcher", u.part.Of)
	told, err := u.agent.serve(p, cfg)
	switch {
	case err != nil:
		return err
	case told != "" && p.code != 0:
		launcher.End(r, reach.Failf(p.code, "the job has ended with exit code %d; its first pod says: %s", p.code, told))
	case told == "" && p.code == job.ExitHosts:
		first := cmp.Or(u.part.Of, "the first pod")
		launcher.End(r, reach.Failf(p.code, "no launcher has come for %v (%s): this pod serves, by %s, and %s is to launch; "+
			"kubectl logs of that pod says why it does not",
			r.Wait, r.WaitBy, u.part.By, first))
	}
	return nil
}

// Times for telling other pods that the job has ended. A pod that is taken away has few seconds left.
const (
	dismissal = 10 * time.Second
	farewell  = 3 * time.Second
)

// meets notes where a host's agent is.
func (u *up) meets(w hosts.Wanted) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.met[w.Entry.Name] = w
}

// dismiss lets the pods that serve end with the job's code.
func (u *up) dismiss(r *reach.Reach, code int) {
	if u == nil || u.serving == nil {
		return
	}
	limit := dismissal
	if code == job.ExitPreempted {
		limit = farewell
	}
	ctx, cancel := awake.Within(context.Background(), limit)
	defer cancel()
	if code == 0 || u.why == "" {
		u.why = fmt.Sprintf("the job has ended with exit code %d", code)
	}
	u.mu.Lock() // nobody is met any more
	defer u.mu.Unlock()
	peers.Dismiss(ctx, peers.DismissConfig{Reach: *r, Met: slices.Collect(maps.Values(u.met)), Code: code, Why: u.why,
		Otherwise: fmt.Sprintf("it ends with exit code %d when no launcher has come for %v (%s)", job.ExitHosts, r.Wait, r.WaitBy)})
	if u.part.Again {
		r.Say("Kubernetes starts the pods of this kind (%s) again, and the job with them; those of a Job or JobSet end (mpiup help up)", u.part.By)
	}
}

// leave ends the first pod's agent.
func (u *up) leave() {
	if u != nil && u.serving != nil {
		u.serving.end()
	}
}
