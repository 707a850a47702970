package reach

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/survey"
)

// Remote is an agent over the network, for a survey.
type Remote struct{ Conn *Conn }

var _ survey.Agent = Remote{}

// told is an agent's refusal without gRPC's words.
func (a Remote) told(err error) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.InvalidArgument:
		return &survey.UsageError{Text: said(err)}
	case codes.FailedPrecondition:
		return errors.New(said(err))
	case codes.DeadlineExceeded:
		return fmt.Errorf("%v: its agent does not answer in time", a.Conn.addr)
	}
	return a.Conn.explain(err)
}

// Hello asks who it is.
func (a Remote) Hello(ctx context.Context) (*apiv1.HelloReply, error) {
	r, err := a.Conn.Client.Hello(ctx, &apiv1.HelloRequest{Protocol: apiv1.Protocol})
	if err == nil {
		err = link.CheckHost(r)
	}
	return r, a.told(err)
}

// Checkup asks what it finds on its host.
func (a Remote) Checkup(ctx context.Context, q *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	r, err := a.Conn.Client.Checkup(ctx, q)
	return r, a.told(err)
}

// Ask has it connect to another.
func (a Remote) Ask(ctx context.Context, q *apiv1.AskRequest) (*apiv1.AskReply, error) {
	r, err := a.Conn.Client.Ask(ctx, q)
	return r, a.told(err)
}

// Answer has it listen until done is called.
func (a Remote) Answer(ctx context.Context, q *apiv1.AnswerRequest) (addresses []string, done func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := awake.After(link.OpenTimeout, cancel)
	stream, err := a.Conn.Client.Answer(ctx)
	if err == nil {
		err = stream.Send(q)
	}
	var reply *apiv1.AnswerReply
	if err == nil || errors.Is(err, io.EOF) { // the reason is with the receiving side
		reply, err = stream.Recv()
	}
	stop()
	if err != nil {
		cancel()
		return nil, nil, a.told(err)
	}
	return reply.Addresses, func() error {
		defer cancel()
		defer awake.After(link.OpenTimeout, cancel)()
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

// Release ends the connections of hosts that were looked at.
func Release(hosts []survey.Host) {
	for _, h := range hosts {
		if r, ok := h.Agent.(Remote); ok {
			r.Conn.Close()
		}
	}
}
