package reach

import (
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/link"
)

// Agents that state a name which is a path, hides something, or has no end.
func TestStatedNamesAreNames(t *testing.T) {
	reply := &apiv1.PeersReply{}
	state := func(names ...string) (refused int) {
		for _, name := range names {
			if link.CheckHost(&apiv1.HelloReply{Name: name}) != nil {
				refused++
			}
			reply.Peers = append(reply.Peers, &apiv1.Peer{Name: name, Address: "10.0.0.1:1", State: "alive", Incarnation: name})
		}
		return refused
	}
	bad := []string{"../x", "w/2", "..", "/etc/passwd", "w\x1b[2J", "w\n", "w\u009b", "\xff", strings.Repeat("x", 300), "-rf", "a b"}
	if n := state(bad...); n != len(bad) {
		t.Errorf("%d of %d bad names are refused", n, len(bad))
	}
	if n := state("w0", "w0.pi.team-a.svc", "10.0.0.1", "under_score"); n != 0 {
		t.Errorf("%d good names are refused", n)
	}
	if list := plausible(reply.Peers); len(list) != 4 {
		t.Errorf("hosts are %v", list)
	}
}
