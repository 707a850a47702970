package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/streams"
)

// ExecConfig is one command on one host: no rank, no PMI, its streams passed through as they
// are.
type ExecConfig struct {
	reach.Reach
	// Host is looked for among the sources' hosts first, also by its first label; one they do
	// not know is taken as a name of its own, which is waited for as long as Strange says (0: as any).
	Host    string
	Strange time.Duration
	App     job.App
	Timeout time.Duration // 0: none
	Stdin   *os.File      // nil: the command reads end of file
	TTY     bool          // -t: the command gets a terminal of its own, ours is raw meanwhile
	Force   bool          // with TTY: also where ours is no terminal
	Term    string        // $TERM
	Signals <-chan os.Signal
	Started func() // called when the command runs; nil: nobody waits for it

	// Shell: App.Argv is one text for the login shell of the agent's user, in its home directory;
	// "" is an interactive shell.
	Shell bool
	// Keep: what the command leaves behind when it ends lives on, until the agent or another
	// incarnation of this launcher ends it.
	Keep bool
	// Failed is the exit code for all that is not the command's own, and for a command that a
	// signal ended; 0: mpiup's codes, and 128+signal.
	Failed int
	Quiet  bool // nothing of mpiup's own is said

	others string // the source whose hosts Host is not among; "" if none knows any
}

// Exec runs the command and returns its exit code, 128+signal if one killed it, or mpiup's own
// (docs/exit-codes.md). The first INT and TERM are passed on, the second kills.
func Exec(ctx context.Context, cfg ExecConfig) int {
	cfg.Fill()
	var out iof.Config
	if cfg.Quiet {
		out.Stderr, cfg.Stderr = cfg.Stderr, io.Discard
	}
	if cfg.TTY && !cfg.Force && !cfg.terminal() {
		return cfg.failed(End(&cfg.Reach, reach.Failf(job.ExitUsage, "-t needs a terminal as standard input")))
	}
	entry, among, err := cfg.pick()
	if err != nil {
		return cfg.failed(End(&cfg.Reach, err))
	}
	if among == nil && cfg.others != "" && cfg.Strange > 0 {
		cfg.Wait = min(cfg.Wait, cfg.Strange)
	}
	if len(among) > 1 && cfg.Identity != nil {
		cfg.Pinned = sibling(ctx, &cfg.Reach, entry.Name, among)
	}
	cfg.Entries, cfg.Size, cfg.Said = []hostlist.Entry{entry}, 0, true // one host is all that is meant
	cfg.App.N = 1
	return runJob(ctx, Config{
		Reach: cfg.Reach, Wishes: Wishes{Apps: []job.App{cfg.App}, Timeout: cfg.Timeout, PMI: job.NoProtocol}, Output: out, Stdin: cfg.Stdin, Signals: cfg.Signals,
	}, &cfg)
}

// stranger is what else there is to say of a host that could not be reached. c may be nil: a run.
func (c *ExecConfig) stranger(err error) error {
	var f *reach.Failure
	if c == nil || c.others == "" || !errors.As(err, &f) || f.Code == job.ExitUsage {
		return err
	}
	return &reach.Failure{Code: f.Code, Lines: append(f.Lines, fmt.Sprintf("%s is not among the hosts of %s", c.Host, c.others))}
}

// terminal tells whether our standard input is one.
func (c *ExecConfig) terminal() bool { return c.Stdin != nil && streams.IsTerminal(c.Stdin) }

// failed is the exit code of what is not the command's own doing. c may be nil: a run.
func (c *ExecConfig) failed(code int) int {
	if c != nil && c.Failed != 0 {
		return c.Failed
	}
	return code
}

// pick is the host that is meant, as the sources spell it, and the hosts that it is one of.
func (c *ExecConfig) pick() (hostlist.Entry, []hosts.Wanted, error) {
	set, err := c.Static()
	if err != nil {
		return hostlist.Entry{}, nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	if set != nil {
		if err := c.Fewer(set); err != nil && c.Size > 0 {
			return hostlist.Entry{}, nil, reach.Failf(job.ExitHosts, "%v", err)
		}
		c.others = set.From
		for _, whole := range []bool{true, false} {
			for _, w := range set.Hosts {
				name := w.Entry.Name
				if !whole {
					name = hostlist.FirstLabel(name)
				}
				if strings.EqualFold(name, c.Host) {
					c.others = ""
					return hostlist.Entry{Name: w.Entry.Name, Slots: 1, Given: true}, set.Hosts, nil
				}
			}
		}
	}
	entries, err := hostlist.ParseList(c.Host)
	if err == nil && len(entries) != 1 {
		err = errors.New("exec takes one host")
	}
	if err != nil {
		return hostlist.Entry{}, nil, reach.Failf(job.ExitUsage, "%v", err)
	}
	return hostlist.Entry{Name: entries[0].Name, Slots: 1, Given: true}, nil, nil
}

// sibling is where the agent of a host is whose address others of the list have too: pods of
// one hostNetwork node are told apart by the list's order. An agent that goes by the host's
// name is no sibling, and the zero AddrPort leaves the search to the run.
func sibling(ctx context.Context, r *reach.Reach, name string, among []hosts.Wanted) (at netip.AddrPort) {
	i := slices.IndexFunc(among, func(w hosts.Wanted) bool { return w.Entry.Name == name })
	if i < 0 || among[i].Local {
		return at
	}
	alone := r.Visit(ctx, among[i:i+1], nil)
	if len(alone) == 0 || alone[0].Hello == nil || strings.EqualFold(hostlist.FirstLabel(alone[0].Hello.Name), hostlist.FirstLabel(name)) {
		return at
	}
	for _, v := range r.Visit(ctx, among, nil) {
		if v.Entry.Name == name && v.Hello != nil {
			at = v.Addr
		}
	}
	return at
}

// asked is how the agent is to run the command.
func (c *ExecConfig) asked() *apiv1.Exec {
	e := &apiv1.Exec{Shell: c.Shell, Keep: c.Keep}
	if !c.TTY {
		return e
	}
	e.Terminal, e.Term = true, c.Term
	if !c.terminal() {
		return e
	}
	if rows, columns, err := streams.TerminalSize(c.Stdin); err == nil {
		e.Rows, e.Columns = uint32(rows), uint32(columns)
	}
	return e
}

// raw calls f with our terminal in raw mode if the command has one of its own.
func (c *ExecConfig) raw(say func(string, ...any), f func() error) error {
	if c == nil || !c.TTY || !c.terminal() {
		return f()
	}
	return streams.Raw(c.Stdin, func(err error) { say("the terminal stays in raw mode: %v; type reset", err) }, f)
}
