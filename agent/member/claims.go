package member

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// claim is a number that one incarnation of a launcher identity has, and the launcher's signature under it
// (identity.Sign). Members believe and pass on only what a launcher has said itself.
//
// On the wire: string name, uvarint number, string incarnation, string proof. A broadcast carries one, a
// push/pull all of them one after another.
type claim struct {
	number      uint64
	incarnation string
	proof       string
}

const (
	maxNumber = 1 << 48 // one launcher life each; keeps a hostile number from using them up
	maxProof  = 8 << 10 // bytes
	maxPerID  = 4       // incarnations of one launcher identity, those with the highest numbers
	maxClaims = 1 << 20 // bytes of all; further identities are not taken then
	maxNews   = 3 << 10 // bytes of a claim that is passed on by itself: one in a packet. Others go by push/pull.

	// What is checked costs a signature or two: so many at once, and so many in a second from then on. Claims that
	// are honest come once in a launcher's life, and those passed over come again.
	checksAtOnce   = 64
	checksInSecond = 16
)

// compare is above 0 where c wins: the higher number does, ties go by incarnation.
func (c claim) compare(o claim) int {
	return cmp.Or(cmp.Compare(c.number, o.number), cmp.Compare(c.incarnation, o.incarnation))
}

func (c claim) valid(name string) bool {
	return name != "" && len(name) <= maxName && printable(name) && c.number > 0 && c.number <= maxNumber &&
		c.incarnation != "" && len(c.incarnation) <= maxIncarnation && printable(c.incarnation) &&
		c.proof != "" && len(c.proof) <= maxProof
}

func (c claim) size(name string) int { return len(name) + len(c.incarnation) + len(c.proof) + 16 }

func appendClaim(b []byte, name string, c claim) []byte {
	b = binary.AppendUvarint(appendString(b, name), c.number)
	return appendString(appendString(b, c.incarnation), c.proof)
}

// decodeClaims calls each for the well-formed claims at the head of b.
func decodeClaims(b []byte, each func(name string, c claim)) {
	r := reader{b: b}
	for len(r.b) > 0 {
		name := r.string(maxName)
		c := claim{r.uvarint(maxNumber), r.string(maxIncarnation), r.string(maxProof)}
		if r.bad || !c.valid(name) {
			return
		}
		each(name, c)
	}
}

// claims is the replicated map. News of it is passed on as often as memberlist passes on its
// own, and a push/pull repairs what was missed.
type claims struct {
	queue  *memberlist.TransmitLimitedQueue
	verify func(name string, c claim) bool

	mu      sync.Mutex
	byName  map[string][]claim // the highest first, guarded by mu
	bytes   int                // of all, guarded by mu
	checks  float64            // that may be done now, guarded by mu
	checked time.Time          // when checks was last raised, guarded by mu
}

func newClaims(members func() int, verify func(name string, c claim) bool) *claims {
	return &claims{byName: map[string][]claim{}, verify: verify, checks: checksAtOnce,
		queue: &memberlist.TransmitLimitedQueue{RetransmitMult: 4, NumNodes: members}}
}

// merge takes c if it is news and its launcher's own word, and passes it on.
func (s *claims) merge(name string, c claim) {
	if !c.valid(name) || !s.worth(name, c) || !s.verify(name, c) || !s.add(name, c) {
		return
	}
	if msg := appendClaim(nil, name, c); len(msg) <= maxNews {
		s.queue.QueueBroadcast(claimNews{name + " " + c.incarnation, msg})
	}
}

// worth tells whether c would be news, and takes one of the checks that may be done.
func (s *claims) worth(name string, c claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.news(name, c) {
		return false
	}
	if !s.checked.IsZero() {
		s.checks = min(s.checks+checksInSecond*now.Sub(s.checked).Seconds(), checksAtOnce)
	}
	s.checked = now
	if s.checks < 1 {
		return false
	}
	s.checks--
	return true
}

// news says that c is of an unknown incarnation, or has a higher number than was known of it, and that there is room.
// mu is held.
func (s *claims) news(name string, c claim) bool {
	known := s.byName[name]
	for _, o := range known {
		if o.incarnation == c.incarnation {
			return c.number > o.number
		}
	}
	if len(known) < maxPerID {
		return s.bytes+c.size(name) <= maxClaims
	}
	return c.compare(known[len(known)-1]) > 0
}

// add takes c, for an older one of its incarnation or the lowest of too many.
func (s *claims) add(name string, c claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.news(name, c) {
		return false
	}
	known := slices.DeleteFunc(slices.Clone(s.byName[name]), func(o claim) bool { return o.incarnation == c.incarnation })
	if len(known) >= maxPerID {
		known = known[:maxPerID-1]
	}
	known = append(known, c)
	slices.SortFunc(known, func(a, b claim) int { return b.compare(a) })
	s.bytes += sizes(name, known) - sizes(name, s.byName[name])
	s.byName[name] = known
	return true
}

func sizes(name string, all []claim) (n int) {
	for _, c := range all {
		n += c.size(name)
	}
	return n
}

// numbers are the claim of an incarnation of name, and the highest number of any; 0: none is known.
func (s *claims) numbers(name, incarnation string) (own claim, highest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.byName[name] {
		if i == 0 {
			highest = c.number
		}
		if c.incarnation == incarnation {
			own = c
		}
	}
	return own, highest
}

func (s *claims) encode() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b []byte
	for name, all := range s.byName {
		for _, c := range all {
			b = appendClaim(b, name, c)
		}
	}
	return b
}

// claimNews is a claim on its way; newer news of the same incarnation takes its place.
type claimNews struct {
	name string
	msg  []byte
}

func (n claimNews) Name() string                          { return n.name }
func (n claimNews) Message() []byte                       { return n.msg }
func (n claimNews) Finished()                             {}
func (n claimNews) Invalidates(memberlist.Broadcast) bool { return false } // done by Name

var _ memberlist.NamedBroadcast = claimNews{}
