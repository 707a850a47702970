package launcher

import (
	"fmt"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
)

// What agents state of names becomes tags, tables, names of files and the ranks' own list of hosts: it is checked
// where it comes in.

// checkHost checks what an agent says of itself.
func checkHost(h *apiv1.HelloReply) error {
	if h.GetName() == "" { // goes by the name that it was found by
		return nil
	}
	if err := hostlist.CheckName(h.Name); err != nil {
		return fmt.Errorf("its agent states a name that is none: %w", err)
	}
	return nil
}

// plausible takes out of an agent's list of members those whose names are none.
func plausible(reply *apiv1.PeersReply) *apiv1.PeersReply {
	reply.Peers = slices.DeleteFunc(reply.Peers, func(p *apiv1.Peer) bool { return hostlist.CheckName(p.GetName()) != nil })
	if checkHost(reply.Self) != nil {
		reply.Self = nil
	}
	return reply
}
