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
func (s *session) maySpeak(ctx context.Context, c net.Conn) error { return s.speaks(ctx, nil, c) }

// maySpeak is the session's, where it is known whose port it is: Horovod's ranks connect a thousand times.
func (st *step) maySpeak(ctx context.Context, rank int, c net.Conn) error {
	st.mu.Lock()
	p := st.procs[uint32(rank)]
	st.mu.Unlock()
	if p == nil { // it is being started
		return st.s.speaks(ctx, nil, c)
	}
	return st.s.speaks(ctx, p.process, c)
}

func (s *session) speaks(ctx context.Context, likely *reap.Process, c net.Conn) error {
	peer, err := lobby.PeerOf(c)
	if err != nil {
		return err
	}
	if s.agent.super.Holds(ctx, s.id, likely, peer.Inode, peer.UID) == reap.NotHeld {
		return fmt.Errorf("a process of uid %d holds the other end, and none of this host's ranks or their descendants (the agent is uid %d)",
			peer.UID, os.Getuid())
	}
	return nil
}
