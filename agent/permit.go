package agent

import (
	"errors"

	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

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

// forbidden says why the session's launcher may not start l here, nil if it may: the policy is for
// those who come over the network, and a Launch of no processes starts nothing.
func (s *session) forbidden(l *apiv1.Launch) *policy.Refusal {
	if s.caller == nil || len(l.Procs) == 0 {
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
		if errors.As(s.agent.cfg.Policy.Check(k, s.who), &no) {
			break
		}
	}
	return no
}

// addForbidden takes a job of which nothing is started, as if its program were not there. It claims
// nothing and ends nothing of an older launcher.
func (s *session) addForbidden(l *outfit.Launch, no *policy.Refusal) error {
	_, err := s.addJob(l, func(st *ranks.Job) {
		s.auditRefused(l.Launch, no)
		st.Refuse(no.Error())
	})
	return err
}
