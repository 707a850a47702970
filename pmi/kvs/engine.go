package kvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
)

// AnyOwner as the owner in Get and Fetch is whoever put the key (PMI-1 has no owners).
const AnyOwner = -1

// Config describes one job on one host.
//
// KVSName must be new for every job, not only among those that run: MPICH 5 derives the names of
// its shared memory segments from it, and those of a killed job stay in /dev/shm.
type Config struct {
	KVSName  string   // the job's name in PMI, at most 32 printable characters without blank, '=' and ';'
	Size     int      // ranks of the job
	Local    []int    // those on this host
	Upstream Upstream // nil: this host has all ranks
	Names    Names    // nil: kept in memory, for a job on one host
	Preput   []Pair   // what all ranks find from the start, the same on every host
	Limits   Limits   // zero fields: DefaultLimits
}

// Pair is a key that no rank put: whoever spawned the job did. Get finds it for AnyOwner as long
// as no rank has put the same.
type Pair struct {
	Key   string
	Value []byte // must not be modified any more
}

// Upstream is the engine's only way out of the host.
type Upstream interface {
	// Exchange hands over what this host contributes to one fence and returns what each other
	// host of the set contributed. set is canonical: ranks ("0-15", "0,4-7"), and "#" with the
	// fence's tag if it has one ("0,4-7#7"). set and epoch together name the fence. It returns
	// when ctx ends.
	Exchange(ctx context.Context, set string, epoch uint64, collect bool, contribution []byte) (others [][]byte, err error)
	// Fetch asks owner's host (AnyOwner: every other host) for a key that no fence brought here.
	Fetch(ctx context.Context, owner int, key string) (value []byte, found bool, err error)
}

// Engine holds one job's data on one host. Use New.
type Engine struct {
	cfg   Config
	names Names

	ctx    context.Context // of exchanges; ends with Close
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // exchanges

	mu       sync.Mutex
	store    store                        // guarded by mu
	fences   fences                       // guarded by mu
	waits    map[*fence]*waiter           // guarded by mu; of fences that are not over
	attrs    attrs                        // guarded by mu
	fetches  map[fetchKey]*flight         // guarded by mu
	sending  int                          // guarded by mu; bytes of contributions that upstream has not answered
	arrivals map[int]chan struct{}        // guarded by mu; by owner, of those somebody waits for
	closed   error                        // guarded by mu; nil: open
	onGone   []func(rank int, why string) // guarded by mu
}

// waiter is what the ranks inside one fence wait for.
type waiter struct {
	over chan struct{}
	err  error // set before over is closed
}

// New returns an engine that starts nothing until a fence leaves the host. It fails on a
// configuration that no launcher would send.
func New(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Limits = cfg.Limits.withDefaults()
	e := &Engine{
		cfg: cfg, names: cfg.Names,
		store:    newStore(cfg.Size, cfg.Local, cfg.Limits),
		fences:   newFences(cfg.Size, cfg.Local, cfg.Limits.Fences),
		waits:    map[*fence]*waiter{},
		attrs:    newAttrs(len(cfg.Local), cfg.Limits),
		fetches:  map[fetchKey]*flight{},
		arrivals: map[int]chan struct{}{},
	}
	if err := e.store.preset(cfg.Preput); err != nil {
		return nil, err
	}
	if e.names == nil {
		e.names = NewNames(cfg.Limits)
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	return e, nil
}

func (c *Config) validate() error {
	if c.Size < 1 {
		return fmt.Errorf("a job of %d ranks", c.Size)
	}
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '=' || r == ';' || r == '\\' }
	if c.KVSName == "" || len(c.KVSName) > 32 || strings.ContainsFunc(c.KVSName, bad) {
		return fmt.Errorf("%q cannot be a key-value space's name: 1 to 32 printable characters without blank, '=', ';'", c.KVSName)
	}
	seen := map[int]bool{}
	for _, r := range c.Local {
		if r < 0 || r >= c.Size || seen[r] {
			return fmt.Errorf("rank %d of a job of %d ranks is named twice or out of range", r, c.Size)
		}
		seen[r] = true
	}
	if c.Upstream == nil && len(c.Local) != c.Size {
		return fmt.Errorf("%d of %d ranks are here and there is no way to the others", len(c.Local), c.Size)
	}
	return nil
}

// KVSName is the job's name in PMI.
func (e *Engine) KVSName() string { return e.cfg.KVSName }

// Size is the number of ranks in the job.
func (e *Engine) Size() int { return e.cfg.Size }

// Local is the ranks of this host, ascending. It must not be modified.
func (e *Engine) Local() []int { return e.fences.here }

// Names is where the job's published names are kept.
func (e *Engine) Names() Names { return e.names }

// Put stores a value of a rank of this host, replacing what that rank had under key. value is
// copied. An error is a *LimitError, or the engine is closed.
func (e *Engine) Put(owner int, key string, value []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed != nil {
		return e.closed
	}
	if err := e.store.put(owner, key, value); err != nil {
		return err
	}
	e.arrived(owner)
	return nil
}

// Get returns owner's value (AnyOwner: the one put or merged last) without waiting for one to
// be put. What is not here is fetched once, unless it cannot be elsewhere: a rank of this host
// would have put it here, and keys that begin with "PMI_" are no rank's. Ranks that miss the
// same key at one time share one fetch. The bytes must not be modified.
func (e *Engine) Get(ctx context.Context, owner int, key string) (value []byte, found bool, err error) {
	e.mu.Lock()
	if e.closed != nil {
		defer e.mu.Unlock()
		return nil, false, e.closed
	}
	if v, ok := e.store.get(owner, key); ok {
		e.mu.Unlock()
		return v, true, nil
	}
	if e.cfg.Upstream == nil || e.store.isLocal(owner) || strings.HasPrefix(key, "PMI_") ||
		owner != AnyOwner && (owner < 0 || owner >= e.cfg.Size) || len(key) > e.cfg.Limits.Key {
		e.mu.Unlock()
		return nil, false, nil
	}
	return e.fetch(ctx, fetchKey{owner: owner, key: key}) // unlocks
}

// LocalGet answers another host's Fetch: only what ranks of this host have put.
func (e *Engine) LocalGet(owner int, key string) (value []byte, found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.store.localGet(owner, key)
}

// Fence enters rank into the fence of set (nil: all ranks of the job) and blocks until every
// rank of it is in and, if collect, their data is here. All ranks of a set must agree on
// collect. It fails with *GoneError when a rank of the set will never come, with *EnterError
// when rank cannot enter, with ctx's error (the rank stays in, the others go on; it may come again, and
// waits for the same fence then), or with what Upstream or Close said.
func (e *Engine) Fence(ctx context.Context, rank int, set []int, collect bool) error {
	return e.FenceTagged(ctx, rank, set, "", collect)
}

// FenceTagged is Fence among those of set that gave the same tag, at most 256 bytes: fences of one
// set with different tags may be under way at one time. A rank that is in a fence cannot enter it
// again; threads of a rank take Turns.
func (e *Engine) FenceTagged(ctx context.Context, rank int, set []int, tag string, collect bool) error {
	e.mu.Lock()
	if e.closed != nil {
		defer e.mu.Unlock()
		return e.closed
	}
	f, full, err := e.fences.enter(rank, set, tag, collect)
	if err != nil {
		e.mu.Unlock()
		return err
	}
	w := e.waits[f]
	if w == nil {
		w = &waiter{over: make(chan struct{})}
		e.waits[f] = w
	}
	if full {
		e.leave(f)
	}
	e.mu.Unlock()

	select {
	case <-w.over:
		return w.err
	case <-ctx.Done():
		e.mu.Lock()
		f.giveUp(rank)
		e.mu.Unlock()
		return context.Cause(ctx)
	}
}

// leave sends f's contribution on its way, now that all its local ranks are in. mu is held.
func (e *Engine) leave(f *fence) {
	if f.allHere {
		e.end(f, nil)
		return
	}
	var mine share
	set := toAll
	if f.ranks != nil {
		set, _, _ = strings.Cut(f.set, "#")
	}
	if f.collect {
		mine = e.store.share(f.local, set, e.sending)
		e.sending += len(mine.data)
	}
	e.work.Go(func() {
		others, err := e.cfg.Upstream.Exchange(e.ctx, f.set, f.epoch, f.collect, mine.data)
		if err == nil {
			err = mine.refused
		}
		if err == nil {
			err = e.check(f, others)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.sending -= len(mine.data)
		if err == nil && f.collect {
			e.store.arrived(set, mine)
		}
		if e.waits[f] == nil {
			return // a rank died meanwhile, or Close
		}
		if err == nil && f.collect {
			err = e.store.merge(mine.keys, others)
		}
		if err != nil {
			err = fmt.Errorf("fence %d of ranks %s: %w", f.epoch, f.set, err)
		}
		e.end(f, err)
	})
}

// check refuses contributions that no correct agent sends, before any of them is merged.
func (e *Engine) check(f *fence, others [][]byte) error {
	for _, data := range others {
		err := forEach(data, func(owner int, key string, value []byte) error {
			if owner >= e.cfg.Size || !f.has(owner) || f.isLocal(owner) {
				return fmt.Errorf("another host contributed for rank %d, which is not its own", owner)
			}
			return e.cfg.Limits.check(owner, key, value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// end wakes f's ranks. mu is held.
func (e *Engine) end(f *fence, err error) {
	e.fences.end(f)
	w := e.waits[f]
	delete(e.waits, f)
	w.err = err
	close(w.over)
}

// RankGone says that rank will not enter another fence, because its process ended or it left
// PMI for good: fences that hold it fail, those that wait for ranks of this host now and others
// later, and so does waiting for what only it could have put. The first why stays. rank may be on another host.
func (e *Engine) RankGone(rank int, why string) {
	e.mu.Lock()
	for _, f := range e.fences.leave(rank, why) {
		e.end(f, e.fences.goneError(f))
	}
	if e.store.isLocal(rank) {
		e.attrs.gone(rank)
		e.arrived(rank)
	}
	told := e.onGone
	e.mu.Unlock()
	for _, f := range told {
		f(rank, why)
	}
}

// RankBack takes RankGone back: the rank has initialized PMI again, over a new connection.
func (e *Engine) RankBack(rank int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fences.back(rank)
	e.attrs.back(rank)
}

// Close makes everything that blocks, and every later call, return err (nil: ErrClosed), and
// waits for exchanges to end. Only the first call's err counts.
func (e *Engine) Close(err error) {
	if err == nil {
		err = ErrClosed
	}
	e.mu.Lock()
	if e.closed == nil {
		e.closed = err
		e.attrs.close(err)
		for owner := range maps.Clone(e.arrivals) {
			e.arrived(owner)
		}
		for f := range maps.Clone(e.waits) {
			e.end(f, err)
		}
	}
	e.mu.Unlock()
	e.cancel(err)
	e.work.Wait()
}

// ErrClosed is what a closed engine returns when Close was given no error.
var ErrClosed = errors.New("the job's key-value space is closed")
