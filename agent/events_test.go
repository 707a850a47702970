package agent

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	pmixevent "github.com/mpiup/mpiup/pmi/pmix/event"
)

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

// TestGoneNeedsNoRanksToTell: before anybody speaks PMIx, and of processes that no job has.
func TestGoneNeedsNoRanksToTell(t *testing.T) {
	c := newClient(t, newAgent(t), '1', "life-1")
	c.dial(false)
	first := elsewhere(0, 0, 2)
	first.Job.Namespace, first.Job.Layout = "ns-0", []*apiv1.HostRanks{{Name: "w1", Ranks: "0-1"}}
	c.start(first)
	gone := func(ids string) {
		c.send((&apiv1.Gone{Ids: ids, Host: true}).Frame())
	}
	gone("0-1")
	c.start(pmixLaunch(1, 2, 1, "sleep 1000"))
	c.until(started)
	gone("0-2,7,1048575")
	if s := c.session(); s.gone(&apiv1.Gone{Ids: "x"}) == nil {
		t.Error("a set that is none was taken")
	}
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
}

// A rank that raises events faster than the launcher takes them waits; they had filled what a session may queue, 512 MiB, and
// ended it.
func TestEventsWaitForTheLauncher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serving, end := context.WithCancel(t.Context())
		s := &session{link: wire.NewLink(wire.Config{Clock: wire.NewClock(0)}), serving: serving}
		const size = 60 << 10
		text := bfrops.Info{Key: "text", Value: bfrops.Value{Type: bfrops.String, Data: strings.Repeat("x", size)}}
		raised := make(chan struct{})
		go func() {
			defer close(raised)
			for range 2 * maxEventsWaiting / size {
				s.raised(pmixevent.Event{Code: -3, Range: 4, Infos: []bfrops.Info{text}})
			}
		}()
		synctest.Wait()
		if n := s.link.Queued(); n*size > maxEventsWaiting+size || n*size < maxEventsWaiting/2 {
			t.Errorf("%d events wait", n)
		}
		end() // the session's ranks have ended
		<-raised
	})
}

func TestEventsOfRanksTravel(t *testing.T) {
	c := newClient(t, newAgent(t), '1', "life-1")
	c.dial(false)
	event := func(data []byte) {
		c.send((&apiv1.Event{Data: data}).Frame())
	}
	c.start(elsewhere(0, 0, 2))
	event(nil) // nobody here speaks PMIx
	first := pmixLaunch(1, 2, 1, "sleep 1000")
	first.Job.Spawned = false
	c.start(first)
	c.until(started)
	c.session().raised(pmixevent.Event{Code: -3, Range: 4})
	seen := c.until(func(f *apiv1.Frame) bool { return f.GetEvent() != nil })
	packed := seen[len(seen)-1].GetEvent().Data
	if e, err := pmixevent.Decode(packed); err != nil || e.Code != -3 {
		t.Errorf("sent %v, %v", e, err)
	}
	event(packed)
	event([]byte("no event"))
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed) // over the same stream: what cannot be read has not broken it
}
