package agent

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

// Attach serves one stream of one session: identity is the launcher's proven name. It blocks
// until the stream breaks or the session is over.
func (a *Agent) Attach(ctx context.Context, stream wire.Stream, identity string) error {
	o, err := a.readOpen(ctx, stream)
	if err != nil {
		return err
	}
	s, reply := a.admit(o, identity)
	if s != nil {
		s.auditOpen(ctx)
		reply.Received = s.link.Received()
		reply.Machine = a.describe(o.Machine)
	}
	if err := stream.Send(reply.Frame()); err != nil {
		return err
	}
	if s == nil {
		return nil
	}
	return s.carry(ctx, stream, o.Received)
}

// readOpen reads the first frame. A peer that sends none is let go after openDeadline: the
// reading goroutine ends when the stream does, which is when Attach returns.
func (a *Agent) readOpen(ctx context.Context, stream wire.Stream) (*apiv1.Open, error) {
	type result struct {
		f   *apiv1.Frame
		err error
	}
	got := make(chan result, 1)
	a.readers.Go(func() {
		f, err := stream.Recv()
		got <- result{f, err}
	})
	t := time.NewTimer(openDeadline)
	defer t.Stop()
	select {
	case r := <-got:
		if r.err != nil {
			return nil, r.err
		}
		if o := r.f.GetOpen(); o != nil {
			return o, checkOpen(o)
		}
		return nil, fmt.Errorf("%w: the first frame is not Open", errBadFrame)
	case <-t.C:
		return nil, fmt.Errorf("%w: no Open within %v", errBadFrame, openDeadline)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errBadFrame = errors.New("not a launcher of this protocol")

// admit finds or makes the session an Open asks for. Without one the reply says why.
func (a *Agent) admit(o *apiv1.Open, identity string) (*session, *apiv1.Opened) {
	reply := &apiv1.Opened{Protocol: apiv1.Protocol, Version: a.cfg.Version, Host: a.hello()}
	own, highest := a.numbers(identity, o.Incarnation)
	reply.OwnNumber, reply.OwnProof, reply.HighestNumber = own.Number, own.Proof, highest
	refuse := func(r apiv1.Refusal, format string, args ...any) (*session, *apiv1.Opened) {
		reply.Refusal, reply.Text = r, fmt.Sprintf(format, args...)
		return nil, reply
	}
	if o.Protocol != apiv1.Protocol {
		return refuse(apiv1.Refusal_REFUSAL_PROTOCOL,
			"host %s speaks protocol %d (mpiup %s), the launcher %d (mpiup %s): use one build in all pods",
			a.cfg.Name, apiv1.Protocol, a.cfg.Version, o.Protocol, o.Version)
	}
	if id, err := hex.DecodeString(o.Session); err != nil || len(id) != 16 || len(o.Secret) != 16 {
		return refuse(apiv1.Refusal_REFUSAL_SECRET, "malformed session id or secret")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s, fenced := a.sessions[o.Session], a.lives.Fenced(identity, o.Incarnation)
	switch {
	case s != nil && subtle.ConstantTimeCompare(s.secret, o.Secret) != 1,
		s != nil && s.launcher.identity != identity:
		return refuse(apiv1.Refusal_REFUSAL_SECRET, "host %s: the session belongs to another process", a.cfg.Name)
	case s == nil && o.Resume && fenced != nil:
		// Its connection broke before it read so.
		return refuse(apiv1.Refusal_REFUSAL_FENCED, "%v host %s", fenced, a.cfg.Name)
	case s == nil && o.Resume:
		return refuse(apiv1.Refusal_REFUSAL_UNKNOWN_SESSION,
			"host %s does not know the session (any more)", a.cfg.Name)
	case s != nil:
		return s, reply
	case a.isStopping():
		return refuse(apiv1.Refusal_REFUSAL_ENDING, "the agent on host %s is ending: %s", a.cfg.Name, a.stopText())
	case len(a.sessions) >= maxSessions:
		return refuse(apiv1.Refusal_REFUSAL_LIMIT, "host %s has %d sessions open already", a.cfg.Name, maxSessions)
	}
	s = newSession(a, o, identity)
	a.lives.Met(identity, s.launcher.Life, s.born)
	a.sessions[o.Session] = s
	a.running.Go(s.run)
	a.haste.begin(a.clock.Now())
	a.readMachine()
	reply.MeetingPorts = a.reservePorts(o)
	return s, reply
}

func (a *Agent) forget(s *session) {
	a.mu.Lock()
	delete(a.sessions, s.id)
	a.mu.Unlock()
	a.ports.Release(s.id)
	a.lull.ended(a.clock.Now())
}

// activeSessions counts sessions that hold processes.
func (a *Agent) activeSessions() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.sessions {
		s.mu.Lock()
		if len(s.jobs.byBase) > 0 && !s.spent {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

func (a *Agent) tick() {
	now := a.clock.Now()
	a.mu.Lock()
	all := make([]*session, 0, len(a.sessions))
	for _, s := range a.sessions {
		all = append(all, s)
	}
	a.mu.Unlock()
	for _, s := range all {
		s.tick(now)
	}
	a.haste.pass(now)
	a.lull.pass(now, len(all))
	a.endIfIdle(now, len(all))
}

// describe is this host's machine as far as a launcher wants to know it; nil: it does not, or it is
// not known. What may be used is asked of the kernel each time, for a CPU manager changes it.
func (a *Agent) describe(wish apiv1.MachineWish) *apiv1.Machine {
	if wish == apiv1.MachineWish_MACHINE_NOT_WANTED {
		return nil
	}
	l, _, err := a.host.Layout()
	if err != nil {
		a.cfg.Log.Info("the launcher is not told of the machine", "cause", err)
		return nil
	}
	if wish == apiv1.MachineWish_MACHINE_IF_EXCLUSIVE && !l.Exclusive && len(a.cfg.GPUs.GPUs) == 0 {
		return nil
	}
	return machine.Pack(l)
}

// gpuUnits is what launchers are told of the GPUs that ranks here can be given.
func (a *Agent) gpuUnits() (units []*apiv1.GpuUnit) {
	for _, u := range a.cfg.GPUs.Units() {
		m := &apiv1.GpuUnit{Vendor: string(a.cfg.GPUs.Vendor), Uuid: u.Name(), Model: u.GPU.Model, NearCpus: u.GPU.Near.String()}
		if u.GPU.Located() {
			m.Pci = u.GPU.At.String()
		}
		units = append(units, m)
	}
	return units
}

// maxMeetingPorts bounds what one session may have reserved: two for the job, and one a rank of TensorFlow's.
const maxMeetingPorts = 256

// reservePorts keeps ports of this host for a new session's ranks, as its Open wants them.
func (a *Agent) reservePorts(o *apiv1.Open) (list []uint32) {
	n := int(min(o.MeetingPorts, maxMeetingPorts))
	within, err := network.ParsePorts(o.MpiPorts)
	if n == 0 || err != nil { // a range that is none fails the launch, with its reason
		return nil
	}
	own := !within.IsZero()
	if !own {
		within = ports.Usual(os.DirFS("/"))
	}
	for _, p := range a.ports.Reserve(o.Session, n, within, own) {
		list = append(list, uint32(p))
	}
	return list
}
