package agent

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/internal/api/codec"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/nearby"
)

// showNearby lets this user look at what runs here, where the agent is a launcher's own and has no port, until ctx ends. The ranks run as well without.
func (a *Agent) showNearby(ctx context.Context) {
	if a.cfg.Inside.Look == "" {
		return
	}
	err := nearby.Serve(ctx, a.cfg.Inside.Look, func(ctx context.Context, kind byte, question []byte) ([]byte, error) {
		if err := a.cfg.Policy.Check(policy.Look, identity.Peer{Role: identity.RoleLauncher}); err != nil {
			return nil, err
		}
		switch kind {
		case apiv1.AskRanks:
			var q apiv1.RanksRequest
			if err := proto.Unmarshal(question, &q); err != nil {
				return nil, errors.New("this is no question")
			}
			reply, err := a.ranks(ctx, &q)
			if err != nil {
				return nil, err
			}
			return codec.Encode(reply)
		case apiv1.AskSaid:
			if a.cfg.Inside.Said != nil {
				return a.cfg.Inside.Said(), nil
			}
		}
		return nil, errors.New("this build knows no such question")
	})
	if err != nil {
		a.cfg.Log.Info("mpiup ps, stacks and logs cannot look at this run", "cause", err)
	}
}
