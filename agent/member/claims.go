package member

import (
	"encoding/binary"
	"sync"

	"github.com/hashicorp/memberlist"
)

// claim is the highest number known for any incarnation of one launcher identity.
//
// On the wire: string name, uvarint number, string incarnation. A broadcast carries one, a
// push/pull all of them one after another.
type claim struct {
	number      uint64
	incarnation string
}

const (
	maxClaims = 1024    // launcher identities; a job has one or a few
	maxNumber = 1 << 48 // one launcher life each; keeps a hostile number from using them up
)

// beats: the higher number wins, ties go by incarnation.
func (c claim) beats(o claim) bool {
	return c.number > o.number || c.number == o.number && c.incarnation > o.incarnation
}

func (c claim) valid(name string) bool {
	return name != "" && len(name) <= maxName && printable(name) && c.number > 0 && c.number <= maxNumber &&
		c.incarnation != "" && len(c.incarnation) <= maxIncarnation && printable(c.incarnation)
}

func appendClaim(b []byte, name string, c claim) []byte {
	b = binary.AppendUvarint(appendString(b, name), c.number)
	return appendString(b, c.incarnation)
}

// decodeClaims calls each for the well-formed claims at the head of b.
func decodeClaims(b []byte, each func(name string, c claim)) {
	r := reader{b: b}
	for n := 0; len(r.b) > 0 && n < maxClaims; n++ {
		name := r.string(maxName)
		c := claim{r.uvarint(maxNumber), r.string(maxIncarnation)}
		if r.bad || !c.valid(name) {
			return
		}
		each(name, c)
	}
}

// claims is the replicated map. News of it is passed on as often as memberlist passes on its
// own, and a push/pull repairs what was missed.
type claims struct {
	queue *memberlist.TransmitLimitedQueue

	mu     sync.Mutex
	byName map[string]claim // guarded by mu
}

// merge takes c if it beats what is known, and passes it on.
func (s *claims) merge(name string, c claim) {
	if !c.valid(name) {
		return
	}
	s.mu.Lock()
	old, known := s.byName[name]
	news := c.beats(old) && (known || len(s.byName) < maxClaims)
	if news {
		s.byName[name] = c
	}
	s.mu.Unlock()
	if news {
		s.queue.QueueBroadcast(claimNews{name, appendClaim(nil, name, c)})
	}
}

func (s *claims) get(name string) claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

func (s *claims) encode() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b []byte
	for name, c := range s.byName {
		b = appendClaim(b, name, c)
	}
	return b
}

// claimNews is a claim on its way; newer news of the same name takes its place.
type claimNews struct {
	name string
	msg  []byte
}

func (n claimNews) Name() string                          { return n.name }
func (n claimNews) Message() []byte                       { return n.msg }
func (n claimNews) Finished()                             {}
func (n claimNews) Invalidates(memberlist.Broadcast) bool { return false } // done by Name

var _ memberlist.NamedBroadcast = claimNews{}
