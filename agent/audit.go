package agent

import (
	"context"
	"fmt"
	"os"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"google.golang.org/grpc/peer"
)

// The audit trail is two kinds of line in the agent's log (docs/security.md): "session" for each
// session that is opened and "start" for each Launch.

// auditOpen writes who opened the session, once. ctx is the call that carries the first stream;
// the embedded agent's has no peer and leaves no line.
func (s *session) auditOpen(ctx context.Context) {
	s.audited.Do(func() {
		who, ok := identity.PeerFromContext(ctx)
		if !ok {
			return
		}
		s.caller = []any{"identity", who.Name, "role", string(who.Role), "proven", who.RoleProven}
		if p, ok := peer.FromContext(ctx); ok {
			s.caller = append(s.caller, "from", p.Addr.String())
		}
		l := s.launcher
		s.caller = append(s.caller, "launcher", l.host, "namespace", l.namespace, "pod", l.pod)
		s.agent.cfg.Log.Info("session", append([]any{"session", short(s.id), "incarnation", short(l.incarnation)}, s.caller...)...)
	})
}

// audit writes who starts what, as which user: one line per Launch.
func (s *session) audit(l *apiv1.Launch) {
	kind := "run"
	switch {
	case l.Shell:
		kind = "shell"
	case l.Exec:
		kind = "exec"
	}
	s.agent.cfg.Log.Info("start", append([]any{"what", kind, "session", short(s.id), "number", l.Number, "job", l.Job,
		"processes", len(l.Procs), "of", l.Size, "command", commandOf(l.Apps), "uid", os.Getuid()}, s.caller...)...)
}

const maxAuditCommand = 1024 // bytes of all programs of a Launch, about

// commandOf is the programs of a launch with their arguments, quoted where a space or worse
// would deceive, cut at maxAuditCommand.
func commandOf(apps []*apiv1.App) string {
	var b strings.Builder
	for i, a := range apps {
		if i > 0 {
			b.WriteString(" :")
		}
		for _, word := range a.Argv {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			if b.Len() > maxAuditCommand {
				b.WriteString("...")
				return b.String()
			}
			if len(word) > maxAuditCommand {
				word = strings.ToValidUTF8(word[:maxAuditCommand], "") + "..."
			}
			if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r == '"' || r == '\'' || r > '~' }) {
				word = fmt.Sprintf("%q", word)
			}
			b.WriteString(word)
		}
	}
	return b.String()
}
