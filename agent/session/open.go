package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mpiup/mpiup/agent/ports"
	"github.com/mpiup/mpiup/internal/api/machine"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/internal/wire"
)

// ErrBadFrame is of a stream whose first frame is not what launchers send.
var ErrBadFrame = errors.New("not a launcher of this protocol")

// readOpen reads the first frame. A peer that sends none is let go after openDeadline: the
// reading goroutine ends when the stream does, which is when Attach returns.
func (t *Table) readOpen(ctx context.Context, stream wire.Stream) (*apiv1.Open, error) {
	type result struct {
		f   *apiv1.Frame
		err error
	}
	got := make(chan result, 1)
	t.readers.Go(func() {
		f, err := stream.Recv()
		got <- result{f, err}
	})
	late := time.NewTimer(openDeadline)
	defer late.Stop()
	select {
	case r := <-got:
		if r.err != nil {
			return nil, r.err
		}
		if o := r.f.GetOpen(); o != nil {
			return o, checkOpen(o)
		}
		return nil, fmt.Errorf("%w: the first frame is not Open", ErrBadFrame)
	case <-late.C:
		return nil, fmt.Errorf("%w: no Open within %v", ErrBadFrame, openDeadline)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// checkOpen bounds what a launcher says of itself: it is kept for the session's life, logged,
// and shown to people.
func checkOpen(o *apiv1.Open) error {
	for _, f := range []struct{ name, value string }{
		{"launcher", o.Launcher}, {"namespace", o.Namespace}, {"pod", o.Pod},
		{"version", o.Version}, {"incarnation", o.Incarnation}, {"session", o.Session},
	} {
		if len(f.value) > maxOpenField {
			return fmt.Errorf("%w: Open has a %s of %d bytes, and %d are possible", ErrBadFrame, f.name, len(f.value), maxOpenField)
		}
	}
	return nil
}

// describe is this host's machine as far as a launcher wants to know it; nil: it does not, or it is
// not known. What may be used is asked of the kernel each time, for a CPU manager changes it.
func (t *Table) describe(wish apiv1.MachineWish) *apiv1.Machine {
	if wish == apiv1.MachineWish_MACHINE_NOT_WANTED {
		return nil
	}
	l, _, err := t.cfg.Host.Layout()
	if err != nil {
		t.cfg.Log.Info("the launcher is not told of the machine", "cause", err)
		return nil
	}
	if wish == apiv1.MachineWish_MACHINE_IF_EXCLUSIVE && !l.Exclusive && len(t.cfg.GPUs.GPUs) == 0 {
		return nil
	}
	return machine.Pack(l)
}

// reservePorts keeps ports of this host for a new session's ranks, as its Open wants them.
func (t *Table) reservePorts(o *apiv1.Open) (list []uint32) {
	n := int(min(o.MeetingPorts, maxPorts))
	within, err := network.ParsePorts(o.MpiPorts)
	if n == 0 || err != nil { // a range that is none fails the launch, with its reason
		return nil
	}
	own := !within.IsZero()
	if !own {
		within = ports.Usual(os.DirFS("/"))
	}
	for _, p := range t.ports.Reserve(o.Session, n, within, own) {
		list = append(list, uint32(p))
	}
	return list
}
