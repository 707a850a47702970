// Package loopback receives connections to a loopback port, to which anybody on the host may connect. It finds out whose
// process a connection is before it reads anything, and then lets a protocol do its handshake. Those who may not
// speak must not stand in the way of those who may.
//
//	accept ──▶ enter ──▶ Check: whose is it? ──▶ Admit: what does it say? ──▶ serve: its answer, and all that follows
//	           └──────────────────── one of 64 places ────────────────────┘
//	                     our time                   its time: at most 5 s
//
//	all places taken ──▶ the oldest guest that has been silent for a second is hung up on
//
// A rank says who it is as soon as it is connected. So those who stay silent are strangers; the second is for a busy
// host. A stranger gets no answer: its connection is closed, and the log tells of the first few.
//
// Only a guest's own silence counts, and not what this process does about it. While the agent finds out whose a connection is, or has
// not yet read what has come, as on a host that gives it no processor, nobody is hung up on: a rank would fail at its MPI_Init (Open MPI
// says "OPAL ERROR: Unreachable"). What is answered is answered after the guest's time, which ends no write in its middle.
//
// Run blocks until the listener and every connection are closed and everything started has ended.
// PeerOf may be called from any goroutine.
//
// It does not know what is said, nor which processes are a job's: Check and Admit are the caller's.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/socket"
	"github.com/mpiup/mpiup/pmi/client"
)

const (
	places   = 64              // guests at one time; more wait in the listener's queue
	stay     = 5 * time.Second // for Check's waits; for a guest to say who it is
	patience = time.Second     // after which a silent guest gives way to the next
	maxTold  = 16              // strangers in the log; then at debug level only
)

// Config is what a protocol brings. Admit is required.
type Config struct {
	Name string // of the protocol, for errors and the log

	// Check says whose process a connection is, if that shows, and why it is not taken; nil takes everybody's. It is
	// asked before anything is read, and may wait until ctx ends.
	Check func(ctx context.Context, conn net.Conn) (client.Process, error)

	// Admit reads who the guest is, whose process Check has found; its reads end with the guest's time. It writes nothing: that is for
	// what it returns, which answers and serves the connection until its end, and is called in any case.
	// Or it returns the reason why the guest is not served, and gets no answer. It never closes the connection, which
	// is closed when serve has returned.
	Admit func(conn net.Conn, who client.Process) (serve func(ctx context.Context), err error)

	Log *slog.Logger // nil: none
}

// Lobby is one port's.
type Lobby struct {
	cfg  Config
	left chan struct{} // capacity 1; a place has become free

	mu     sync.Mutex
	guests []*guest // guarded by mu; in the order they came
	told   int      // guarded by mu; strangers in the log
}

// guest is a connection that has not been admitted yet.
type guest struct {
	conn   net.Conn
	ctx    context.Context
	cancel context.CancelFunc
	since  time.Time // guarded by Lobby.mu; it is its turn to speak; zero: not yet
	out    bool      // guarded by Lobby.mu; had to give way
}

// New starts nothing.
func New(cfg Config) *Lobby {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Lobby{cfg: cfg, left: make(chan struct{}, 1)}
}

// Run receives until ctx ends (its cause) or the listener fails, which ends the connections too.
func (lb *Lobby) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() == nil && passes(ctx, err) {
				continue
			}
			cancel(fmt.Errorf("%s listener: %w", lb.cfg.Name, err))
			return context.Cause(ctx)
		}
		g := lb.enter(ctx, conn)
		if g == nil {
			conn.Close()
			return context.Cause(ctx)
		}
		wg.Go(func() { lb.receive(ctx, g) })
	}
}

// receive sees a guest in or out.
func (lb *Lobby) receive(ctx context.Context, g *guest) {
	defer g.conn.Close()
	defer context.AfterFunc(ctx, func() { g.conn.Close() })()
	serve, err := lb.admit(g)
	if lb.leave(g) && err != nil {
		err = fmt.Errorf("it gave way to another after %v without saying who it is", patience)
	}
	switch {
	case err != nil:
		lb.tell(ctx, g.conn, err)
	case serve != nil:
		serve(ctx)
	}
}

func (lb *Lobby) admit(g *guest) (serve func(context.Context), err error) {
	var who client.Process
	if lb.cfg.Check != nil {
		if who, err = lb.cfg.Check(g.ctx, g.conn); err != nil {
			return nil, err
		}
	}
	lb.listen(g)
	lift := socket.Hear(g.conn, stay)
	serve, err = lb.cfg.Admit(g.conn, who)
	if late := lift(); err == nil && late != nil { // it was hung up on: to give way, or at the end
		return nil, late
	}
	return serve, err
}

// tell logs a stranger.
func (lb *Lobby) tell(ctx context.Context, conn net.Conn, why error) {
	if ctx.Err() != nil {
		return
	}
	lb.mu.Lock()
	lb.told++
	n := lb.told
	lb.mu.Unlock()
	level := slog.LevelWarn
	if n > maxTold {
		level = slog.LevelDebug
	}
	lb.cfg.Log.Log(ctx, level, "refused a "+lb.cfg.Name+" connection", "from", conn.RemoteAddr().String(), "cause", why)
	if n == maxTold {
		lb.cfg.Log.Warn("further refused connections are logged at debug level only", "protocol", lb.cfg.Name)
	}
}

// passes waits a moment where accepting can work again: the peer has gone, or descriptors or
// memory ran out.
func passes(ctx context.Context, err error) bool {
	again := false
	for _, e := range []error{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		again = again || errors.Is(err, e)
	}
	if !again {
		return false
	}
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
