package agent

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"google.golang.org/grpc/peer"
)

// The audit trail is three kinds of line in the agent's log (docs/security.md): "session" for each
// session that is opened, "start" for each Launch, and "start refused" for each that the policy
// does not allow.

// auditOpen writes who opened the session, once. ctx is the call that carries the first stream;
// the embedded agent's has no peer and leaves no line.
func (s *session) auditOpen(ctx context.Context) {
	s.audited.Do(func() {
		who, ok := identity.PeerFromContext(ctx)
		if !ok {
			return
		}
		s.who = who
		s.caller = []any{"identity", who.Name, "role", string(who.Role), "proven", who.RoleProven}
		if p, ok := peer.FromContext(ctx); ok {
			s.caller = append(s.caller, "from", p.Addr.String())
		}
		l := s.launcher
		s.caller = append(s.caller, "launcher", l.Host, "namespace", l.namespace, "pod", l.pod)
		s.agent.cfg.Log.Info("session", append([]any{"session", short(s.id), "incarnation", short(l.Incarnation)}, s.caller...)...)
	})
}

// audit writes who starts what, as which user: one line per Launch.
func (s *session) audit(l *apiv1.Launch) {
	s.agent.cfg.Log.Info("start", s.startLine(kindOf(l), l)...)
}

// auditCopy is audit for the files that come before the ranks of a Launch.
func (s *session) auditCopy(l *apiv1.Launch) {
	s.agent.cfg.Log.Info("start", s.startLine(policy.Copy, l)...)
}

// auditRefused is audit for a Launch that the policy does not allow.
func (s *session) auditRefused(l *apiv1.Launch, why *policy.Refusal) {
	s.agent.cfg.Log.Warn("start refused", append(s.startLine(why.Kind, l), "rule", why.Rule)...)
}

// startLine is a Launch as attributes for the log.
func (s *session) startLine(what policy.Kind, l *apiv1.Launch) []any {
	if what == policy.Copy {
		return append([]any{"what", what.String(), "session", short(s.id), "number", l.Number, "job", l.Job.Number,
			"files", filesText(l), "uid", os.Getuid()}, s.caller...)
	}
	return append([]any{"what", what.String(), "session", short(s.id), "number", l.Number, "job", l.Job.Number,
		"processes", len(l.Procs), "of", l.Job.Size, "command", ranks.CommandOf(l.Apps), "uid", os.Getuid()}, s.caller...)
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

// auditBegin writes a Launch of which something begins: its files, or its processes.
func (s *session) auditBegin(l *apiv1.Launch, files bool) {
	if files {
		s.auditCopy(l)
		return
	}
	s.audit(l)
}
