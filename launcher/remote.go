package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/survey"
)

// remote is an agent over the network, for a survey.
type remote struct{ conn *agentConn }

var _ survey.Agent = remote{}

// told is an agent's refusal without gRPC's words.
func (a remote) told(err error) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.InvalidArgument:
		return &survey.UsageError{Text: status.Convert(err).Message()}
	case codes.FailedPrecondition:
		return errors.New(status.Convert(err).Message())
	case codes.DeadlineExceeded:
		return fmt.Errorf("%v: its agent does not answer in time", a.conn.addr)
	}
	return a.conn.explain(err)
}

func (a remote) Hello(ctx context.Context) (*apiv1.HelloReply, error) {
	r, err := a.conn.client.Hello(ctx, &apiv1.HelloRequest{Protocol: apiv1.Protocol})
	if err == nil {
		err = checkHost(r)
	}
	return r, a.told(err)
}

func (a remote) Checkup(ctx context.Context, q *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	r, err := a.conn.client.Checkup(ctx, q)
	return r, a.told(err)
}

func (a remote) Ask(ctx context.Context, q *apiv1.AskRequest) (*apiv1.AskReply, error) {
	r, err := a.conn.client.Ask(ctx, q)
	return r, a.told(err)
}

func (a remote) Answer(ctx context.Context, q *apiv1.AnswerRequest) (addresses []string, done func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(openTimeout, cancel)
	stream, err := a.conn.client.Answer(ctx)
	if err == nil {
		err = stream.Send(q)
	}
	var reply *apiv1.AnswerReply
	if err == nil || errors.Is(err, io.EOF) { // the reason is with the receiving side
		reply, err = stream.Recv()
	}
	late.Stop()
	if err != nil {
		cancel()
		return nil, nil, a.told(err)
	}
	return reply.Addresses, func() error {
		defer cancel()
		late := time.AfterFunc(openTimeout, cancel)
		defer late.Stop()
		if err := stream.CloseSend(); err != nil {
			return err
		}
		switch _, err := stream.Recv(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return a.told(err)
		}
		return errors.New("it said something else")
	}, nil
}
