package codec

import (
	"fmt"

	"google.golang.org/grpc/mem"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// Unfit is why a frame could not be put into bytes, or made of the other side's. The frame would come again on each
// further stream of its session, so no reconnect helps.
type Unfit struct {
	// Sent says that the frame is ours; else it came from the other side.
	Sent bool
	// Body is that of a frame of ours.
	Body any
	Err  error
}

func (u *Unfit) Error() string {
	if u.Sent {
		return fmt.Sprintf("a frame %T cannot be sent: %v", u.Body, u.Err)
	}
	return fmt.Sprintf("a frame that came cannot be read: %v", u.Err)
}

func (u *Unfit) Unwrap() error { return u.Err }

// Stream is a session's wire.Stream over one of gRPC's whose codec is Codec. Errors of frames are *Unfit, which gRPC would
// make an error like that of a broken connection.
type Stream struct {
	GRPC interface {
		SendMsg(m any) error
		RecvMsg(m any) error
	}
}

// Send puts a frame into bytes and sends it.
func (s Stream) Send(f *apiv1.Frame) error {
	parts, err := Codec{}.Marshal(f)
	if err != nil {
		return &Unfit{Sent: true, Body: f.GetBody(), Err: err}
	}
	return s.GRPC.SendMsg(encoded(parts))
}

// Recv is the next frame that comes.
func (s Stream) Recv() (*apiv1.Frame, error) {
	in := &incoming{frame: &apiv1.Frame{}}
	if err := s.GRPC.RecvMsg(in); err != nil {
		return nil, err
	}
	if in.err != nil {
		return nil, &Unfit{Err: in.err}
	}
	return in.frame, nil
}

// encoded is a frame that Codec has nothing to do for any more.
type encoded mem.BufferSlice

// incoming is a frame that Codec makes.
type incoming struct {
	frame *apiv1.Frame
	// err is why it could not be made. What Codec returned as an error would be gRPC's.
	err error
}
