package handover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
)

// launcher takes what an agent's link sends, over one stream.
type launcher struct {
	link *wire.Link
	got  []string
	end  func()
}

// attached is a record with a launcher that takes what it sends.
type attached struct {
	*Record
	t     *testing.T
	link  *wire.Link
	clock time.Duration
	free  map[uint32]int // bytes that processes were granted
}

func newAttached(t *testing.T) *attached {
	a := &attached{t: t, link: wire.NewLink(wire.NewClock()), free: map[uint32]int{}}
	a.Record = New(a.link, func() time.Duration { return a.clock }, func(id, n uint32) { a.free[id] += int(n) })
	a.Got((&apiv1.Launch{Job: &apiv1.Job{Window: 4096}}).Frame())
	return a
}

// with connects a launcher, whose link is new, and returns when it has all that was sent.
func (a *attached) with() *launcher {
	ctx, cancel := context.WithCancel(a.t.Context())
	mine, theirs, _, _ := wire.Pipe(ctx)
	l := &launcher{link: wire.NewLink(wire.NewClock())}
	done := make(chan struct{}, 2)
	go func() { a.link.Run(ctx, mine, 0, func(*apiv1.Frame) error { return nil }); done <- struct{}{} }()
	go func() {
		l.link.Run(ctx, theirs, 0, func(f *apiv1.Frame) error { l.got = append(l.got, shown(f)); return nil })
		done <- struct{}{}
	}()
	l.end = func() { cancel(); <-done; <-done; a.link.Wait(); l.link.Wait() }
	synctest.Wait()
	return l
}

func shown(f *apiv1.Frame) string {
	age := ""
	if f.AgeMs > 1 {
		age = fmt.Sprintf(" %v ago", time.Duration(f.AgeMs)*time.Millisecond)
	}
	switch b := f.Body.(type) {
	case *apiv1.Frame_Output:
		return fmt.Sprintf("%d writes %s", b.Output.Rank, b.Output.Data)
	case *apiv1.Frame_Resumed:
		return strings.TrimSpace(fmt.Sprintf("resumed %d ms %v %v", b.Resumed.LostMs, b.Resumed.Dropped, b.Resumed.Fences))
	case *apiv1.Frame_FenceEnter:
		return fmt.Sprintf("fence %s %d%s", b.FenceEnter.Set, b.FenceEnter.Epoch, age)
	case *apiv1.Frame_Activity:
		return "idle " + b.Activity.Idle
	}
	name, _, _ := strings.Cut(fmt.Sprintf("%T", f.Body), " ")
	return strings.ToLower(strings.TrimPrefix(name, "*apiv1.Frame_")) + age
}

func (a *attached) send(m interface{ Frame() *apiv1.Frame }) {
	a.t.Helper()
	if err := a.Send(m.Frame()); err != nil {
		a.t.Fatal(err)
	}
}

func (a *attached) writes(id uint32, text string) {
	a.send(&apiv1.Output{Rank: id, Data: []byte(text)})
}

func (l *launcher) wants(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(l.got, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("it was sent\n%s\n\nand not\n%s", got, strings.Join(want, "\n"))
	}
}

// Another launcher is told all that it must know, in order: what ranks did, what they wait for, and the output that had not left the
// launcher before it.
func TestAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttached(t)
		first := a.with()
		a.send(&apiv1.Started{Rank: 0, Pid: 7})
		a.send(&apiv1.Started{Rank: 1, Pid: 8})
		a.send(&apiv1.FenceEnter{Set: "0-1", Epoch: 1})
		a.send(&apiv1.Activity{Idle: "0"})
		a.send(&apiv1.Activity{Idle: "0-1"})
		a.Got((&apiv1.FenceResult{Set: "0-1", Epoch: 1}).Frame())
		a.send(&apiv1.FenceEnter{Set: "0-1", Epoch: 2})
		a.writes(0, "written")
		a.writes(0, "under way")
		a.Got((&apiv1.Credit{Rank: 0, Bytes: 7 + 6}).Frame())
		a.send(&apiv1.Notice{Text: "once"})
		synctest.Wait()
		first.end()
		a.clock = time.Minute
		a.Hold(0)
		if a.free[0] != 3 {
			t.Errorf("a rank with 3 bytes under way was granted %d", a.free[0])
		}
		a.writes(1, "meanwhile")
		a.send(&apiv1.Exited{Rank: 1})
		a.send(&apiv1.OutputEnd{Rank: 1})
		a.send(&apiv1.FetchRequest{Id: 3})
		a.clock = 90 * time.Second
		if err := a.Adopt(errors.New("another")); err != nil {
			t.Fatal(err)
		}
		a.writes(0, "now")
		second := a.with()
		second.wants(t, "resumed 30000 ms [] [0-1 1]", "started 1m30s ago", "started 1m30s ago", "idle 0-1", "fence 0-1 2 1m30s ago",
			"exited 30s ago", "fetchrequest 30s ago", "notice", "0 writes way", "1 writes meanwhile", "outputend 30s ago", "0 writes now")
		second.end()
	})
}

// The launcher that was taken for lost gets what it missed, and nothing twice.
func TestBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttached(t)
		l := a.with()
		a.send(&apiv1.Started{Rank: 0})
		a.writes(0, "before")
		synctest.Wait()
		a.Hold(0)
		a.writes(0, "meanwhile")
		a.send(&apiv1.OutputEnd{Rank: 0})
		a.send(&apiv1.Notice{Text: "x"})
		if a.free[0] != len("before")+len("meanwhile") {
			t.Errorf("granted %d", a.free[0])
		}
		if err := a.Back(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.wants(t, "started", "0 writes before", "notice", "0 writes meanwhile", "outputend")
		l.end()
	})
}

// Of what nobody takes the last is kept, and the rest counted, for each process.
func TestOutputIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttached(t)
		a.Hold(0)
		line := strings.Repeat("x", 1000)
		for range 10 {
			a.writes(0, line)
		}
		a.writes(1, "short")
		if a.free[0] != 10*len(line) {
			t.Errorf("granted %d: the rank would wait", a.free[0])
		}
		m := a.resumed()
		if len(m.Dropped) != 1 || m.Dropped[0].Rank != 0 || m.Dropped[0].Bytes != 7000 {
			t.Errorf("dropped %v", m.Dropped)
		}
		for range 1000 { // tiny pieces cost more than their bytes
			a.writes(2, "y")
		}
		if n := len(a.output[2].chunks); n > 4096/chunkCost {
			t.Errorf("%d pieces are kept", n)
		}
		if err := a.Adopt(errors.New("another")); err != nil {
			t.Fatal(err)
		}
		if m := a.resumed(); len(m.Dropped) > 0 {
			t.Errorf("told twice: %v", m.Dropped)
		}
	})
}

// What ranks tell each other while nobody takes it counts, and keeps who tells too much waiting; what is true until the next of its kind
// is kept once.
func TestWhatWaitsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttached(t)
		l := a.with()
		a.Hold(0)
		for range 1000 {
			a.send(&apiv1.Activity{Idle: "0"})
		}
		if len(a.late) > 0 || a.size > 100 {
			t.Errorf("%d frames of %d bytes wait", len(a.late), a.size)
		}
		a.send(&apiv1.Event{Data: make([]byte, 1000)})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Ease(ctx, 1000); err == nil {
			t.Error("who sent 1000 bytes of an event does not wait")
		}
		large := make([]byte, 8<<20) // one for all
		for a.size <= maxNoted {
			if err := a.Send((&apiv1.Event{Data: large}).Frame()); err != nil && a.size <= maxNoted {
				t.Fatal(err)
			}
		}
		if err := a.Send((&apiv1.Event{}).Frame()); !errors.Is(err, wire.ErrFull) {
			t.Errorf("more than %d bytes: %v", maxNoted, err)
		}
		a.late, a.size, a.extra = a.late[:1], a.size-a.extra+1000, 1000
		before := a.size
		if err := a.Back(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.wants(t, "event", "idle 0")
		if a.size != before-1000 {
			t.Errorf("%d bytes are still counted", a.size)
		}
		l.end()
	})
}

// Who sends more events than are taken waits for the next launcher, and no longer than its session.
func TestEase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttached(t)
		a.Hold(0)
		a.send(&apiv1.Rendezvous{Key: "k", Value: make([]byte, 100)})
		if err := a.Ease(t.Context(), 1000); err != nil {
			t.Error(err)
		}
		done := make(chan error, 1)
		go func() { done <- a.Ease(t.Context(), 10) }()
		synctest.Wait()
		select {
		case <-done:
			t.Error("it does not wait")
		default:
		}
		l := a.with()
		if err := a.Back(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the stream's next acknowledgement
		if err := <-done; err != nil {
			t.Error(err)
		}
		l.end()
		ctx, cancel := context.WithCancel(t.Context())
		a.Hold(0)
		cancel()
		if err := a.Ease(ctx, 10); err == nil {
			t.Error("it waits for a session that is over")
		}
	})
}
