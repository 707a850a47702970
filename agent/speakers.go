package agent

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/pmi/lobby"
)

// maySpeak lets only the ranks of the session here and their descendants speak on a loopback port,
// where anybody on the host can connect. Where /proc does not show whose a socket is, its user decides.
// What speaks has to know a namespace's or a rank's random bits besides.
func (s *session) maySpeak(ctx context.Context, c net.Conn) error {
	peer, err := lobby.PeerOf(c)
	if err != nil {
		return err
	}
	if s.agent.super.Holds(ctx, s.id, peer.Inode, peer.UID) == reap.NotHeld {
		return fmt.Errorf("a process of uid %d holds the other end, and none of this host's ranks or their descendants (the agent is uid %d)",
			peer.UID, os.Getuid())
	}
	return nil
}
