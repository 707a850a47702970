package kvs

import "maps"

// OnGone has f called whenever a rank is gone (RankGone), for barriers that are not the engine's.
// f runs in the caller of RankGone, holds no lock of the engine and must not block. It is for
// before the job's ranks start.
func (e *Engine) OnGone(f func(rank int, why string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onGone = append(e.onGone, f)
}

// Gone is the ranks that are gone now, and why.
func (e *Engine) Gone() map[int]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.fences.gone)
}
