package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/mpiup/mpiup/test/netns"
)

// by makes a Resolver whose server is d, over a pipe, so that time may be a bubble's.
func by(d *netns.DNS, dir string) *Resolver {
	return New(Config{Root: dir, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			b := make([]byte, udpSize)
			n, err := there.Read(b)
			if err != nil {
				return
			}
			var q dns.Msg
			if q.Unpack(b[:n]) != nil {
				return
			}
			if r := d.Answer(&q); r != nil {
				if wire, err := r.Pack(); err == nil {
					there.Write(wire)
				}
			}
		}()
		return here, nil
	}})
}

const clusterConf = "search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"

// A worker's name is published at some time after the first question. Kubernetes' stock CoreDNS remembers
// for 30 s that it was not there.
func TestWatchPastCachedDenials(t *testing.T) {
	const ttl = 30 * time.Second
	dir := root(t, "", clusterConf)
	for _, tt := range []struct {
		name      string
		host      string
		cache     netns.CacheKind
		published []time.Duration
		most      func(published time.Duration) time.Duration // later than that
	}{
		{name: "CoreDNS", host: "job-worker-0.job.ns.svc",
			published: []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second, 7 * time.Second, 14 * time.Second,
				15 * time.Second, 20 * time.Second, 31 * time.Second, 75 * time.Second, 250 * time.Second},
			most: func(time.Duration) time.Duration { return 2 * time.Second }},
		{name: "CoreDNS without CD", host: "job-worker-0.job.ns.svc", cache: netns.OldCoreDNS,
			published: []time.Duration{time.Second, 3 * time.Second, 7 * time.Second, 14 * time.Second, 15 * time.Second}, most: func(time.Duration) time.Duration { return 2 * time.Second }},
		{name: "a name of the search list", host: "job-node-0-0.job", published: []time.Duration{time.Second, 14 * time.Second},
			most: func(time.Duration) time.Duration { return 2 * time.Second }},
		{name: "one entry a name", host: "job-worker-0.job.ns.svc", cache: netns.WholeNames, published: []time.Duration{time.Second, 29 * time.Second, 31 * time.Second},
			most: func(p time.Duration) time.Duration { return (p/ttl+1)*(ttl+2*time.Second) - p }},
	} {
		for _, published := range tt.published {
			t.Run(tt.name+" "+published.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := netns.NewDNS("cluster.local")
					d.Cache(ttl, tt.cache)
					label, _, _ := strings.Cut(tt.host, ".")
					time.AfterFunc(published, func() { d.Set(label+".job.ns.svc.cluster.local", netip.MustParseAddr("10.0.0.1")) })
					begun := time.Now()
					got, err := by(d, dir).Watch(tt.host).Wait(t.Context(), nil)
					if err != nil || !slices.Equal(got, []netip.Addr{netip.MustParseAddr("10.0.0.1")}) {
						t.Fatal(got, err)
					}
					if late := time.Since(begun) - published; late > tt.most(published) {
						t.Errorf("found %v late, want %v at most; asked %q", late, tt.most(published), d.Queries())
					}
				})
			})
		}
	}
}

// The first question is one of A and one of AAAA, whatever comes after.
func TestWatchAsksOnceForWhatIsThere(t *testing.T) {
	dir := root(t, "", clusterConf)
	synctest.Test(t, func(t *testing.T) {
		d := netns.NewDNS("cluster.local")
		d.Set("w0.job.ns.svc.cluster.local", netip.MustParseAddr("10.0.0.1"))
		w := by(d, dir).Watch("w0.job.ns.svc")
		for range 3 {
			if _, err := w.Wait(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		got := d.Queries()
		slices.Sort(got)
		if want := []string{"A w0.job.ns.svc.cluster.local.", "AAAA w0.job.ns.svc.cluster.local."}; !slices.Equal(got, want) {
			t.Errorf("asked %q", got)
		}
	})
}

// Each error says how long the earliest denial may be repeated.
func TestWatchTellsWhatIsCached(t *testing.T) {
	dir := root(t, "", clusterConf)
	synctest.Test(t, func(t *testing.T) {
		d := netns.NewDNS("cluster.local")
		d.Cache(30*time.Second, netns.CoreDNS)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		rounds := 0
		_, err := by(d, dir).Watch("w0.job.ns.svc").Wait(ctx, func(err error) {
			var e *Error
			rounds++
			if left := 30*time.Second - time.Since(begun); !errors.As(err, &e) || e.Cached != left {
				t.Errorf("after %v: %v is cached, want %v", time.Since(begun), e.Cached, left)
			}
		})
		if !errors.Is(err, ErrNoName) || rounds < 10 || rounds > 15 {
			t.Errorf("%v after %d rounds", err, rounds)
		}
	})
}

// A pod that was made anew has another address, while caches still have the old one, and a service's
// records grow while they have the few of before.
func TestWatchSeesChangesPastCaches(t *testing.T) {
	dir := root(t, "", clusterConf)
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for _, tt := range []struct {
		at, late time.Duration
	}{{time.Second, 2 * time.Second}, {5 * time.Second, 2 * time.Second}, {9 * time.Second, 8 * time.Second}, {20 * time.Second, 12 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			d := netns.NewDNS("cluster.local")
			d.Cache(30*time.Second, netns.CoreDNS)
			d.Set("job.ns.svc.cluster.local", one)
			time.AfterFunc(tt.at, func() { d.Set("job.ns.svc.cluster.local", one, two) })
			w := by(d, dir).Watch("job.ns.svc.cluster.local")
			begun, most := time.Now(), 0
			for time.Since(begun) < time.Minute {
				addrs, err := w.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(addrs) < most {
					t.Fatalf("after %v an older answer came", time.Since(begun))
				}
				if most = len(addrs); most == 2 {
					break
				}
				w.Pause(t.Context())
			}
			if late := time.Since(begun) - tt.at; late > tt.late {
				t.Errorf("what came after %v was seen %v late", tt.at, late)
			}
		})
	}
}

// Pods that have numbers, of which it is known how many there are to be: each is seen within 2 s by its own name, whenever it comes, while
// caches have the service's records of before.
func TestNumberedPodsAreSeenPastCaches(t *testing.T) {
	const service = "job.ns.svc.cluster.local"
	dir := root(t, "", clusterConf)
	pod := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, i}) }
	for _, at := range []time.Duration{time.Second, 4 * time.Second, 9 * time.Second, 12 * time.Second, 20 * time.Second, 29 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := netns.NewDNS("cluster.local")
			d.Cache(30*time.Second, netns.CoreDNS)
			d.Set(service, pod(1))
			d.Set("w-0."+service, pod(1))
			time.AfterFunc(at, func() {
				d.Set(service, pod(1), pod(2))
				d.Set("w-1."+service, pod(2))
			})
			r := by(d, dir)
			w, pods, begun := r.Watch(service), r.Numbered("w-0", service, 3), time.Now()
			for time.Since(begun) < time.Minute {
				addrs, err := w.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if all := slices.Concat(addrs, pods.Beside(t.Context(), addrs)); len(all) == 2 && slices.Contains(all, pod(2)) {
					break
				}
				w.Pause(t.Context())
			}
			if late := time.Since(begun) - at; late < 0 || late > 2*time.Second {
				t.Errorf("what came after %v was seen %v late", at, late)
			}
		})
	}
	for _, host := range []string{"launcher", "w-", "-1", "w-x1", ""} {
		if by(nil, dir).Numbered(host, service, 3).Beside(t.Context(), nil) != nil {
			t.Errorf("%q has a number", host)
		}
	}
}

// A pod goes, and comes back elsewhere: what caches still have of its first address is not taken again.
func TestWatchForgetsWhatIsGone(t *testing.T) {
	dir := root(t, "", clusterConf)
	synctest.Test(t, func(t *testing.T) {
		const name = "w0.job.ns.svc.cluster.local"
		old, fresh := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		d := netns.NewDNS("cluster.local")
		d.Cache(30*time.Second, netns.CoreDNS)
		d.Set(name, old)
		time.AfterFunc(3*time.Second, func() { d.Remove(name) })
		time.AfterFunc(20*time.Second, func() { d.Set(name, fresh) })
		w := by(d, dir).Watch(name)
		gone, begun := false, time.Now()
		for {
			addrs, err := w.Next(t.Context())
			gone = gone || errors.Is(err, ErrNoName)
			if gone && slices.Contains(addrs, old) {
				t.Fatalf("after %v the old address came back", time.Since(begun))
			}
			if slices.Contains(addrs, fresh) {
				break
			}
			w.Pause(t.Context())
		}
		if took := time.Since(begun); !gone || took > 22*time.Second {
			t.Errorf("gone was seen: %v; the new address after %v", gone, took)
		}
	})
}

// A server that refuses questions of other types is asked for addresses.
func TestWatchWithoutProbes(t *testing.T) {
	z := newZone(t, map[string][]string{})
	r := z.to(root(t, "", "nameserver 10.96.0.10\n"))
	z.with(func() { z.onlyAddresses = true })
	rounds := 0
	got, err := r.Watch("h").Wait(within(t, 60*time.Second), func(error) {
		if rounds++; rounds == 2 {
			z.set("h", "10.0.0.1")
		}
	})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
}
