package session

import (
	"maps"
	"slices"
	"sync"
)

// Table is an agent's sessions.
type Table struct {
	cfg   Config
	lives Book
	kept  kept
	pace  pace
	ports reserved // that ranks will meet at

	running sync.WaitGroup // sessions
	readers sync.WaitGroup // goroutines that wait for a stream's first frame

	mu   sync.Mutex
	open map[string]*session // by id, guarded by mu
}

// New only builds.
func New(c Config) *Table {
	return &Table{cfg: c, open: map[string]*session{}, kept: kept{super: c.Super, log: c.Log, grace: c.Grace},
		pace: pace{hasten: c.Hasten, rest: c.Rest, idleExit: c.IdleExit}}
}

// forget takes out a session that is over.
func (t *Table) forget(id string) {
	t.mu.Lock()
	delete(t.open, id)
	t.mu.Unlock()
	t.ports.Release(id)
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

// Wait returns when no session is left; it is called once Config.Ending has ended.
func (t *Table) Wait() {
	t.Count() // who is being admitted is waited for too, and nobody is after that
	t.running.Wait()
}

// WaitStreams returns when nobody reads a stream any more; it is called once all streams have ended.
func (t *Table) WaitStreams() { t.readers.Wait() }

// EndKept ends what commands of a launcher left behind here on purpose.
func (t *Table) EndKept(launcher string) { t.kept.end(launcher, func(string) bool { return true }) }
