package reach

import (
	"slices"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

func TestMemberHosts(t *testing.T) {
	set := memberHosts(&apiv1.PeersReply{Self: &apiv1.HelloReply{Name: "w10", Address: "10.0.0.10:5000", Incarnation: "x"},
		Peers: []*apiv1.Peer{
			{Name: "w2", Address: "10.0.0.2:5000", Incarnation: "a", State: "alive"},
			{Name: "n", Address: "10.0.0.3:5001", Incarnation: "b", State: "suspect"},
			{Name: "n", Address: "10.0.0.3:5000", Incarnation: "c", State: "alive"},
			{Name: "old", Address: "10.0.0.4:5000", Incarnation: "d", State: "left"},
			{Name: "bad", Address: "nonsense", Incarnation: "e", State: "alive"},
		}})
	var got []string
	for _, h := range set.Hosts {
		got = append(got, h.Entry.Name)
	}
	if want := []string{"n", "n/2", "w2", "w10"}; set.From != "gossip" || !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", set.From, got, want)
	}
}
