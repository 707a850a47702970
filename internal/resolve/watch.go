package resolve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"
)

// Watch asks for one name again and again, until it has an address or all that its user hopes for.
// Caches between here and the name's own server remember a denial of a name that was asked for too early: CoreDNS does,
// for 30 s. So the first question is the usual one. Each later one is put in a way whose answer no cache has
// (ways.go), while there are such ways:
//
//	A, AAAA ──no such name──▶ a probe ──no such name──▶ the next probe ...      2 s apart at most
//	   ▲                         │ it exists
//	   └──── A, AAAA in the next way whose answer is not cached
//
// There are only four ways to ask for addresses, so a Watch saves them until a probe says that the name exists. With
// 24 probes, and an entry that lasts 30 s, one probe is always left. Where a cache has one entry for a
// whole name (RFC 2308, 5, allows that), or no way is left, the Watch waits for the entry that ends first.
//
// Caches also keep an answer with addresses. It may be of a pod that is gone, or lack pods of a service
// that came since. So a caller that goes on asking gets the four ways in turn, 2, 4 and 6 s apart. Between them it
// gets what is cached: asking for that does no harm, and finds servers that cache nothing.
//
// A Watch belongs to one goroutine. It starts none that outlives a call.
type Watch struct {
	r     *Resolver
	name  string
	until map[way]time.Time // when what a cache may hold of a way's answer ends
	full  [2]time.Duration  // the longest TTL of answers, and of denials: a shorter one is from a cache
	deaf  bool              // probes tell nothing here
	pause time.Duration     // to the next question
	due   time.Time         // of it
	gap   time.Duration     // between ways to ask for addresses
	spare time.Time         // the next way may be used then
	born  time.Time         // when the last answer was made, as far as its TTL tells
	addrs []netip.Addr      // of the last answer
	last  error             // of it, if it was a denial
}

// Bounds of the pause between questions. 512 missing hosts are 280 questions a second.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 1900 * time.Millisecond // with the question itself at most 2 s
	firstGap   = 1500 * time.Millisecond
	maxGap     = 8 * time.Second
	hostsPoll  = time.Second // /etc/hosts is looked at this often within a pause
)

// Watch makes a Watch of a name. It asks nothing yet.
func (r *Resolver) Watch(name string) *Watch {
	return &Watch{r: r, name: name, until: map[way]time.Time{}, pause: firstPause, gap: firstGap}
}

// Wait looks the name up until it has an address or ctx ends. It asks at once if the last question is long enough
// ago; else it begins with the last answer, if that had addresses. report, if not nil, gets the error of
// each failed round. A name that cannot be one fails at once. The error is that of the last round
// that was not cut short by ctx, or ctx's own if there was none.
func (w *Watch) Wait(ctx context.Context, report func(error)) ([]netip.Addr, error) {
	var last error
	for {
		addrs, err := w.Next(ctx)
		if err == nil {
			return addrs, nil
		}
		var e *Error
		if errors.As(err, &e) {
			last = err
			if report != nil {
				report(err)
			}
			if !validName(w.name) {
				return nil, err
			}
		}
		if w.Pause(ctx); ctx.Err() != nil {
			if last != nil {
				return nil, last
			}
			return nil, fmt.Errorf("%s: %w", w.name, ctx.Err())
		}
	}
}

// Next is the addresses as they are now: those of the last answer while it is too early to ask again.
// The error is as Lookup's, with Cached.
func (w *Watch) Next(ctx context.Context) ([]netip.Addr, error) {
	if a, ok := literal(w.name); ok {
		return []netip.Addr{a}, nil
	}
	if !validName(w.name) {
		return w.r.Lookup(ctx, w.name)
	}
	conf := w.r.configured()
	if addrs := w.r.local(w.name, conf); addrs != nil {
		return routable(addrs), nil
	}
	if w.addrs != nil && time.Now().Before(w.due) {
		return w.addrs, nil
	}
	err := w.ask(ctx, conf)
	w.due = time.Now().Add(w.pause - rand.N(w.pause/10))
	w.pause = min(2*w.pause, maxPause)
	var e *Error
	if errors.As(err, &e) {
		e.Cached = w.denied()
	}
	if err != nil {
		return nil, err
	}
	return w.addrs, nil
}

// Pause waits until the next question is due, or name is in /etc/hosts, or ctx ends.
func (w *Watch) Pause(ctx context.Context) {
	for ctx.Err() == nil {
		d := min(time.Until(w.due), hostsPoll)
		if d <= 0 || w.addrs == nil && w.r.local(w.name, w.r.configured()) != nil {
			return
		}
		t := time.NewTimer(d)
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
	}
}

// ask is one round of questions. It ends with addresses in w, or an error.
func (w *Watch) ask(ctx context.Context, c *conf) error {
	if len(w.until) == 0 || w.addrs != nil || w.deaf {
		return w.address(ctx, c, false)
	}
	const most = 2 // of a round: what comes from a cache is nothing new
	var err error
	for range most {
		probe, ok := w.fresh(probes)
		if !ok {
			return w.address(ctx, c, false)
		}
		var h heard
		h, err = w.put(ctx, c, probe)
		switch {
		case err == nil:
			err = w.address(ctx, c, true)
			w.deaf = err != nil
			return err
		case ctx.Err() != nil:
			return err
		case !h.denied: // a server that does not answer such questions
			w.deaf = true
			return w.address(ctx, c, false)
		case h.ttl >= w.full[denial]:
			return err
		}
	}
	return err
}

// address asks for addresses. If it is time for a way whose answer is in no cache, or now says so, it takes that;
// else the way whose entry ends first, which costs nothing.
func (w *Watch) address(ctx context.Context, c *conf, now bool) error {
	by := addressWays[0]
	for _, o := range addressWays {
		if w.until[o].Before(w.until[by]) && !w.until[o].IsZero() {
			by = o
		}
	}
	if o, ok := w.fresh(addressWays); ok && (now || !time.Now().Before(w.spare)) {
		by, w.spare = o, time.Now().Add(w.gap)
		w.gap = min(2*w.gap, maxGap)
	}
	h, err := w.put(ctx, c, by)
	kind := answers
	switch {
	case h.denied:
		kind = denial
		w.deaf = w.deaf || h.exists // the name exists, so a probe that denies it tells nothing
	case err != nil:
		return err
	}
	born := time.Now().Add(h.ttl - w.full[kind])
	if !w.born.IsZero() && born.Before(w.born.Add(-time.Second)) {
		return w.last // this came from a cache, and is older than what is known
	}
	w.born, w.addrs, w.last = born, nil, err
	if err == nil {
		w.addrs = routable(h.addrs)
	}
	return err
}

// Kinds of answers.
const (
	answers = iota
	denial
)

// put asks in one way and notes how long a cache may repeat the answer.
func (w *Watch) put(ctx context.Context, c *conf, by way) (heard, error) {
	h, err := w.r.dns(ctx, w.name, c, by)
	kind := answers
	switch {
	case h.denied:
		kind = denial
	case err != nil:
		return h, err
	}
	if by.typ == addresses || kind == denial {
		w.full[kind] = max(w.full[kind], h.ttl)
	}
	w.until[by] = time.Now().Add(h.ttl)
	return h, err
}

// fresh is the first of some ways whose answer no cache has, as far as is known.
func (w *Watch) fresh(ways []way) (way, bool) {
	now := time.Now()
	for _, o := range ways {
		if !now.Before(w.until[o]) {
			return o, true
		}
	}
	return way{}, false
}

// denied is how long the earliest denial may be repeated: while the name is not there, all are denials.
func (w *Watch) denied() time.Duration {
	var least time.Duration
	for _, until := range w.until {
		if d := time.Until(until); d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}
