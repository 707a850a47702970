package exchange

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	pmixevent "github.com/mpiup/mpiup/pmi/pmix/event"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// launched is an Exchange with a launcher, which gets its frames, until the test's end.
func launched(t *testing.T) (*Exchange, <-chan *apiv1.Frame) {
	t.Helper()
	clock, ctx := wire.NewClock(), t.Context()
	mine, theirs, endMine, endTheirs := wire.Pipe(ctx)
	link, other := wire.NewLink(clock), wire.NewLink(clock)
	x := New(Config{Link: link, Clock: clock, Serving: ctx, Go: func(f func()) { t.Error("nothing takes time here") },
		End: func(why string) { t.Error(why) }, Shared: &ranks.Shared{Log: slog.New(slog.DiscardHandler), Jobs: &ranks.Jobs{}}})
	frames := make(chan *apiv1.Frame, 16)
	var carrying sync.WaitGroup
	carrying.Go(func() { link.Run(ctx, theirs, 0, x.Deliver) })
	carrying.Go(func() { other.Run(ctx, mine, 0, func(f *apiv1.Frame) error { frames <- f; return nil }) })
	t.Cleanup(func() { endMine(); endTheirs(); carrying.Wait(); link.Wait(); other.Wait() })
	return x, frames
}

func TestGoneCode(t *testing.T) {
	for _, tt := range []struct {
		name string
		gone *apiv1.Gone
		want int
	}{
		{"abort", &apiv1.Gone{Aborted: true, Code: 3}, pmixevent.Requested},
		{"signal", &apiv1.Gone{Signal: 9}, pmixevent.KilledBy},
		{"exit code", &apiv1.Gone{Code: 1}, pmixevent.Aborted},
		{"several", &apiv1.Gone{Ids: "3-9"}, pmixevent.Aborted},
	} {
		if got := goneCode(tt.gone); got != tt.want {
			t.Errorf("%s: %d, not %d", tt.name, got, tt.want)
		}
	}
}

// A rank that raises events faster than the launcher takes them waits; they had filled what a session may queue, 512 MiB, and
// ended it.
func TestEventsWaitForTheLauncher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serving, end := context.WithCancel(t.Context())
		link := wire.NewLink(wire.NewClock())
		x := New(Config{Shared: &ranks.Shared{}, Link: link, Serving: serving})
		const size = 60 << 10
		text := bfrops.Info{Key: "text", Value: bfrops.Value{Type: bfrops.String, Data: strings.Repeat("x", size)}}
		raised := make(chan struct{})
		go func() {
			defer close(raised)
			for range 2 * maxEventsWaiting / size {
				x.raised(pmixevent.Event{Code: -3, Range: 4, Infos: []bfrops.Info{text}})
			}
		}()
		synctest.Wait()
		if n := link.Queued(); n*size > maxEventsWaiting+size || n*size < maxEventsWaiting/2 {
			t.Errorf("%d events wait", n)
		}
		end() // the session's ranks have ended
		<-raised
	})
}

// TestAnAbortingRankIsNotHeldForLong: by a launcher that is gone, or by what ends anyway.
func TestAnAbortingRankIsNotHeldForLong(t *testing.T) {
	for _, tt := range []struct {
		name string
		want time.Duration
		ends bool
	}{{"the launcher is gone", ranks.AbortBound, false}, {"the job ends", 0, true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				link := wire.NewLink(wire.NewClock())
				x := New(Config{Shared: &ranks.Shared{Log: slog.New(slog.NewTextHandler(&log, nil))}, Link: link})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.ends {
					cancel(errors.New("over"))
				}
				begun := time.Now()
				x.aborted(ctx, 0, 1, "", nil)
				if took := time.Since(begun); took != tt.want || link.Queued() != 1 || !strings.Contains(log.String(), "abort") {
					t.Errorf("held for %v, %d frames, log %q", took, link.Queued(), log.String())
				}
			})
		})
	}
}

// TestAnAbortingRankIsHeld: until the launcher has said that it knows.
func TestAnAbortingRankIsHeld(t *testing.T) {
	x, frames := launched(t)
	for _, targets := range [][]int{nil, {0}, {0, 1}} {
		done := make(chan struct{})
		go func() { defer close(done); x.aborted(t.Context(), 1, 42, "text", targets) }()
		a := (<-frames).GetAborted()
		if a.GetRank() != 1 || a.Code != 42 || a.Text != "text" || a.Id == 0 || (a.Targets == "0") != (len(targets) == 1) {
			t.Errorf("%v: told of %v", targets, a)
		}
		noted := func(id uint64) {
			if err := x.Deliver((&apiv1.AbortNoted{Id: id}).Frame()); err != nil {
				t.Error(err)
			}
		}
		noted(a.Id + 1)                                                           // another's
		if err := x.Deliver((&apiv1.SpawnResult{Id: a.Id}).Frame()); err != nil { // of another kind
			t.Error(err)
		}
		select {
		case <-done:
			t.Errorf("%v: let go before the launcher knew", targets)
		default:
		}
		noted(a.Id)
		<-done
	}
}

// What a rank raises reaches the launcher as bytes that other hosts' agents read.
func TestEventsTravel(t *testing.T) {
	x, frames := launched(t)
	x.raised(pmixevent.Event{Code: -3, Range: 4})
	if e, err := pmixevent.Decode((<-frames).GetEvent().GetData()); err != nil || e.Code != -3 {
		t.Errorf("sent %v, %v", e, err)
	}
}
