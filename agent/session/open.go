package session

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
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

// Attach serves one stream of one session. It blocks until the stream breaks or the session is over. An error that is
// ErrBadFrame is the launcher's fault.
func (t *Table) Attach(ctx context.Context, stream wire.Stream, by Caller) error {
	o, err := t.readOpen(ctx, stream)
	if err != nil {
		return err
	}
	s, reply := t.admit(o, by.Name)
	if s != nil {
		s.trail.opened(by, s.launcher)
		reply.Received = s.link.Received()
		reply.Machine = t.describe(o.Machine)
	}
	if err := stream.Send(reply.Frame()); err != nil || s == nil {
		return err
	}
	if by.Peer != nil {
		t.cfg.Settle(by.From)
	}
	return s.carry(ctx, stream, o.Received)
}

// admit finds or makes the session an Open asks for. Without one the reply says why.
func (t *Table) admit(o *apiv1.Open, launcher string) (*session, *apiv1.Opened) {
	name := t.cfg.Name
	reply := &apiv1.Opened{Protocol: apiv1.Protocol, Version: t.cfg.Version, Host: t.cfg.Hello()}
	own, highest := t.numbers(launcher, o.Incarnation)
	reply.OwnNumber, reply.OwnProof, reply.HighestNumber = own.Number, own.Proof, highest
	refuse := func(r apiv1.Refusal, format string, args ...any) (*session, *apiv1.Opened) {
		reply.Refusal, reply.Text = r, fmt.Sprintf(format, args...)
		return nil, reply
	}
	if o.Protocol != apiv1.Protocol {
		return refuse(apiv1.Refusal_REFUSAL_PROTOCOL,
			"host %s speaks protocol %d (mpiup %s), the launcher %d (mpiup %s): use one build in all pods",
			name, apiv1.Protocol, t.cfg.Version, o.Protocol, o.Version)
	}
	if id, err := hex.DecodeString(o.Session); err != nil || len(id) != 16 || len(o.Secret) != 16 {
		return refuse(apiv1.Refusal_REFUSAL_SECRET, "malformed session id or secret")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, fenced := t.open[o.Session], t.lives.Fenced(launcher, o.Incarnation)
	switch {
	case s != nil && (subtle.ConstantTimeCompare(s.secret, o.Secret) != 1 || s.launcher.identity != launcher):
		return refuse(apiv1.Refusal_REFUSAL_SECRET, "host %s: the session belongs to another process", name)
	case s != nil:
		return s, reply
	case o.Resume && fenced != nil: // its connection broke before it read so
		return refuse(apiv1.Refusal_REFUSAL_FENCED, "%v host %s", fenced, name)
	case o.Resume:
		return refuse(apiv1.Refusal_REFUSAL_UNKNOWN_SESSION, "host %s does not know the session (any more)", name)
	case t.cfg.Ending.Err() != nil:
		return refuse(apiv1.Refusal_REFUSAL_ENDING, "the agent on host %s is ending: %v", name, context.Cause(t.cfg.Ending))
	case len(t.open) >= MaxSessions:
		return refuse(apiv1.Refusal_REFUSAL_LIMIT, "host %s has %d sessions open already", name, MaxSessions)
	}
	s = newSession(t, o, launcher)
	t.lives.Met(launcher, s.launcher.Life, s.born)
	t.open[o.Session] = s
	t.running.Go(s.run)
	t.pace.begins(s.born)
	t.running.Go(func() { t.cfg.Host.XML() }) // the machine is known when the first job comes; who needs it gets the error
	reply.MeetingPorts = t.reservePorts(o)
	return s, reply
}

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
