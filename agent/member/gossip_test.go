package member

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

func TestSilentPeerIsSuspectedAndDropped(t *testing.T) {
	for _, n := range []int{2, 3, 10, 64} {
		t.Run(fmt.Sprint(n, " members"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				nodes := newFabric().job(t, n)
				nodes[1].kill()
				var all sync.WaitGroup
				for _, m := range append(nodes[:1:1], nodes[2:]...) {
					all.Go(func() {
						s := m.await(t, 10*time.Second, state("w-001", Suspect))
						d := m.await(t, 30*time.Second-s, gone("w-001"))
						if d < 10*time.Second {
							t.Errorf("%s dropped it %v after suspecting", m.addr, d)
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// A process that was stopped may find its timers over and call the living dead, which others' memberlist believes. Nobody leaves a view for
// that: who is called dead is asked. One that is dead goes within seconds.
func TestCalledDead(t *testing.T) {
	for _, dies := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			nodes := newFabric().job(t, 3)
			if dies {
				nodes[1].kill()
			}
			var packet bytes.Buffer
			packet.WriteByte(DeadType)
			if err := codec.NewEncoder(&packet, &codec.MsgpackHandle{}).Encode(accusation{Incarnation: 9, Node: nodes[1].id, From: nodes[0].id}); err != nil {
				t.Fatal(err)
			}
			nodes[0].transport.Send(packet.Bytes(), nodes[2].addr)
			if dies {
				nodes[2].await(t, 8*time.Second, gone("w-001"))
				return
			}
			told := false
			lost := !nodes[2].holds(20*time.Second, func(v *View) bool {
				told = told || count(v, Suspect) > 0
				return len(v.Members) == 3 && count(v, Left) == 0
			})
			if lost || !told || count(nodes[2].View(), Alive) != 3 {
				t.Errorf("told: %v, lost: %v; it holds %+v", told, lost, nodes[2].View().Members)
			}
		})
	}
}

// memberlist may come to the word that a member is dead only after that was asked and has answered: it is asked again, and has not left. A
// member that refuted the word and says goodbye later has left.
func TestAnsweredBeforeMemberlistBelieves(t *testing.T) {
	for _, refutes := range []bool{false, true} {
		asked := 0
		e := &entry{id: "b", meta: meta{0, Self{Name: "w-001"}}}
		tb := &table{self: "a", show: func([]Member) {}, doubted: func() { asked++ }, byID: map[string]*entry{"b": e}}
		tb.dead(accusation{Incarnation: 9, Node: "b", From: "c"})
		tb.judge("b", false)
		if refutes {
			tb.refuted(accusation{Incarnation: 10, Node: "b"})
		}
		tb.NotifyLeave(&memberlist.Node{Name: "b"})
		if e.left != refutes || e.told == refutes || (asked == 2) == refutes {
			t.Errorf("refutes %v: left %v, told %v, asked %d times", refutes, e.left, e.told, asked)
		}
	}
}

// A member that is cut off for 10 s, in or out or both, never leaves any view, nor do the
// others leave its own.
func TestCutOfTenSeconds(t *testing.T) {
	for _, n := range []int{2, 3, 64} {
		for _, cut := range []struct {
			name    string
			in, out bool
		}{{"both ways", true, true}, {"in", true, false}, {"out", false, true}} {
			t.Run(fmt.Sprint(n, " members, ", cut.name), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFabric()
					nodes := f.job(t, n)
					victim := nodes[1].addr.Addr()
					f.cut(victim, cut.in, cut.out)
					time.AfterFunc(10*time.Second, func() { f.cut(victim, false, false) })
					var all sync.WaitGroup
					for _, m := range nodes {
						all.Go(func() {
							start := time.Now()
							if !m.holds(time.Minute, func(v *View) bool { return len(v.Members) == n && count(v, Left) == 0 }) {
								t.Errorf("%s lost somebody after %v: %d of %d", m.addr, time.Since(start), len(m.View().Members), n)
							}
							m.await(t, 10*time.Second, func(v *View) bool { return count(v, Alive) == n })
						})
					}
					all.Wait()
				})
			})
		}
	}
}

func TestPodReturnsWithNewAddress(t *testing.T) {
	for _, n := range []int{2, 5} {
		bubble(t, func(t *testing.T) {
			f := newFabric()
			nodes := f.job(t, n)
			nodes[1].kill()
			f.start(t, "w-001", "second", "10.1.0.1:7000", nodes[0].addr.String())
			for _, m := range append(nodes[:1:1], nodes[2:]...) {
				m.await(t, 6*time.Second, func(v *View) bool {
					w := v.ByName("w-001")
					return len(w) == 1 && w[0].Incarnation == "second" && len(v.Members) == n
				})
				if !m.holds(time.Minute, state("w-001", Alive)) {
					t.Errorf("%s: %+v", m.addr, m.View().ByName("w-001"))
				}
			}
		})
	}
}

// A container that restarts in its pod has the old address and another incarnation.
func TestContainerRestarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := f.job(t, 3)
		time.Sleep(time.Second) // virtual: a container is not born in the millisecond its last life was
		nodes[1].kill()
		f.cut(nodes[1].addr.Addr(), false, false)
		f.start(t, "w-001", "second", nodes[1].addr.String(), nodes[0].addr.String())
		nodes[0].await(t, 5*time.Second, func(v *View) bool {
			w := v.ByName("w-001")
			return len(w) == 1 && w[0].Incarnation == "second" && w[0].State == Alive
		})
		if !nodes[0].holds(time.Minute, func(v *View) bool { return len(v.ByName("w-001")) == 1 }) {
			t.Error(nodes[0].View())
		}
	})
}

func TestSiblingsStay(t *testing.T) {
	for name, second := range map[string]string{"one address": "10.0.0.1:7001", "fixed host name": "10.0.0.9:7000"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFabric()
				a := f.start(t, "node", "one", "10.0.0.1:7000")
				b := f.start(t, "node", "two", second, "10.0.0.1:7000")
				c := f.start(t, "other", "three", "10.0.0.2:7000", "10.0.0.1:7000")
				for _, m := range []*node{a, b, c} {
					m.await(t, 20*time.Second, func(v *View) bool { return count(v, Alive) == 3 })
				}
				for _, m := range []*node{a, b, c} {
					if !m.holds(20*time.Second, func(v *View) bool { return count(v, Alive) == 3 }) {
						t.Error(m.View())
					}
				}
			})
		})
	}
}

func TestLeaveIsShownAndForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes := newFabric().job(t, 4)
		nodes[2].stop()
		nodes[0].await(t, 5*time.Second, state("w-002", Left))
		nodes[0].await(t, 70*time.Second, gone("w-002"))
	})
}

func TestIslandsMerge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		var mu sync.Mutex
		var late []netip.AddrPort
		a := f.start(t, "a", "a", "10.0.0.1:7000")
		f.start(t, "b", "b", "10.0.0.2:7000", "10.0.0.1:7000")
		c := f.start(t, "c", "c", "10.0.1.1:7000", "10.0.1.2:7000")
		at := netip.MustParseAddrPort("10.0.1.2:7000")
		g, err := New(Config{Self: Self{Name: "d", Incarnation: "d", Addr: at}, Dial: f.dialer(at),
			Seeds: func(context.Context) ([]netip.AddrPort, error) { mu.Lock(); defer mu.Unlock(); return late, nil }})
		if err != nil {
			t.Fatal(err)
		}
		f.listen(at, g)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		defer func() { cancel(); <-done }()
		c.await(t, 30*time.Second, func(v *View) bool { return count(v, Alive) == 2 })
		a.await(t, 30*time.Second, func(v *View) bool { return count(v, Alive) == 2 })
		mu.Lock()
		late = parseAddrs([]string{"10.0.0.2:7000"})
		mu.Unlock()
		for _, n := range []*node{a, c} {
			n.await(t, 2*time.Minute, func(v *View) bool { return count(v, Alive) == 4 })
		}
	})
}

// A seed function that hangs (a silent DNS server) holds up nothing but itself.
func TestSeedsThatHang(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		at := netip.MustParseAddrPort("10.0.0.1:7000")
		g, err := New(Config{Self: Self{Name: "a", Incarnation: "a", Addr: at}, Dial: f.dialer(at),
			Seeds: func(ctx context.Context) ([]netip.AddrPort, error) { <-ctx.Done(); return nil, ctx.Err() }})
		if err != nil {
			t.Fatal(err)
		}
		f.listen(at, g)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		b := f.start(t, "b", "b", "10.0.0.2:7000", at.String())
		b.await(t, 20*time.Second, func(v *View) bool { return count(v, Alive) == 2 })
		start := time.Now()
		cancel()
		if err := <-done; err != nil || time.Since(start) > 5*time.Second {
			t.Error(err, time.Since(start))
		}
	})
}

// forge makes a hostile member: it has a claim that nobody signed, and passes it on.
func (n *node) forge(name string, c claim) {
	s := n.claims
	s.mu.Lock()
	s.byName[name] = append([]claim{c}, s.byName[name]...)
	s.mu.Unlock()
	s.queue.QueueBroadcast(claimNews{name, appendClaim(nil, name, c)})
}

func TestClaimsReachEverybody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		nodes := f.job(t, 16)
		nodes[3].Claim("launcher", 7, "x", []byte(said("launcher")))
		nodes[4].Claim("launcher", 7, "y", []byte(said("launcher")))
		nodes[5].Claim("launcher", 6, "z", []byte(said("launcher")))
		nodes[6].Claim("launcher", 8, "forged", []byte("a worker's"))
		nodes[6].forge("launcher", claim{9, "forged", "a worker's"})
		time.Sleep(90 * time.Second) // virtual: news may pass one by, three exchanges of whole states do not
		synctest.Wait()
		late := f.start(t, "late", "late", "10.9.0.1:7000", nodes[0].addr.String())
		late.await(t, 20*time.Second, func(v *View) bool { return count(v, Alive) == 17 })
		synctest.Wait() // memberlist merges members before claims
		nodes[6] = late
		for _, n := range nodes {
			for incarnation, want := range map[string]uint64{"x": 7, "y": 7, "z": 6, "forged": 0} {
				if own, _, highest := n.Numbers("launcher", incarnation); own != want || highest != 7 {
					t.Errorf("%s: %s has %d of %d", n.addr, incarnation, own, highest)
				}
			}
		}
	})
}

func TestDigestReachesEverybody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nodes := newFabric().job(t, 8)
		nodes[0].describeAs("new")
		for _, n := range nodes {
			n.await(t, time.Minute, func(v *View) bool { return v.ByName("w-000")[0].Digest == "new" })
		}
	})
}

// What a settled job costs: connections are kept, so nobody dials but for push/pull.
func TestSettledJobKeepsConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFabric()
		const n = 32
		f.job(t, n)
		time.Sleep(3 * time.Minute) // virtual: all pairs have met, surplus connections are gone
		synctest.Wait()
		f.mu.Lock()
		before := f.dialed
		f.mu.Unlock()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		perMinute := float64(f.dialed-before) / 10 / n
		if perMinute > 6 {
			t.Errorf("%.1f connections made per member and minute", perMinute)
		}
		t.Logf("%.1f connections made per member and minute", perMinute)
	})
}
