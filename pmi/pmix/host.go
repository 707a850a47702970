package pmix

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/socket"
	"github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/event"
	"github.com/mpiup/mpiup/pmi/pmix/leftover"
	"github.com/mpiup/mpiup/pmi/pmix/modex"
)

// host is what all connections share.
type host struct {
	cfg       Config
	log       *slog.Logger
	jobs      jobs
	presence  presence
	names     *modex.Names
	events    *event.Board
	leftovers *leftover.Registry
	turns     kvs.Turns[turn]
	talks     socket.Talks[int] // by id

	ctx    context.Context // of what is started for no connection; ends with Run
	cancel context.CancelCauseFunc

	tooHeavy sync.Once // the user is told of the first barrier that carries too much

	mu      sync.Mutex
	groups  *modex.Groups   // guarded by mu
	aborted idset.Set       // guarded by mu; ids of processes that others have ended
	unheard map[uint64]bool // guarded by mu; requests that the user was told of

	work sync.WaitGroup // job data being packed, what jobs that are over leave behind
}

func newHost(cfg Config) *host {
	h := &host{cfg: cfg, log: cfg.Log, jobs: newJobs(), names: modex.NewNames(cfg.Engine.Names()), groups: modex.NewGroups(), unheard: map[uint64]bool{}}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.events = event.NewBoard(h.log)
	bases := []string{leftover.Shm} // where a killed rank leaves Open MPI's segments
	if cfg.SessionDir != "" {
		bases = []string{cfg.SessionDir, leftover.Shm}
	}
	h.leftovers = leftover.NewRegistry(bases...)
	return h
}

// start runs f, which end waits for; after end it does nothing.
func (h *host) start(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() == nil {
		h.work.Go(f)
	}
}

// end lets no more jobs in, and waits for what was started for them.
func (h *host) end() {
	h.mu.Lock()
	h.cancel(errors.New("the PMIx server has ended"))
	h.mu.Unlock()
	h.work.Wait()
}

// notice is a sentence for the user.
func (h *host) notice(format string, args ...any) {
	if f := h.cfg.Hooks.OnNotice; f != nil {
		f(fmt.Sprintf(format, args...))
	}
}

func (h *host) failed(id int, err error) {
	h.log.Debug("PMIx", "id", id, "cause", err)
	if f := h.cfg.Hooks.OnError; f != nil {
		f(id, err)
	}
}

// show has text shown with a rank's output.
func (h *host) show(id int, stderr bool, text string) {
	if f := h.cfg.Hooks.OnLog; f != nil {
		f(id, stderr, printable(text))
	}
}

// withGroups runs f, the only one that sees the groups meanwhile.
func (h *host) withGroups(f func(g *modex.Groups)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h.groups)
}

// abort notes processes that another process has ended.
func (h *host) abort(ids idset.Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aborted = h.aborted.Union(ids)
}

// withoutAborted is the error of a barrier of processes, which is the answer where a process of it was
// ended by another.
func (h *host) withoutAborted(ids func() idset.Set, err error) error {
	var st bfrops.Code
	if err == nil || errors.As(err, &st) {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.aborted.Overlaps(ids()) {
		return bfrops.ErrRequestedAbort
	}
	return err
}

// turn is a process's place in the barriers of one set and tag.
type turn struct {
	id  int
	set string
}

// presence is which ranks of the host are connected. The zero value is ready for use.
type presence struct {
	mu    sync.Mutex
	ranks map[int]*connections // guarded by mu; by id
}

// connections are a rank's.
type connections struct {
	main    *visit // see the package comment; nil: none
	open    int
	refused int // those of other processes
}

// visit is one connection's.
type visit struct {
	id  int
	who client.Process // as far as it is known
}

const maxPerRank = 16 // connections open at one time

// A busyError is a process that says that it is a rank for which another one is in MPI.
type busyError struct {
	first client.Process
	leave func() // ends what is counted of its connection; nil: there are too many of them
}

func (e *busyError) Error() string {
	return fmt.Sprintf("process %d is in MPI for that rank", e.first.PID)
}

var errManyConnections = fmt.Errorf("the rank has %d open connections already", maxPerRank)

// enter counts a connection that passed the handshake. It fails where the rank has too many, and with a *busyError where
// another process has the main one, between its handshake and FINALIZE. main: it is the rank's main one now.
func (p *presence) enter(id int, who client.Process, lives func(client.Process) bool) (v *visit, main bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranks[id]
	if busy := p.excludesLocked(id, who, lives); busy != nil {
		return nil, false, busy
	}
	if r == nil {
		r = &connections{}
		if p.ranks == nil {
			p.ranks = map[int]*connections{}
		}
		p.ranks[id] = r
	}
	if r.open >= maxPerRank {
		return nil, false, errManyConnections
	}
	v = &visit{id: id, who: who}
	r.open++
	if main = r.main == nil; main {
		r.main = v
	}
	return v, main, nil
}

// excludes says that another process keeps this one from being the rank, and counts its connection then; nil: none does.
func (p *presence) excludes(id int, who client.Process, lives func(client.Process) bool) *busyError {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.excludesLocked(id, who, lives)
}

func (p *presence) excludesLocked(id int, who client.Process, lives func(client.Process) bool) *busyError {
	r := p.ranks[id]
	if r == nil || r.main == nil || !r.main.who.Excludes(who, lives) {
		return nil
	}
	busy := &busyError{first: r.main.who}
	if r.refused >= maxPerRank {
		return busy
	}
	r.refused++
	busy.leave = sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		r.refused--
		p.forget(id, r)
	})
	return busy
}

// forget drops what is kept of a rank that has no connection. mu is held.
func (p *presence) forget(id int, r *connections) {
	if r.open == 0 && r.refused == 0 {
		delete(p.ranks, id)
	}
}

// stop notes that v has ended well, and says whether it was the rank's main connection.
func (p *presence) stop(v *visit) (main bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranks[v.id]
	if main = r.main == v; main {
		r.main = nil
	}
	return main
}

// leave forgets a connection that has ended. gone: it was the rank's main one; alone: the rank has
// no other.
func (p *presence) leave(v *visit) (gone, alone bool) {
	gone = p.stop(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranks[v.id]
	r.open--
	p.forget(v.id, r)
	return gone, r.open == 0
}

// connected says whether a rank has its main connection.
func (p *presence) connected(id int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranks[id]
	return r != nil && r.main != nil
}
