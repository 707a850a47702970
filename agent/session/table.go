package session

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/mpiup/mpiup/agent/lives"
	"github.com/mpiup/mpiup/agent/ports"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/wire"
)

// Table is an agent's sessions.
type Table struct {
	cfg   Config
	lives lives.Book
	kept  kept
	pace  pace
	ports ports.Table // that ranks will meet at

	running sync.WaitGroup // sessions
	readers sync.WaitGroup // goroutines that wait for a stream's first frame

	mu   sync.Mutex
	open map[string]*session // by id, guarded by mu
}

// New only builds.
func New(c Config) *Table {
	return &Table{cfg: c, open: map[string]*session{}, pace: pace{hasten: c.Hasten, rest: c.Rest, idleExit: c.IdleExit}}
}

// Caller is who opens or resumes a session.
type Caller struct {
	Name string         // the launcher's proven name
	Peer *identity.Peer // what its certificate says; nil: it is this very process
	From net.Addr       // nil with Peer
}

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

// forget takes out a session that is over.
func (t *Table) forget(s *session) {
	t.mu.Lock()
	delete(t.open, s.id)
	t.mu.Unlock()
	t.ports.Release(s.id)
	t.pace.ended(t.cfg.Clock.Now())
}

// all is the sessions now, in no order.
func (t *Table) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.open))
}

// Count is how many sessions are open.
func (t *Table) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// Busy says that processes of a launcher run here, or were left behind by one on purpose.
func (t *Table) Busy() bool {
	return t.keptLive() || slices.ContainsFunc(t.all(), (*session).busy)
}

// Tick is called with every step of the clock. It ends sessions whose launchers are gone, and says that IdleExit has passed
// since the last one of a job.
func (t *Table) Tick() (idle bool) {
	now, all := t.cfg.Clock.Now(), t.all()
	for _, s := range all {
		s.tick(now)
	}
	return t.pace.pass(now, len(all)) && !t.keptLive()
}

// Wait returns when no session is left; it is called once Config.Ending has ended.
func (t *Table) Wait() {
	t.Count() // who is being admitted is waited for too, and nobody is after that
	t.running.Wait()
}

// WaitStreams returns when nobody reads a stream any more; it is called once all streams have ended.
func (t *Table) WaitStreams() { t.readers.Wait() }
