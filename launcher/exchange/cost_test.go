package exchange

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// star joins the engines of hosts by an exchange, in memory, and counts frames as they would be written.
type star struct {
	mu     sync.Mutex
	x      *Exchange
	wait   map[int]chan *apiv1.FenceResult // guarded by mu; by host
	in     traffic                         // guarded by mu; to the launcher
	out    traffic                         // guarded by mu; from the launcher
	toHost []traffic                       // guarded by mu
}

type traffic struct{ frames, bytes int }

func (t *traffic) add(f *apiv1.Frame) {
	f.Seq, f.Ack = 1<<20, 1<<20 // as in a long run
	t.frames++
	t.bytes += proto.Size(f)
}

// ray is one host's way to the others.
type ray struct {
	*star
	host int
}

func newStar(hosts, perHost int) *star {
	s := &star{wait: map[int]chan *apiv1.FenceResult{}, toHost: make([]traffic, hosts)}
	s.x = New(0, func(host int, f *apiv1.Frame) { // the caller holds mu
		s.out.add(f)
		s.toHost[host].add(f)
		s.wait[host] <- f.GetFenceResult()
	})
	hostOf := make([]int, hosts*perHost)
	for r := range hostOf {
		hostOf[r] = r / perHost
	}
	grow(s.x, hosts, hostOf)
	return s
}

func (r ray) Exchange(ctx context.Context, set string, epoch uint64, collect bool, data []byte) ([][]byte, error) {
	f := &apiv1.FenceEnter{Set: set, Epoch: epoch, Collect: collect, Data: data}
	c := make(chan *apiv1.FenceResult, 1)
	r.mu.Lock()
	r.in.add(f.Frame())
	r.wait[r.host] = c
	_, err := r.x.Enter(r.host, f)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case a := <-c:
		if a.Error != "" {
			return nil, errors.New(a.Error)
		}
		return a.Data, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r ray) Fetch(context.Context, kvs.Question) ([]byte, bool, error) {
	return nil, false, fmt.Errorf("host %d asked for a value that the fence should have brought", r.host)
}

// A collecting fence of 1 KiB a rank over 64 hosts of 8 ranks: the data goes to the launcher once,
// and from it to each host at most once, in one message each way for a host. A rank's part is one
// key of 24 bytes and its value.
func TestCollectingFenceCost(t *testing.T) {
	const hosts, perHost, part = 64, 8, 1 << 10
	const data = hosts * perHost * part
	s := newStar(hosts, perHost)
	key := func(rank int) string { return fmt.Sprintf("business-card-of-%07d", rank) }
	var spaces []*kvs.Space
	for h := range hosts {
		job := kvs.Job{KVSName: "job", Size: hosts * perHost}
		for l := range perHost {
			job.Local = append(job.Local, h*perHost+l)
		}
		e, err := kvs.New(kvs.Run{Upstream: ray{s, h}}).Add(job)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close(nil) })
		spaces = append(spaces, e)
	}
	var g errgroup.Group
	for rank := range hosts * perHost {
		e := spaces[rank/perHost]
		g.Go(func() error {
			value := strings.Repeat(string(rune('a'+rank%26)), part-len(key(rank)))
			if err := e.Put(rank, key(rank), []byte(value)); err != nil {
				return err
			}
			return e.Fence(t.Context(), rank, idset.Set{}, "", true)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for h, e := range spaces { // all is there, without a question
		for rank := range hosts * perHost {
			if v, found, err := e.Get(t.Context(), rank, key(rank)); !found || err != nil || len(v) != part-len(key(rank)) {
				t.Fatalf("host %d, of rank %d: %d bytes, %v, %v", h, rank, len(v), found, err)
			}
		}
	}
	t.Logf("data %d; to the launcher %+v; from it %+v; to host 0 %+v", data, s.in, s.out, s.toHost[0])
	if s.in.frames != hosts || s.out.frames != hosts {
		t.Errorf("%d messages to the launcher and %d from it for %d hosts", s.in.frames, s.out.frames, hosts)
	}
	if limit := data * 101 / 100; s.in.bytes > limit { // owners, lengths and frames are below 1 %
		t.Errorf("%d bytes to the launcher, more than %d", s.in.bytes, limit)
	}
	if s.out.bytes > hosts*data {
		t.Errorf("the launcher sends %d bytes, more than %d hosts x %d", s.out.bytes, hosts, data)
	}
	for h, to := range s.toHost {
		if to.bytes > data {
			t.Errorf("host %d gets %d bytes, more than the %d there are", h, to.bytes, data)
		}
	}
}

// What hosts bring to fences that do not end is bounded, for one fence and for all. Those that pass a bound fail on every
// host, also for those that come later, and the launcher lets their data go.
func TestFencesAreBounded(t *testing.T) {
	var answers []*apiv1.FenceResult
	x := New(0, func(_ int, f *apiv1.Frame) { answers = append(answers, f.GetFenceResult()) })
	grow(x, 3, []int{0, 1, 2})
	part := make([]byte, maxFence/2+1) // no page of it is touched
	enter := func(host int, tag string, data []byte) {
		t.Helper()
		if _, err := x.Enter(host, &apiv1.FenceEnter{Set: "0-2#" + tag, Epoch: 1, Collect: true, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(hosts ...int) {
		t.Helper()
		for _, want := range hosts {
			if len(answers) == 0 {
				t.Fatalf("host %d has no answer", want)
			}
			if r := answers[0]; r.Error == "" || !r.Limit || len(r.Data) > 0 {
				t.Errorf("host %d: %.200v", want, r)
			}
			answers = answers[1:]
		}
		if len(answers) > 0 {
			t.Errorf("%d more answers", len(answers))
		}
	}
	enter(0, "one", part)
	enter(1, "one", part)
	refused(0, 1)
	enter(2, "one", nil)
	refused(2)
	if x.held != 0 || len(x.fences) != 0 {
		t.Fatalf("%d bytes of %d fences are left", x.held, len(x.fences))
	}
	for i := range maxHeld / len(part) {
		enter(0, fmt.Sprint(i), part)
	}
	refused()
	enter(0, "more", part)
	refused(0)
	enter(0, "small", nil)
	refused()
	for host := 1; host < 3; host++ {
		enter(host, "small", nil)
	}
	if len(answers) != 3 || answers[0].Error != "" {
		t.Errorf("%v", answers)
	}
	x.Over(1, "it is gone")
	if x.held != 0 {
		t.Errorf("%d bytes are held of fences that have failed", x.held)
	}
}
