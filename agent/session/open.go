package session

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/mpiup/mpiup/agent/policy"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/typed"
	"github.com/mpiup/mpiup/internal/wire"
)

// Attach serves one stream of one session. It blocks until the stream breaks or the session is over. An error that is
// ErrBadFrame is the launcher's fault.
func (t *Table) Attach(ctx context.Context, stream wire.Stream, by Caller) error {
	o, err := t.readOpen(ctx, stream)
	if err != nil {
		return err
	}
	s, reply := t.admit(o, by)
	if s == nil {
		return stream.Send(reply.Frame())
	}
	s.trail.opened(by, s.by(), o.Adopt)
	reply.Received = s.link.Received()
	reply.Machine = t.describe(o.Machine) // may take long where the machine stalls
	if !o.Resume && !o.Adopt {
		reply.Lacks = t.lacks(o)
	}
	s.answers()
	if err := stream.Send(reply.Frame()); err != nil {
		return s.leave(err)
	}
	if by.Peer != nil && t.cfg.Left(by.From) { // a stream that carries is not left for one that cannot
		return s.leave(errLeft)
	}
	if by.Peer != nil {
		t.cfg.Settle(by.From)
	}
	if o.Resume && s.carried() {
		if stream, err = confirmed(stream); err != nil {
			return s.leave(err)
		}
	}
	return s.leave(s.carry(ctx, stream, o.Received))
}

// confirmed waits for the first frame on a stream that is to take another one's place: the launcher has read our answer then, and goes on over
// this one. It may have given it up instead, where we were late; then the other carries on. The wait ends with the stream.
func confirmed(stream wire.Stream) (wire.Stream, error) {
	f, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return &begun{Stream: stream, first: f}, nil
}

// begun is a stream of which a frame was read.
type begun struct {
	wire.Stream
	first *apiv1.Frame // nil: Recv has given it out
}

// Recv gives the frame out that was read.
func (b *begun) Recv() (*apiv1.Frame, error) {
	if f := b.first; f != nil {
		b.first = nil
		return f, nil
	}
	return b.Stream.Recv()
}

// errLeft is of a stream whose launcher has given it up before the agent came to it.
var errLeft = errors.New("its launcher has hung up meanwhile")

// admit finds or makes the session an Open asks for, which counts the stream from here on. Without one the reply says why.
func (t *Table) admit(o *apiv1.Open, by Caller) (s *session, reply *apiv1.Opened) {
	name, launcher := t.cfg.Name, by.Name
	reply = &apiv1.Opened{Protocol: apiv1.Protocol, Version: t.cfg.Version, Host: t.cfg.Hello()}
	own, highest := t.numbers(launcher, o.Incarnation)
	reply.OwnNumber, reply.OwnProof, reply.HighestNumber = own.Number, own.Proof, highest
	refuse := func(r apiv1.Refusal, format string, args ...any) (*session, *apiv1.Opened) {
		reply.Refusal, reply.Text = r, fmt.Sprintf(format, args...)
		return nil, reply
	}
	if o.Protocol != apiv1.Protocol {
		return refuse(apiv1.Refusal_REFUSAL_PROTOCOL,
			"host %s speaks protocol %d (mpiup %s), the launcher %d (mpiup %s): use one build on all hosts",
			name, apiv1.Protocol, t.cfg.Version, o.Protocol, o.Version)
	}
	if id, err := hex.DecodeString(o.Session); err != nil || len(id) != 16 || len(o.Secret) != 16 {
		return refuse(apiv1.Refusal_REFUSAL_SECRET, "malformed session id or secret")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { s.enter() }()
	s = t.open[o.Session]
	fenced := t.lives.Fenced(launcher, o.Incarnation)
	var ours, succeeded bool
	if s != nil {
		ours, succeeded = s.owns(launcher, o.Secret)
	}
	switch {
	case o.Adopt && fenced != nil:
		return refuse(apiv1.Refusal_REFUSAL_FENCED, "%v host %s", fenced, name)
	case o.Adopt && t.cfg.Ending.Err() != nil:
		return refuse(apiv1.Refusal_REFUSAL_ENDING, "the agent on host %s is ending: %v", name, context.Cause(t.cfg.Ending))
	case o.Adopt:
		if no, why := t.adopt(s, ours, o, by); no != apiv1.Refusal_REFUSAL_NONE {
			return refuse(no, "%s", why)
		}
		reply.Left = s.departed()
		return s, reply
	case s != nil && !ours && succeeded:
		return refuse(apiv1.Refusal_REFUSAL_SUCCEEDED, "launcher %s has it on host %s", s.by().Host, name)
	case s != nil && !ours:
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
	t.cfg.Clock.Pace(wire.Quick)
	s = newSession(t, o, whoIs(by, o))
	t.lives.Met(launcher, s.by().Life, s.born)
	t.open[o.Session] = s
	t.running.Go(s.run)
	t.pace.begins(s.born)
	t.cfg.Super.Expect()
	t.running.Go(func() { t.cfg.Host.XML() }) // the machine is known when the first job comes; who needs it gets the error
	reply.MeetingPorts = t.reservePorts(o)
	reply.Held = t.heldFor(s, o)
	return s, reply
}

// lacks are the launcher's variables that processes here will not have so, unless it hands them over.
func (t *Table) lacks(o *apiv1.Open) []uint32 {
	marks := make([]typed.Mark, min(len(o.Marks), typed.MaxMarks))
	for i := range marks {
		marks[i] = typed.Mark{Name: o.Marks[i].GetName(), Digest: o.Marks[i].GetDigest()}
	}
	return typed.Lacking(marks, t.cfg.Env, o.Secret)
}

// unheard is how long a launcher is silent that may be lost. It gives a sign of life every second.
const unheard = 3 * time.Second

// maxHeld bounds the runs that a launcher is told of.
const maxHeld = 4

// heldFor are the runs here that a new launcher has to know of: each has lost its launcher, or may lose it soon. The new one may take them
// over. Where another launcher has just done so, or its user said nothing of such runs, it tells its user.
func (t *Table) heldFor(of *session, o *apiv1.Open) (list []*apiv1.Held) {
	if o.OnLoss != apiv1.Loss_LOSS_HOLD && o.OnLoss != apiv1.Loss_LOSS_UNSAID {
		return nil
	}
	me := of.by()
	for _, s := range t.open {
		if s != of && len(list) < maxHeld {
			if h := s.offered(me, o); h != nil {
				list = append(list, h)
			}
		}
	}
	return list
}

// adopt hands a session over that is without launcher, or says why not. t.mu is held.
func (t *Table) adopt(s *session, ours bool, o *apiv1.Open, by Caller) (apiv1.Refusal, string) {
	name := t.cfg.Name
	if s == nil || s.record == nil {
		return apiv1.Refusal_REFUSAL_UNKNOWN_SESSION, fmt.Sprintf("host %s does not hold it (any more)", name)
	}
	silent := s.link.Silent()
	s.mu.Lock()
	st, offer, leaving, before, lease := s.state, s.offer, s.leaving, s.launcher, s.lease
	successor := s.adopted && s.streams > 0 && silent <= unheard
	s.mu.Unlock()
	comes := whoIs(by, o)
	switch {
	case !comes.takes(before):
		return apiv1.Refusal_REFUSAL_SECRET, fmt.Sprintf("host %s: only a launcher that proves to be %s takes this run over, "+
			"and this is %s", name, before.identity, by.Name)
	case leaving:
		return apiv1.Refusal_REFUSAL_TOLD, fmt.Sprintf("launcher %s told the ranks of host %s to end", before.Host, name)
	case offer == nil || st > held:
		return apiv1.Refusal_REFUSAL_UNKNOWN_SESSION, fmt.Sprintf("host %s does not hold it any more: its ranks are told to end", name)
	case !bytes.Equal(offer.Command, o.Command):
		return apiv1.Refusal_REFUSAL_SECRET, fmt.Sprintf("host %s holds it for the command %s", name, offer.Text)
	case len(o.Secret) != 16 || o.OnLoss != apiv1.Loss_LOSS_HOLD:
		return apiv1.Refusal_REFUSAL_SECRET, fmt.Sprintf("host %s: who takes a run over brings a secret, and holds it", name)
	case ours && s.link.Acknowledged():
		return apiv1.Refusal_REFUSAL_SECRET, fmt.Sprintf("host %s: it is this launcher's already, and this request is an old one", name)
	case st != held && !ours && !comes.Succeeds(before.Life) && successor:
		return apiv1.Refusal_REFUSAL_SUCCEEDED, fmt.Sprintf("launcher %s has it on host %s", before.Host, name)
	case st != held && !ours && !comes.Succeeds(before.Life):
		return apiv1.Refusal_REFUSAL_ALIVE, fmt.Sprintf("host %s has not given launcher %s up: it was silent for %v, "+
			"and has %v", name, before.Host, silent.Round(time.Second), lease)
	}
	if by.Peer != nil {
		if err := t.cfg.Policy.Check(policy.Run, *by.Peer); err != nil {
			return apiv1.Refusal_REFUSAL_LIMIT, err.Error()
		}
	}
	t.lives.Met(by.Name, comes.Life, t.cfg.Clock.Now())
	if err := s.takeOver(o, comes); err != nil {
		s.end("the launcher takes no frames: " + err.Error())
	}
	return apiv1.Refusal_REFUSAL_NONE, ""
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
	late, stop := awake.Within(ctx, openDeadline)
	defer stop()
	select {
	case r := <-got:
		if r.err != nil {
			return nil, r.err
		}
		if o := r.f.GetOpen(); o != nil {
			return o, checkOpen(o)
		}
		return nil, fmt.Errorf("%w: the first frame is not Open", ErrBadFrame)
	case <-late.Done():
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: no Open within %v", ErrBadFrame, openDeadline)
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
	return apiv1.PackMachine(l)
}

// reservePorts keeps ports of this host for a new session's ranks, as its Open wants them.
func (t *Table) reservePorts(o *apiv1.Open) (list []uint32) {
	n := int(min(o.MeetingPorts, maxPorts))
	within, err := job.ParsePorts(o.MpiPorts)
	if n == 0 || err != nil { // a range that is none fails the launch, with its reason
		return nil
	}
	own := !within.IsZero()
	if !own {
		within = Usual(bounded.Tree("/"))
	}
	for _, p := range t.ports.Reserve(o.Session, n, within, own) {
		list = append(list, uint32(p))
	}
	return list
}
