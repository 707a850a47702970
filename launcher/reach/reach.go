// Package reach finds the job's hosts, makes connections to their agents and holds those that answered until all do, showing who is
// missing and why.
//
//	hosts.Sources, DNS, gossip ─Find─▶ names ─Assemble─▶ for each host: resolve ─▶ race of ports ─▶ TLS ─▶ Open ─▶ claim ─▶ hold
//	                  (discover.go, meet.go)              (gather.go)   (race.go)   (dial.go)  (open.go)              (hold.go)
//	who is missing ──▶ a table on a terminal, else lines (table.go)
//
//	Visit asks hosts once who they are, without a session (visit.go); Others and Members are whom peers and shutdown ask
//
// An agent is claimed by its incarnation: two names of one address end on two agents, and two names of one agent are no two hosts.
// What waiting does not cure is a property of a link.Cause, and a host's patience with it ends the search.
//
// Concurrency: each call blocks until all it started has ended, but for the streams of the sessions that it returns, which
// CloseAll ends. A Dialer may be used by any number of goroutines.
//
// The package starts nothing on hosts and keeps no session on a connection: that is launcher/link's.
package reach

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/internal/typed"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/launcher/survey"
)

// Words are how the command at hand says things.
type Words struct {
	WaitBy  string            // what a user sets Wait with; default "--wait"
	LocalBy string            // what a user asks for a run on this host alone with; default "--local"
	Reword  visible.Rewording // of mpiup's own lines, for who typed another command's name; nil: as they are
}

// Reach is how agents are found and spoken to; every command needs one.
type Reach struct {
	hosts.Sources
	Words
	Identity   *identity.Identity // nil: only the embedded agent can be used
	NoIdentity error              // why there is none, when hosts turn out to need one
	Resolver   *resolve.Resolver  // default: this machine's
	// Embedded serves one session of an agent in this process and returns when the session is
	// over or s has ended. nil: there is none.
	Embedded func(ctx context.Context, s wire.Stream) error
	// Here is that agent, for looks at this host. nil: there is none.
	Here survey.Agent

	Wait        time.Duration // for all hosts to answer; default 5 min
	Insist      bool          // the user said how long: hosts that do not answer are waited for all of it
	Asks        bool          // it starts no run, on this host alone or on others
	Lease       time.Duration // how long an agent keeps ranks of a silent launcher; default 60 s
	LeaseSaid   bool          // the user said so
	NodeTimeout time.Duration // silence after which a host is given up; default 30 s
	Grace       time.Duration // between TERM and KILL after a failure; default 5 s
	TermGrace   time.Duration // between TERM and KILL where the pod is being ended; default 25 s

	Incarnation string // of this container (internal/identity)
	Sandbox     string // of its pod (internal/identity)
	Version     string // of this build
	Namespace   string // of our pod, for the agents' audit lines
	Pod         string

	Stdout   io.Writer
	Stderr   io.Writer  // mpiup's own lines, and the ranks' standard error
	Terminal bool       // Stderr is a terminal: progress is redrawn in place
	Width    func() int // columns of that terminal; nil: 80
	Log      *slog.Logger
	// TerminationLog gets the last lines of a failure (Kubernetes: /dev/termination-log). It is
	// written only if it exists, or TerminationBy says who has named it, so that it is to be made; "" is nowhere.
	TerminationLog string
	TerminationBy  string        // the flag or variable
	Termination    *outfile.File // TerminationLog, since it was seen that it can be written; nil: it was not

	Pinned netip.AddrPort // where the only host's agent is, if that is known already
	Known  *hosts.Set     // the hosts, if they have been reached already; nil: they are looked for
	// Told gets the lines that explain a failure, and the last lines of the rank that failed. nil: nobody does.
	Told func(lines, tail []string)
	// Met is called with each host that answers, and where its agent is, by any goroutine. nil: nobody wants to know.
	Met  func(hosts.Wanted)
	Need phases.Need // what hosts that are found one by one must be
	// Unsent are variables of this process that ranks do not get from it. Hosts tell which of them they have otherwise.
	Unsent []typed.Variable
	Loss   job.Loss // what becomes of a run's ranks when this launcher is lost
}

// Fill puts defaults where nothing is said.
func (r *Reach) Fill() {
	r.Wait, r.WaitBy, r.LocalBy = cmp.Or(r.Wait, job.DefaultWait), cmp.Or(r.WaitBy, "--wait"), cmp.Or(r.LocalBy, "--local")
	r.Lease, r.NodeTimeout = cmp.Or(r.Lease, job.DefaultLease), cmp.Or(r.NodeTimeout, job.DefaultNodeTimeout)
	r.Grace, r.TermGrace = cmp.Or(r.Grace, job.DefaultGrace), cmp.Or(r.TermGrace, job.DefaultTermGrace)
	if r.Resolver == nil {
		r.Resolver = resolve.New(resolve.Config{Root: r.Root, Domain: r.Subdomain()})
	}
	if r.Env == nil {
		r.Env = func(string) string { return "" }
	}
	if r.Environ == nil {
		r.Environ = func() []string { return nil }
	}
	if r.Stdout == nil {
		r.Stdout = io.Discard
	}
	if r.Stderr == nil {
		r.Stderr = io.Discard
	}
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	if r.Width == nil {
		r.Width = func() int { return 80 }
	}
}

// InPod says that this host, and so, as far as it knows, each of the job, is a pod of Kubernetes.
func (r *Reach) InPod() bool { return r.Sandbox != "" || r.Namespace != "" }

// Head prints the line of mpiup's own that matters, so that it is seen where the terminal can show that.
func (r *Reach) Head(format string, args ...any) {
	const red, plain = "\x1b[1;31m", "\x1b[0m"
	if !r.Terminal || r.Env("NO_COLOR") != "" || r.Env("TERM") == "" || r.Env("TERM") == "dumb" { // no-color.org
		r.Say(format, args...)
		return
	}
	fmt.Fprintf(r.Stderr, "%smpiup: %s%s\n", red, visible.Line(r.Reword.Sprintf(format, args...)), plain)
}

// Say prints one line of mpiup's own.
func (r *Reach) Say(format string, args ...any) {
	fmt.Fprintf(r.Stderr, "mpiup: %s\n", visible.Line(r.Reword.Sprintf(format, args...)))
}
