package member

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"
)

const (
	comparePings = 2               // unanswered ones before an entry counts as replaced
	compareAgain = 2 * time.Second // those marked are asked again
	maxAsked     = 512             // in one round
	askParallel  = 16
)

// verify asks members directly where the word of others is not enough: when their suspicion has run out, and when a
// new member has another's name. A pod that came back with a new address has its old entry taken out within about a
// second instead of after the suspicion. Siblings all answer and stay. One that was taken out and answers later is
// shown again.
func (g *Gossip) verify(ctx context.Context, list *memberlist.Memberlist) {
	again := time.NewTicker(compareAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.compare:
			g.askAll(ctx, list, g.table.due(), g.table.judge)
			g.askAll(ctx, list, g.table.twins(), g.table.mark)
		case <-again.C:
			g.askAll(ctx, list, g.table.those(func(e *entry) bool { return e.dropped || e.unlisted }), g.table.judge)
			g.askAll(ctx, list, g.table.those(func(e *entry) bool { return e.replaced }), g.table.mark)
		}
	}
}

// askAll pings each of them and hands on who was silent.
func (g *Gossip) askAll(ctx context.Context, list *memberlist.Memberlist, ask []entry, then func(id string, silent bool)) {
	var all errgroup.Group
	all.SetLimit(askParallel)
	for _, e := range ask[:min(len(ask), maxAsked)] {
		all.Go(func() error {
			then(e.id, !answers(ctx, list, e))
			return nil
		})
	}
	all.Wait()
}

func answers(ctx context.Context, list *memberlist.Memberlist, e entry) bool {
	for range comparePings {
		if ctx.Err() != nil {
			return true
		}
		if _, err := list.Ping(e.id, net.TCPAddrFromAddrPort(e.Addr)); err == nil {
			return true
		}
	}
	return false
}

// those gives copies of the entries for which is holds. It is called with mu held.
func (t *table) those(is func(*entry) bool) []entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []entry
	for _, e := range t.byID {
		if is(e) {
			out = append(out, *e)
		}
	}
	return out
}

// due gives copies of the entries whose suspicion has run out, or that others call dead.
func (t *table) due() []entry {
	return t.those(func(e *entry) bool {
		return e.suspect && !e.left && !e.dropped && (e.told || e.age >= suspicion)
	})
}

// judge ends a suspicion that has run out. It drops a member that is silent, for good where memberlist does not know it any more, and
// clears one that answers, whose refutation may have passed us by. One that memberlist calls dead is asked until that knows it again.
func (t *table) judge(id string, silent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[id]
	if e == nil || !e.suspect && !e.unlisted || e.left {
		return
	}
	if silent && e.unlisted {
		delete(t.byID, id)
		t.publish()
		return
	}
	e.answered = e.told && !e.unlisted && !silent
	e.told = false
	if e.dropped = silent; !silent {
		e.suspect, e.age, e.accusation = false, 0, nil
		e.alive = max(e.alive, e.suspectedIn+1)
	}
	t.publish()
}

// twins gives copies of the entries, but ours, whose name another one has too, under another
// address and in another incarnation.
func (t *table) twins() []entry {
	return t.those(func(e *entry) bool {
		for _, o := range t.byID {
			if e.id != t.self && !e.left && !o.left && e.Name == o.Name &&
				e.Incarnation != o.Incarnation && e.Addr != o.Addr {
				return true
			}
		}
		return false
	})
}

// mark notes whether the member with id did not answer; that counts only while another of its
// name is there that is neither marked nor suspected.
func (t *table) mark(id string, silent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[id]
	if e == nil {
		return
	}
	e.replaced = false
	if silent {
		for _, o := range t.byID {
			if o != e && o.Name == e.Name && !o.replaced && !o.suspect && !o.left {
				e.replaced = true
			}
		}
	}
	t.publish()
}
