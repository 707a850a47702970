package resolve

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/test/netns"
)

// On a real cluster a run found its hosts past a cached denial, and mpiup shutdown, 10 s later, did not: the job failed after
// its success.
func TestOncePastACachedDenial(t *testing.T) {
	dir := root(t, "", clusterConf)
	for _, cache := range []struct {
		name string
		kind netns.CacheKind
	}{{name: "CoreDNS"}, {name: "CoreDNS without CD", kind: netns.OldCoreDNS}} {
		t.Run(cache.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := netns.NewDNS("cluster.local")
				d.Cache(30*time.Second, cache.kind)
				r := by(d, dir)
				const host = "pi-1.pi.ns.svc"
				watch := r.Watch(host)
				time.AfterFunc(3*time.Second, func() { d.Set(host+".cluster.local", netip.MustParseAddr("10.0.0.1")) })
				if _, err := watch.Wait(t.Context(), nil); err != nil {
					t.Fatal(err)
				}

				_, denied := r.Lookup(t.Context(), host)
				addrs, err := r.Once(t.Context(), host)

				if !errors.Is(denied, ErrNoName) {
					t.Errorf("Lookup said %v: the cache denies nothing, so this test shows nothing", denied)
				}
				if err != nil || len(addrs) != 1 {
					t.Errorf("Once said %v, %v", addrs, err)
				}
			})
		})
	}
}

// Whoever asks once for a name that is not there yet must not keep a Watch from it.
func TestOnceSparesAWatch(t *testing.T) {
	dir := root(t, "", clusterConf)
	synctest.Test(t, func(t *testing.T) {
		d := netns.NewDNS("cluster.local")
		d.Cache(30*time.Second, 0)
		r := by(d, dir)
		const host = "pi-1.pi.ns.svc"
		if addrs, err := r.Once(t.Context(), host); !errors.Is(err, ErrNoName) {
			t.Fatalf("an absent name has %v, %v", addrs, err)
		}
		time.AfterFunc(time.Second, func() { d.Set(host+".cluster.local", netip.MustParseAddr("10.0.0.1")) })
		begun := time.Now()
		if _, err := r.Watch(host).Wait(t.Context(), nil); err != nil || time.Since(begun) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}
