package session

import (
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	pmixevent "github.com/mpiup/mpiup/pmi/pmix/event"
)

// TestGoneNeedsNoRanksToTell: before anybody speaks PMIx, and of processes that no job has.
func TestGoneNeedsNoRanksToTell(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
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
	if s := c.session(); s.deliver((&apiv1.Gone{Ids: "x"}).Frame()) == nil {
		t.Error("a set that is none was taken")
	}
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
}

// TestEventsOfOtherHosts: those that nobody here takes, and bytes that are none.
func TestEventsOfOtherHosts(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
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
	packed, err := pmixevent.Encode(pmixevent.Event{Code: -3, Range: 4})
	if err != nil {
		t.Fatal(err)
	}
	event(packed)
	event([]byte("no event"))
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed) // over the same stream: what cannot be read has not broken it
}
