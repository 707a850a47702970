package agent

import (
	"slices"
	"sync"
)

// claim is the incarnation of a launcher that holds the floor, and the number it has.
type claim struct {
	number      uint64
	incarnation string
}

// above tells whether c takes over from o: a higher number, or the higher name on a tie.
func (c claim) above(o claim) bool {
	return c.number > o.number || (c.number == o.number && c.incarnation > o.incarnation)
}

// claims remembers, per launcher identity, which incarnation was the last to launch. It is
// what fences a dead launcher's ranks when its pod or container was restarted. Numbers come
// from launchers (one above the highest any agent they reached knows), never from a clock, and
// gossip carries them to agents the launcher did not reach.
//
// One that was fenced never comes back, whatever number it brings: a script in a container that
// should be dead must not end what its successor runs.
type claims struct {
	mu   sync.Mutex
	held map[string]claim    // by launcher identity, guarded by mu
	past map[string][]string // incarnations that had the floor, the latest last, guarded by mu
}

// maxNumber bounds a claim: a launcher's life takes one, so no honest number comes near, and one
// above the highest must stay a number.
const maxNumber = 1 << 53

// maxPast bounds how many fenced incarnations of a launcher are remembered.
const maxPast = 16

// maxClaims bounds how many launcher identities are remembered; beyond that the lowest
// numbers go, which are those of jobs that were retried least.
const maxClaims = 1024

// take records c for a launcher. ok is false when a newer incarnation holds it already, or for a
// number beyond maxNumber.
func (cs *claims) take(launcher string, c claim) (ok bool) {
	if c.number > maxNumber {
		return false
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.held == nil {
		cs.held, cs.past = make(map[string]claim), make(map[string][]string)
	}
	old, known := cs.held[launcher]
	if known && old.incarnation != c.incarnation {
		if !c.above(old) || slices.Contains(cs.past[launcher], c.incarnation) {
			return false
		}
		past := append(cs.past[launcher], old.incarnation)
		cs.past[launcher] = past[max(0, len(past)-maxPast):]
	}
	if !known && len(cs.held) >= maxClaims {
		cs.dropLowest()
	}
	if !known || c.above(old) {
		cs.held[launcher] = c
	}
	return true
}

func (cs *claims) dropLowest() {
	low, number := "", uint64(0)
	for name, c := range cs.held {
		if low == "" || c.number < number {
			low, number = name, c.number
		}
	}
	delete(cs.held, low)
	delete(cs.past, low)
}

// get is the claim held for a launcher, the zero claim when there is none.
func (cs *claims) get(launcher string) claim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.held[launcher]
}
