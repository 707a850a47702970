package session

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
)

// Caller is who opens or resumes a session.
type Caller struct {
	Name string         // the launcher's proven name
	Peer *identity.Peer // what its certificate says; nil: it is this very process
	From net.Addr       // nil with Peer
}

// launcherID is who opened a session: the identity its certificate states, the life of its
// container, and names for messages.
type launcherID struct {
	identity string
	Life
	namespace string
	pod       string
	free      bool // it has the job's secret and calls itself as it likes; else a certificate proves name and role
}

// whoIs is the launcher that opens a session.
func whoIs(by Caller, o *apiv1.Open) launcherID {
	return launcherID{identity: by.Name, namespace: o.Namespace, pod: o.Pod,
		Life: Life{Incarnation: o.Incarnation, Host: o.Launcher, Sandbox: o.Sandbox},
		free: by.Peer != nil && !by.Peer.RoleProven && identity.Require(*by.Peer, identity.RoleLauncher) == nil}
}

// takes says that a launcher may take over what another had, or end it: in the same job, a pod that is made anew has
// another name. Where certificates prove names, it must be the same.
func (l launcherID) takes(of launcherID) bool { return l.identity == of.identity || l.free }

// trail is a session's part of the audit trail, three kinds of line in the agent's log (docs/security.md): "session" for
// each session that is opened ("session taken over" where another launcher does), "start" for each Launch, and "start refused" for each
// that the policy does not allow.
type trail struct {
	log     *slog.Logger
	session string

	mu     sync.Mutex
	noted  bool          // guarded by mu
	who    identity.Peer // guarded by mu
	caller []any         // who opened it, or took it over, as attributes; nil: this very process; guarded by mu
}

// opened writes who opened the session, once: by the first stream; and each who takes it over. This very process leaves no line.
func (t *trail) opened(by Caller, l launcherID, adopts bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if by.Peer == nil || t.noted && !adopts {
		return
	}
	t.noted, t.who = true, *by.Peer
	t.caller = []any{"identity", t.who.Name, "role", string(t.who.Role), "proven", t.who.RoleProven, "from", by.From.String(),
		"launcher", l.Host, "namespace", l.namespace, "pod", l.pod}
	what := "session"
	if adopts {
		what = "session taken over"
	}
	t.log.Info(what, append([]any{"session", t.session, "incarnation", short(l.Incarnation)}, t.caller...)...)
}

// whose is who opened the session, or took it over.
func (t *trail) whose() (identity.Peer, []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.who, t.caller
}

// kindOf is what a Launch is to the policy.
func kindOf(l *apiv1.Launch) policy.Kind {
	switch {
	case l.Exec.GetShell():
		return policy.Shell
	case l.Exec != nil:
		return policy.Exec
	}
	return policy.Run
}

// forbids says why the session's launcher may not start l here, nil if it may: the policy is for
// those who come over the network, and a Launch of no processes starts nothing.
func (t *trail) forbids(rules *policy.Policy, l *apiv1.Launch) *policy.Refusal {
	who, caller := t.whose()
	if caller == nil || len(l.Procs) == 0 {
		return nil
	}
	var no *policy.Refusal
	kinds := []policy.Kind{kindOf(l)}
	if len(l.Files) > 0 {
		kinds = append(kinds, policy.Copy)
	}
	if l.Job.Number > 0 {
		kinds = append(kinds, policy.Spawn)
	}
	for _, k := range kinds {
		if errors.As(rules.Check(k, who), &no) {
			break
		}
	}
	return no
}

// mayLook says why the session's launcher may not see what ranks do, nil if it may.
func (t *trail) mayLook(rules *policy.Policy) error {
	who, caller := t.whose()
	if caller == nil {
		return nil
	}
	return rules.Check(policy.Look, who)
}

// begins writes a Launch of which something begins, as which user: its files, or its processes.
func (t *trail) begins(l *apiv1.Launch, files bool) {
	what := kindOf(l)
	if files {
		what = policy.Copy
	}
	t.log.Info("start", t.line(what, l)...)
}

// refused is a Launch that the policy does not allow.
func (t *trail) refused(l *apiv1.Launch, why *policy.Refusal) {
	t.log.Warn("start refused", append(t.line(why.Kind, l), "rule", why.Rule)...)
}

// line is a Launch as attributes for the log.
func (t *trail) line(what policy.Kind, l *apiv1.Launch) []any {
	of := []any{"what", what.String(), "session", t.session, "number", l.Number, "job", l.Job.Number}
	if what == policy.Copy {
		of = append(of, "files", filesText(l))
	} else {
		of = append(of, "processes", len(l.Procs), "of", l.Job.Size, "command", ranks.CommandOf(l.Apps))
	}
	_, caller := t.whose()
	return append(append(of, "uid", os.Getuid()), caller...)
}

// filesText is the files of a launch with their sizes, cut at maxAuditCommand.
func filesText(l *apiv1.Launch) string {
	var b strings.Builder
	for i, f := range l.Files {
		if i > 0 {
			b.WriteByte(' ')
		}
		if b.Len() > ranks.MaxAuditCommand {
			b.WriteString("...")
			break
		}
		fmt.Fprintf(&b, "%.1024q:%d", f.Name, f.Size)
	}
	return b.String()
}

// short is an id as people read it.
func short(id string) string { return id[:min(len(id), 8)] }
