package pmi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/socket"
)

// state is where a connection stands; see the package comment.
type state int

const (
	fresh state = 1 << iota
	running
	finalized
	aborted
)

func (s state) String() string {
	switch s {
	case fresh:
		return "before init"
	case running:
		return "after init"
	case finalized:
		return "after finalize"
	}
	return "after abort"
}

// initName begins a connection, and begins it anew: it is a PMI-1 line in both dialects.
const initName = "init"

// handler answers one message. An error ends the connection; a refusal that the client can read
// is a reply.
type handler func(context.Context, *session, *Message, *reply) error

// command is one message in both spellings.
type command struct {
	v1, reply1 string // PMI-1 request and reply; "": not in PMI-1
	v2         string // PMI-2 request, whose reply is NAME-response; "": not in PMI-2
	states     state  // in which it is allowed
	handle     handler
	last       bool // it may be a rank's last word, and waits for nobody; others may
}

func (c *command) replyName(request string, v2 bool) string {
	request = request[:min(len(request), 32)] // longer than any known
	switch {
	case v2:
		return request + "-response"
	case c.reply1 != "":
		return c.reply1
	}
	return request + "_result"
}

func unsupported(rc int, what string) handler {
	return func(_ context.Context, _ *session, _ *Message, r *reply) error {
		r.refuse(rc, what+" is not supported by mpiup")
		return nil
	}
}

// session is one connection of one rank.
type session struct {
	srv  *Server
	rank int
	talk *socket.Talk
	conn net.Conn
	in   *bufio.Reader
	find func(name string, v2 bool) *command

	state   state
	v2      bool // since the last init
	seconds *seconds

	cancel     context.CancelCauseFunc // ends what the session waits for
	barriers   sync.WaitGroup          // and other answers that come later
	inBarriers atomic.Int32

	mu   sync.Mutex
	out  []byte // guarded by mu
	deaf bool   // the rank has gone, or could not be answered and was hung up on, guarded by mu
}

func newSession(srv *Server, conn net.Conn, rank int, talk *socket.Talk, find func(name string, v2 bool) *command) *session {
	s := &session{srv: srv, rank: rank, talk: talk, conn: conn, find: find, state: fresh}
	s.seconds = &seconds{session: s}
	s.in = bufio.NewReader(s.seconds)
	return s
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

func (s *session) run(ctx context.Context) error {
	ctx, s.cancel = context.WithCancelCause(ctx)
	s.seconds.ctx = ctx
	err := s.converse(ctx)
	s.srv.finish(s)
	s.cancel(nil)
	s.conn.SetDeadline(longAgo) // nobody waits for a rank that does not read
	s.barriers.Wait()
	return err
}

// fail ends the conversation with a barrier's error, whatever it is waiting for.
func (s *session) fail(err error) {
	s.cancel(err)
	s.conn.SetReadDeadline(longAgo)
}

func (s *session) converse(ctx context.Context) error {
	for s.state != aborted {
		m, asV2, err := s.read()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return s.hungUp(err)
		}
		reply, err := s.answer(ctx, m, asV2)
		if err != nil {
			return err
		}
		s.write(reply)
		if err := s.seconds.answerRest(); err != nil {
			return s.hungUp(err)
		}
	}
	return nil
}

// read returns the next request and how it was written: a line is welcome in PMI-2 where it
// starts anew.
func (s *session) read() (m *Message, asV2 bool, err error) {
	first, err := s.in.Peek(1)
	if err != nil {
		return nil, false, err
	}
	if c := first[0]; c == ' ' || c >= '0' && c <= '9' {
		m, err = ReadPMI2(s.in)
		return m, true, err
	}
	m, err = ReadPMI1(s.in)
	return m, false, err
}

// answer finds m's row in the table and does what it says.
func (s *session) answer(ctx context.Context, m *Message, asV2 bool) (*reply, error) {
	cmd := s.find(m.Name, asV2)
	if asV2 != s.v2 && cmd.v1 != initName {
		return nil, s.protocol("%s as PMI-%d, %s", m.Name, version(asV2), s.standing())
	}
	if cmd.states&s.state == 0 {
		return nil, s.protocol("%s %s", m.Name, s.state)
	}
	r := &reply{v2: asV2, name: cmd.replyName(m.Name, asV2)}
	if thread, ok := m.Get("thrid"); ok && asV2 {
		r.add("thrid", thread)
	}
	s.talk.Hold(!cmd.last)
	err := cmd.handle(ctx, s, m, r)
	s.talk.Hold(false)
	if err != nil {
		return nil, err
	}
	if s.srv.job.Log.Enabled(ctx, slog.LevelDebug) {
		s.srv.job.Log.Debug("pmi", "rank", s.rank, "request", m.Name, "reply", r.text())
	}
	return r, nil
}

func (s *session) standing() string {
	if s.state == fresh {
		return s.state.String()
	}
	return fmt.Sprintf("%s of PMI-%d", s.state, version(s.v2))
}

func version(v2 bool) int {
	if v2 {
		return 2
	}
	return 1
}

// write answers. A rank that cannot be answered is hung up on, or it would wait for ever. What it has said before is still read: one that
// has gone may have taken its leave. After half an answer nothing more is written, whatever the rank asks.
func (s *session) write(r *reply) {
	if r.silent || r.later {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf {
		return
	}
	s.out = r.append(s.out[:0])
	if _, err := s.conn.Write(s.out); err != nil {
		s.deaf = true
		s.srv.job.Log.Debug("pmi: a rank that cannot be answered is hung up on", "rank", s.rank, "cause", err)
		socket.HangUp(s.conn)
	}
}

// hungUp says what the end of a connection means. The engine learns of it, so that nobody waits
// for this rank.
func (s *session) hungUp(err error) error {
	cut := errors.Is(err, io.ErrUnexpectedEOF)
	var syntax *SyntaxError
	switch {
	case cut, err == io.EOF, errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
	case errors.As(err, &syntax):
		return &ProtocolError{err}
	default:
		return fmt.Errorf("rank %d: PMI connection: %w", s.rank, err)
	}
	switch {
	case s.srv.superseded(s):
	case s.state == running:
		s.srv.job.Space.RankGone(s.rank, "has closed its PMI connection without MPI_Finalize")
		return &UnfinishedError{cut}
	case s.state == finalized && !s.srv.job.Reconnect:
		s.srv.job.Space.RankGone(s.rank, "has finalized MPI already")
	}
	return nil
}

func (s *session) protocol(format string, args ...any) error {
	return &ProtocolError{fmt.Errorf("it sent "+format, args...)}
}
