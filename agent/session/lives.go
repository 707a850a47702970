package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// A Book decides whose work a launcher that comes to an agent may end.
//
// An identity (a certificate's name) has lives: incarnations, of which each mpiup process of one
// container has the same. What a life may do to another depends on their pods:
//
//	                        │ same pod, or other host name   │ the same host name in another pod
//	────────────────────────┼────────────────────────────────┼─────────────────────────────────────
//	the other has been heard│ siblings, side by side         │ the later one (by number) fences the
//	since this one came     │ for ever                       │ earlier, dead or alive
//	not (yet)               │ wait: until it is heard, or    │
//	                        │ its session is over; then fence│
//
// A pod's name belongs to one pod at a time, so a second one with it is the first one's successor. In one pod, a life
// that is heard after another began runs beside that one (a sidecar, a debug container, a shell under unshare). A
// life whose container was restarted is never heard again. Pods with other names that hold one certificate are Jobs
// of their own. Numbers order pods, and come from launchers: one above the highest that any agent they reached knows,
// never from a clock. A life has one number; ties go by incarnation. One that was fenced never comes back, whatever
// it brings: a script in a container that should be dead must not end what its successor runs.
//
// A Book knows no sessions and no clock: times are handed in, as the agent's own clock
// counts. A Book may be used from any goroutine; the zero value is empty.

const (
	// MaxStep bounds how far a new life's number is above the highest known here. A launcher chooses its number by
	// what agents tell it, and one of them may lie. So no step may use up the numbers that are left
	// (incarnation.MaxNumber). No launcher has as many lives as this while an agent is away.
	MaxStep = 1 << 20

	maxIdentities = 1024 // beyond that the one with the lowest number goes: it was retried least
	maxLives      = 32   // of an identity; beyond that the one with the lowest number goes
)

// Life is what a launcher says of itself.
type Life struct {
	Incarnation string
	Host        string // name of its host
	Sandbox     string // equal in all containers of a pod, and in no other pod; empty: not said
}

// Succeeds says that l and o are of two pods that go by one name.
func (l Life) Succeeds(o Life) bool {
	return l.Host == o.Host && l.Sandbox != o.Sandbox && l.Sandbox != "" && o.Sandbox != ""
}

// Claim is a number with the launcher's signature under it, by which it knows its own word again.
type Claim struct {
	Number uint64
	Proof  []byte // identity.Sign; nil: there is none
}

// Fenced says that a life may start nothing any more.
type Fenced struct {
	By     string // incarnation
	Number uint64 // its number; 0: it has none
}

func (f *Fenced) Error() string {
	return fmt.Sprintf("a newer incarnation of this launcher (%.8s, number %d) has taken over", f.By, f.Number)
}

// Book is what one agent knows of launchers' lives, from those that came to it.
type Book struct {
	mu sync.Mutex
	of map[string]*named // guarded by mu
}

type named struct {
	highest uint64 // of all lives there ever were
	lives   map[string]*life
}

type life struct {
	Life
	claim  Claim         // its number as it brought it; zero: none yet
	number uint64        // of claim, as far as MaxStep lets it
	ran    bool          // it has run ranks here, not only commands
	born   time.Duration // when it first came
	heard  time.Duration // last
	fenced *Fenced       // nil: it is not
}

// compare is above 0 where l is later than o.
func (l *life) compare(o *life) int {
	return cmp.Or(cmp.Compare(l.number, o.number), cmp.Compare(l.Incarnation, o.Incarnation))
}

// Met notes a sign of life.
func (b *Book) Met(name string, l Life, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.know(name, l, now)
	known.heard = max(known.heard, now)
}

// know finds a life, or notes it. mu is held.
func (b *Book) know(name string, l Life, now time.Duration) *life {
	if b.of == nil {
		b.of = map[string]*named{}
	}
	i := b.of[name]
	if i == nil {
		if len(b.of) >= maxIdentities {
			least := func(x, y string) int { return cmp.Compare(b.of[x].highest, b.of[y].highest) }
			delete(b.of, slices.MinFunc(slices.Collect(maps.Keys(b.of)), least))
		}
		i = &named{lives: map[string]*life{}}
		b.of[name] = i
	}
	known := i.lives[l.Incarnation]
	if known == nil {
		if len(i.lives) >= maxLives {
			delete(i.lives, slices.MinFunc(slices.Collect(maps.Values(i.lives)), (*life).compare).Incarnation)
		}
		known = &life{Life: l, born: now, heard: now}
		i.lives[l.Incarnation] = known
	}
	return known
}

// Numbers is what an incarnation brought as its number, zero when it has none or may use none any more, and the highest
// number that any life of the identity ever had.
func (b *Book) Numbers(name, incarnation string) (own Claim, highest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.life(name, incarnation); l != nil && l.fenced == nil {
		own = l.claim
	}
	if i := b.of[name]; i != nil {
		highest = i.highest
	}
	return own, highest
}

// life is an incarnation of an identity; nil: it is not known. mu is held.
func (b *Book) life(name, incarnation string) *life {
	if i := b.of[name]; i != nil {
		return i.lives[incarnation]
	}
	return nil
}

// Start lets a life start something, with the number that it brings if it has none here; run says that it is ranks and
// no command. The error is a *Fenced. over are the incarnations, of earlier pods of its name, that have to end for it, those
// of former calls too: what they left may be found late. A command ends none.
func (b *Book) Start(name string, l Life, c Claim, run bool, now time.Duration) (over []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	me := b.know(name, l, now)
	me.heard = max(me.heard, now)
	if me.fenced != nil {
		return nil, me.fenced
	}
	i := b.of[name]
	if me.number == 0 {
		me.claim, me.number = c, min(c.Number, i.highest+MaxStep)
		i.highest = max(i.highest, me.number)
	}
	for _, o := range i.lives {
		if o.ran && o.fenced == nil && l.Succeeds(o.Life) && o.compare(me) > 0 {
			me.fenced = &Fenced{By: o.Incarnation, Number: o.number}
			return nil, me.fenced
		}
	}
	if !run {
		return nil, nil
	}
	me.ran = true
	for _, o := range i.lives {
		if l.Succeeds(o.Life) && me.compare(o) > 0 {
			if o.fenced == nil {
				o.fenced = &Fenced{By: me.Incarnation, Number: me.number}
			}
			over = append(over, o.Incarnation)
		}
	}
	return over, nil
}

// Fence bars an incarnation: another, by, found it gone.
func (b *Book) Fence(name, incarnation, by string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.life(name, incarnation)
	if l == nil || l.fenced != nil {
		return
	}
	l.fenced = &Fenced{By: by}
	if other := b.life(name, by); other != nil {
		l.fenced.Number = other.number
	}
}

// Fenced tells by whom an incarnation was fenced; nil: it was not.
func (b *Book) Fenced(name, incarnation string) *Fenced {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.life(name, incarnation); l != nil {
		return l.fenced
	}
	return nil
}

// Siblings tells whether an incarnation that asks, and so lives, has another beside it: one that was heard since it came.
func (b *Book) Siblings(name, asks, other string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, o := b.life(name, asks), b.life(name, other)
	return l != nil && o != nil && l.fenced == nil && o.fenced == nil && o.heard > l.born
}
