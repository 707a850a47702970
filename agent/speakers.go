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

// started is a rank's process once its start is noted, before which it may speak already. nil: its
// job is over, or it was never started.
func (st *step) started(rank uint32) *proc {
	for {
		st.mu.Lock()
		p, noted := st.procs[rank], st.noted
		st.mu.Unlock()
		if p != nil {
			return p
		}
		select {
		case <-noted:
		case <-st.over:
			return st.proc(rank)
		case <-st.ctx.Done():
			return nil
		}
	}
}
