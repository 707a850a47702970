package gloo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/rendezvous"
)

// star joins the servers of a job's hosts as a session does: the launcher takes what they tell in one order and
// passes it on to all others, each of which applies it when it comes to it.
type star struct {
	servers []*Server
	mu      sync.Mutex
	queues  []chan Update // sent to under mu
	all     sync.WaitGroup
	peak    []int // bytes that a host held, its own goroutine's until close
}

// starOf starts hosts with perHost ranks each; a host of which slow is true applies nothing before free is closed.
func starOf(t testing.TB, hosts, perHost int, slow func(host int) bool, free <-chan struct{}) *star {
	t.Helper()
	st := &star{peak: make([]int, hosts)}
	for h := range hosts {
		q := make(chan Update, 3*6*hosts*perHost) // all that ranks tell in one hvd.init()
		st.queues = append(st.queues, q)
		ranks := make([]int, perHost)
		for i := range ranks {
			ranks[i] = h*perHost + i
		}
		s := served(t, Config{Send: func(u Update) { st.pass(h, u) }}, ranks...)
		st.servers = append(st.servers, s)
		st.all.Go(func() {
			if slow != nil && slow(h) {
				<-free
			}
			for u := range q {
				s.Apply(u)
				s.store.mu.Lock()
				st.peak[h] = max(st.peak[h], s.store.bytes)
				s.store.mu.Unlock()
			}
		})
	}
	return st
}

func (st *star) pass(from int, u Update) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for h, q := range st.queues {
		if h != from {
			q <- u // never full
		}
	}
}

// close ends what applies updates, after all that was told.
func (st *star) close() {
	for _, q := range st.queues {
		close(q)
	}
	st.all.Wait()
}

// stamped is a value that tells who put it, of how many bytes, and in which hvd.init().
func stamped(rank, round, bytes int) []byte {
	b := make([]byte, max(bytes, 8))
	binary.LittleEndian.PutUint32(b, uint32(rank))
	binary.LittleEndian.PutUint32(b[4:], uint32(round))
	return b[:bytes]
}

// check is what all of a scope's ranks see: the values of this round's ranks.
func check(name string, round, size int, member func(i int) (rank int)) func(scope, key string, value []byte) error {
	return func(scope, key string, value []byte) error {
		host := strings.HasPrefix(key, "rank_")
		i, err := strconv.Atoi(strings.TrimPrefix(key, "rank_"))
		want := 136 * (size - 1)
		if host {
			want = len("vm")
		}
		if err != nil || len(value) != want || !bytes.HasPrefix(value, stamped(member(i), round, min(want, 8))) {
			return fmt.Errorf("/%s/%s is %d bytes, %.8q", name, key, len(value), value)
		}
		return nil
	}
}

// asks is a rank whose requests come to the store without a connection.
type asks struct {
	s    *Server
	rank int
	c    *rendezvous.Client // nil: none; else by its port
	put  func(scope, key string, bytes int) []byte
	seen func(scope, key string, value []byte) error
}

func (a *asks) meet(ctx context.Context, sc rendezvous.Scope) error {
	if a.c != nil {
		a.c.Value, a.c.Seen = a.put, a.seen
		return a.c.Meet(ctx, sc)
	}
	for r := range sc.Meet() {
		if r.Method == "PUT" {
			if err := a.s.store.Put(a.rank, sc.Name, r.Key, a.put(sc.Name, r.Key, r.Bytes)); err != nil {
				return err
			}
			continue
		}
		value, err := a.get(ctx, sc.Name, r)
		if err == nil && value != nil {
			err = a.seen(sc.Name, r.Key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// get is nil for what is asked for once and is not there.
func (a *asks) get(ctx context.Context, scope string, r rendezvous.Request) ([]byte, error) {
	if !r.Again {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	value, ok := a.s.store.Get(ctx, a.rank, scope, r.Key)
	if !ok && r.Again {
		return nil, fmt.Errorf("no /%s/%s", scope, r.Key)
	}
	return value, nil
}

func (a *asks) finish(ctx context.Context, sc rendezvous.Scope) error {
	if a.c != nil {
		return a.c.Finish(ctx, sc)
	}
	return a.s.store.Finish(a.rank, sc.Name, sc.Finish().Key)
}

// replay has the ranks of all hosts call hvd.init(), of which scopes says which of its scopes they meet in. byPort says which ranks
// ask by their ports.
func (st *star) replay(ctx context.Context, t *testing.T, round, perHost, scopes int, byPort func(rank int) bool) {
	t.Helper()
	size := len(st.servers) * perHost
	var mu sync.Mutex
	connected := map[string]*sync.WaitGroup{} // a scope's barrier, which Horovod's ranks make over their own connections
	barrier := func(sc rendezvous.Scope) *sync.WaitGroup {
		mu.Lock()
		defer mu.Unlock()
		if connected[sc.Name] == nil {
			connected[sc.Name] = &sync.WaitGroup{}
			connected[sc.Name].Add(sc.Size)
		}
		return connected[sc.Name]
	}
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() {
			host := rank / perHost
			a := &asks{s: st.servers[host], rank: rank}
			if byPort(rank) {
				a.c = &rendezvous.Client{Server: fmt.Sprintf("127.0.0.1:%d", a.s.Port(rank))}
			}
			a.put = func(_, _ string, bytes int) []byte { return stamped(rank, round, bytes) }
			place := rendezvous.PlaceOf(rank, size, perHost)
			for i, sc := range place.Scopes("0")[:scopes] {
				a.seen = check(sc.Name, round, sc.Size, func(other int) int {
					return []int{other, host*perHost + other, other*perHost + place.Local}[i%3]
				})
				b := barrier(sc)
				err := a.meet(ctx, sc)
				b.Done() // also one that failed: the others are not to wait for it
				if err != nil {
					t.Errorf("rank %d: %v", rank, err)
					continue
				}
				b.Wait()
				if err := a.finish(ctx, sc); err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
		})
	}
	ranks.Wait()
}

// left fails where a host keeps a value after all ranks have met.
func (st *star) left(t *testing.T) {
	t.Helper()
	for h, s := range st.servers {
		for k, l := range s.store.lives {
			t.Errorf("host %d keeps %d values of %s, epoch %d", h, len(l.values), k.scope, k.epoch)
		}
	}
}

// What ranks of a real Horovod ask, twice in one process, leaves nothing behind on any host.
func TestReplayedRanksLeaveNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st := starOf(t, 3, 2, nil, nil)
	for round := range 2 {
		st.replay(ctx, t, round, 2, 6, func(int) bool { return true })
	}
	st.close()
	st.left(t)
}

// A host that applies nothing for a while holds no others up, and has nothing left over when it has caught up.
func TestSlowHostHoldsNobodyUp(t *testing.T) {
	const slow = 3
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	free := make(chan struct{})
	st := starOf(t, slow+1, 2, func(host int) bool { return host == slow }, free)
	(&star{servers: st.servers[:slow]}).replay(ctx, t, 0, 2, 3, func(int) bool { return false })
	if n := st.peak[slow]; n != 0 {
		t.Errorf("the slow host took %d bytes already", n)
	}
	close(free)
	st.close()
	st.left(t)
	if st.peak[slow] == 0 {
		t.Error("the slow host was told nothing")
	}
}

// 512 ranks on 64 hosts. One of them asks by its port, the others come to their host's store.
func TestFiveHundredRanks(t *testing.T) {
	const hosts, perHost = 64, 8
	const size = hosts * perHost
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	st := starOf(t, hosts, perHost, nil, nil)
	begun := time.Now()
	st.replay(ctx, t, 0, perHost, 3, func(rank int) bool { return rank == perHost })
	st.close()
	st.left(t)
	// Each host holds what ranks put in global once, and what they put in the next scopes before all have finished that.
	const global = size * (136*(size-1) + len("vm") + 2*(len("global")+len("rank_511")+entryCost))
	const cross = size * (136*(hosts-1) + len("vm") + 2*(len("cross_0")+len("rank_63")+entryCost))
	for h, p := range st.peak {
		if p > global+cross+64<<10 || p < global-64<<10 {
			t.Errorf("host %d held %d bytes at most, it was told of %d and %d", h, p, global, cross)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%v, %d bytes on a host, heap %d MB", time.Since(begun), st.peak[0], m.HeapSys>>20)
}
