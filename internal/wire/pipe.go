package wire

import (
	"context"
	"io"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// pipeDepth: frames under way in each direction of a Pipe.
const pipeDepth = 16

type pipeEnd struct {
	ctx       context.Context
	out       chan<- *apiv1.Frame
	in        <-chan *apiv1.Frame
	otherDone <-chan struct{}
}

// Pipe is two joined Streams in one process: the embedded agent's connection. Both end with
// ctx, and the returned functions end one end each, as a closed connection would: the other
// end reads what was sent and then io.EOF.
func Pipe(ctx context.Context) (a, b Stream, endA, endB context.CancelFunc) {
	ab, ba := make(chan *apiv1.Frame, pipeDepth), make(chan *apiv1.Frame, pipeDepth)
	ctxA, endA := context.WithCancel(ctx)
	ctxB, endB := context.WithCancel(ctx)
	a = &pipeEnd{ctx: ctxA, out: ab, in: ba, otherDone: ctxB.Done()}
	b = &pipeEnd{ctx: ctxB, out: ba, in: ab, otherDone: ctxA.Done()}
	return a, b, endA, endB
}

func (p *pipeEnd) Send(f *apiv1.Frame) error {
	select {
	case <-p.ctx.Done():
		return io.ErrClosedPipe
	case <-p.otherDone:
		return io.EOF
	default:
	}
	select {
	case p.out <- f:
		return nil
	case <-p.ctx.Done():
		return io.ErrClosedPipe
	case <-p.otherDone:
		return io.EOF
	}
}

func (p *pipeEnd) Recv() (*apiv1.Frame, error) {
	select {
	case f := <-p.in:
		return f, nil
	default:
	}
	select {
	case f := <-p.in:
		return f, nil
	case <-p.ctx.Done():
		return nil, io.ErrClosedPipe
	case <-p.otherDone:
		select {
		case f := <-p.in:
			return f, nil
		default:
			return nil, io.EOF
		}
	}
}
