package agent

import (
	"context"
	"errors"

	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/survey"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mayAsk: who may run ranks here may ask what they would find, and open connections as they could.
func (s *service) mayAsk(ctx context.Context) error {
	if err := s.agent.cfg.Policy.Check(policy.Run, caller(ctx)); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return nil
}

// refusalOf is a look's error as the launcher tells such ones apart.
func refusalOf(err error) error {
	if errors.As(err, new(*survey.CommandLineError)) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

func (s *service) Checkup(ctx context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	if err := s.mayAsk(ctx); err != nil {
		return nil, err
	}
	reply, err := s.agent.survey.Checkup(ctx, r)
	if err != nil {
		return nil, refusalOf(err)
	}
	return reply, nil
}

func (s *service) Answer(stream grpc.BidiStreamingServer[apiv1.AnswerRequest, apiv1.AnswerReply]) error {
	if err := s.mayAsk(stream.Context()); err != nil {
		return err
	}
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s.agent.running.Go(func() { // ends with the stream
		_, _ = stream.Recv() // the end of the caller's side, in whichever way
		cancel()
	})
	if err := s.agent.survey.Answer(ctx, r, stream.Send); err != nil {
		return refusalOf(err)
	}
	return nil
}

func (s *service) Ask(ctx context.Context, r *apiv1.AskRequest) (*apiv1.AskReply, error) {
	if err := s.mayAsk(ctx); err != nil {
		return nil, err
	}
	reply, err := s.agent.survey.Ask(ctx, r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reply, nil
}
