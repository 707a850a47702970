package member

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls us by, beside the events that go to the table.
type delegate struct{ g *Gossip }

func (d delegate) NodeMeta(int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	return d.g.meta.encode()
}

func (d delegate) NotifyMsg(b []byte) { decodeClaims(b, d.g.claims.merge) }

func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.claims.queue.GetBroadcasts(overhead, limit)
}

func (d delegate) LocalState(bool) []byte { return d.g.claims.encode() }

func (d delegate) MergeRemoteState(b []byte, _ bool) { decodeClaims(b, d.g.claims.merge) }

// NotifyAlive refuses members that cannot be agents of ours.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	if _, err := describe(n); err != nil {
		return err
	}
	d.g.table.mu.Lock()
	defer d.g.table.mu.Unlock()
	if d.g.table.byID[n.Name] == nil && len(d.g.table.byID) >= maxMembers {
		return fmt.Errorf("more than %d members", maxMembers)
	}
	return nil
}

// remindFanout is how many members at most remind one suspect in a second, on average. In jobs up to that size each
// member does so: after a cut the one that was cut off may be the only one that suspects another.
const remindFanout = 64

// remind tells suspects what they are suspected of, so that they can refute it. memberlist passes an accusation on a
// few times only, and a cut may swallow all of them.
func (g *Gossip) remind() {
	n := g.table.size()
	for addr, accusation := range g.table.suspects() {
		if accusation != nil && rand.IntN(max(n-1, 1)) < remindFanout {
			g.transport.Send(accusation, addr)
		}
	}
}

// logWriter takes memberlist's lines. A peer that does not answer is everyday, so they are all
// for debugging.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(b []byte) (int, error) {
	w.log.Debug("memberlist", "text", string(bytes.TrimSpace(b)))
	return len(b), nil
}
