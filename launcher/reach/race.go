package reach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/resolve"
	"github.com/mpiup/mpiup/launcher/link"
)

// candidatesOf lists where an agent may listen: the default port of each address first.
func candidatesOf(addrs []netip.Addr, ports []int) []netip.AddrPort {
	const maxAddrs = 4
	addrs = addrs[:min(len(addrs), maxAddrs)]
	out := make([]netip.AddrPort, 0, len(addrs)*len(ports))
	for _, p := range ports {
		for _, a := range addrs {
			out = append(out, netip.AddrPortFrom(a, uint16(p)))
		}
	}
	return out
}

// race tries the first candidate, and all others at once when that has failed, or a while after something answered there (noteAnswer).
// It returns the first success; others that succeed after it are dropped. When all fail the most telling cause is returned. It
// blocks until every attempt has ended: each bounds itself, by time that it is worked on.
func race[T any](ctx context.Context, candidates []netip.AddrPort,
	try func(context.Context, netip.AddrPort) (T, error), drop func(T)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		i   int
		v   T
		err error
	}
	results := make(chan result, len(candidates))
	start := func(ctx context.Context, i int) {
		v, err := try(ctx, candidates[i])
		results <- result{i, v, err}
	}
	answered := make(chan struct{})
	var head <-chan struct{}
	go start(context.WithValue(ctx, answeredKey{}, sync.OnceFunc(func() { close(answered) })), 0)
	started, ended := 1, 0
	rest := func() {
		for i := started; i < len(candidates); i++ {
			go start(ctx, i)
		}
		started = len(candidates)
	}
	var won T
	var have bool
	causes := make([]*link.Cause, len(candidates)) // in their order: of equal ones the first port is told of
	for ended < started {
		select {
		case <-answered:
			late, stop := awake.Within(ctx, headStart)
			defer stop()
			answered, head = nil, late.Done()
		case <-head:
			if head = nil; !have {
				rest()
			}
		case r := <-results:
			ended++
			switch {
			case r.err == nil && !have:
				won, have = r.v, true
				cancel()
			case r.err == nil:
				drop(r.v)
			default:
				causes[r.i] = link.AsCause(r.err)
				if !have && ctx.Err() == nil {
					rest()
				}
			}
		}
	}
	if have {
		return won, nil
	}
	best := *link.Telling(causes)
	for _, c := range causes { // of which all must have refused
		best.Refused = best.Refused && (c == nil || c.Refused)
	}
	return won, &best
}

type answeredKey struct{}

// noteAnswer says that there is something at the address that a race with this context tries first: a round trip was made.
func noteAnswer(ctx context.Context) {
	if note, ok := ctx.Value(answeredKey{}).(func()); ok {
		note()
	}
}

// resolveCause is a name's that was not found. pods says that hosts are pods.
func resolveCause(err error, pods bool) *link.Cause {
	c := &link.Cause{Stage: link.StageResolve, Err: err}
	var e *resolve.Error
	if !errors.As(err, &e) {
		return c
	}
	note := ""
	if pods {
		note = " (the name of a pod appears when it is ready)"
	}
	if e.Cached > 0 {
		c.Cached = time.Now().Add(e.Cached)
		note += fmt.Sprintf(" (caches of DNS may repeat this for %v)", inSeconds(e.Cached))
	}
	if pods && e.Searchless {
		note += " (/etc/resolv.conf has no search list, as with dnsPolicy None: give the pod dnsConfig.searches, as NAMESPACE.svc.cluster.local, or hosts their full names)"
	}
	c.Err, c.Unanswered = errors.New("no answer from DNS: "+e.Why), true
	if errors.Is(err, resolve.ErrNoName) {
		c.Err, c.Unanswered = fmt.Errorf("no such name%s: %s", note, e.Why), false
	}
	return c
}

// inSeconds rounds up, as what ends within a second has not ended.
func inSeconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
