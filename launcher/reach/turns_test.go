package reach

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/test/need"
)

// busyNet is hosts whose handshakes take turns on a few processors: many at once only make all of them slow.
type busyNet struct {
	*fakeNet
	cpus chan struct{}
	work time.Duration // of a handshake
	hung int           // the first so many hosts accept connections and say nothing

	mu   sync.Mutex
	busy int // handshakes under way at hosts that answer, guarded by mu
	most int // of busy, guarded by mu
	of   map[netip.AddrPort]int
}

func (n *busyNet) attach(ctx, life context.Context, addr netip.AddrPort, o *apiv1.Open) (*link.Session, error) {
	if addr.Port() != 1 { // the kernel's word costs nothing
		return n.fakeNet.attach(ctx, life, addr, o)
	}
	noteAnswer(ctx)
	n.mu.Lock()
	n.of[addr]++
	n.mu.Unlock()
	if a := addr.Addr().As4(); int(a[2])*250+int(a[3]) < n.hung {
		link.Sleep(ctx, link.OpenTimeout)
		return nil, link.Causef(link.StageConnect, "%v: it accepts connections and says nothing", addr)
	}
	n.count(1)
	defer n.count(-1)
	n.cpus <- struct{}{}
	link.Sleep(ctx, n.work)
	<-n.cpus
	return n.fakeNet.attach(ctx, life, addr, o)
}

func (n *busyNet) count(by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy += by
	n.most = max(n.most, n.busy)
}

// All of many hosts are reached by one connection each, a bounded number at a time, in the time that their handshakes take: on busy
// processors, and beside hosts that say nothing.
func TestManyHostsTakeTurns(t *testing.T) {
	need.NoRace(t, "golang/go#78156: synctest and the race detector")
	for _, tt := range []struct {
		name  string
		hosts int
		work  time.Duration
		hung  int
		least int           // reached
		most  int           // at once
		took  time.Duration // at most
	}{
		{"few", 4, 5 * time.Millisecond, 0, 4, 4, 200 * time.Millisecond},
		{"many", 1000, 5 * time.Millisecond, 0, 1000, atOnce, 3 * time.Second},
		{"many, with little CPU", 1000, 100 * time.Millisecond, 0, 1000, 2 * atOnce, 55 * time.Second},
		{"some hang, the first of all", 1000, 5 * time.Millisecond, 100, 900, atOnce, 15 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &busyNet{fakeNet: &fakeNet{agents: map[string]string{}}, cpus: make(chan struct{}, 2), work: tt.work, hung: tt.hung, of: map[netip.AddrPort]int{}}
				var want []hosts.Wanted
				for i := range tt.hosts {
					w := hosts.Wanted{Entry: hostlist.Entry{Name: fmt.Sprint("h", i)}}
					for p := range 8 {
						w.Fixed = append(w.Fixed, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(i % 250)}), uint16(1+p)))
					}
					n.agents[w.Fixed[0].String()] = w.Entry.Name
					want = append(want, w)
				}
				r := &Reach{Wait: tt.took}
				r.Fill()
				names := make([]string, len(want))
				ctx, cancel := context.WithTimeout(context.Background(), r.Wait)
				defer cancel()
				begun, found := time.Now(), 0
				for _, f := range newGatherer(r, n.attach, NewOpener(r), t.Context()).gather(ctx, want, newBoard(names, r)) {
					if f.Session != nil {
						found++
					}
				}
				if found < tt.least || n.most > tt.most {
					t.Errorf("%d hosts within %v, %d at once; want %d, %d", found, time.Since(begun), n.most, tt.least, tt.most)
				}
				for at, dials := range n.of {
					if a := at.Addr().As4(); int(a[2])*250+int(a[3]) >= tt.hung && dials != 1 {
						t.Fatalf("%v was dialled %d times", at, dials)
					}
				}
			})
		})
	}
}

// Who looks sees that it is the launcher that one waits for.
func TestTurnIsTold(t *testing.T) {
	r := &Reach{}
	r.Fill()
	b := newBoard([]string{"a", "b", "c"}, r)
	b.set(0, nil)
	b.swap(1, notYet, itsTurn)
	b.swap(2, notYet, itsTurn)
	b.swap(2, itsTurn, notYet)
	if line := b.line(""); !strings.Contains(line, "to be asked by this launcher, 32 at a time: b; not reached yet: c") {
		t.Error(line)
	}
	b.set(2, (&Dialer{}).silentAt(netip.MustParseAddrPort("10.0.0.3:1")))
	if b.swap(2, notYet, itsTurn); !strings.Contains(b.line(""), "no answer on port 1: c") {
		t.Error("what is known of a host is forgotten when it is asked again")
	}
	if lines, _ := b.verdict(); len(lines) != 1 || !strings.HasPrefix(lines[0], "host c") {
		t.Errorf("%q", lines)
	}
}
