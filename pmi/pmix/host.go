package pmix

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/socket"
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
	main *visit // see the package comment; nil: none
	open int
}

// visit is one connection's.
type visit struct{ id int }

const maxPerRank = 16 // connections open at one time

// enter counts a connection that passed the handshake; nil if the rank has too many. main: it is the rank's main one.
func (p *presence) enter(id int) (v *visit, main bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranks[id]
	if r == nil {
		r = &connections{}
		if p.ranks == nil {
			p.ranks = map[int]*connections{}
		}
		p.ranks[id] = r
	}
	if r.open >= maxPerRank {
		return nil, false
	}
	v = &visit{id}
	r.open++
	if main = r.main == nil; main {
		r.main = v
	}
	return v, main
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
	if r.open--; r.open == 0 {
		delete(p.ranks, v.id)
	}
	return gone, r.open == 0
}

// connected says whether a rank has its main connection.
func (p *presence) connected(id int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranks[id]
	return r != nil && r.main != nil
}
