package session

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
)

// Config is what sessions need of their agent.
type Config struct {
	ranks.Config
	Version string       // build
	Log     *slog.Logger // the agent's
	Clock   *wire.Clock
	Policy  *policy.Policy // what is started for whom who comes over the network
	Grace   time.Duration  // between TERM and KILL when the agent ends
	Stdout  io.Writer      // the worker's own log; nil: it has none
	Stderr  io.Writer

	Ending context.Context          // ends when the agent is to end; its cause says why, and is an ErrShutdown where a launcher said so
	Hello  func() *apiv1.HelloReply // what the agent says of itself
	Gossip func() *member.Gossip    // nil: nobody gossips
	Settle func(from net.Addr)      // the connection from there carries a session now
	Left   func(from net.Addr) bool // who made the connection from there has hung up, though that was not read yet
	Unread func(redial bool) bool   // bytes have arrived that nobody has read, on whichever connection
	Hasten func(on bool)            // called with true when a session begins and with false a while later; nil: nobody
	Rest   func()                   // called 2 s after the last session; nil: nobody

	IdleExit time.Duration // a job has run, and no session since for so long; 0: never
}

// ErrShutdown is that of Config.Ending's cause where a launcher has told the agent to end.
var ErrShutdown = errors.New("shut down by a launcher")

// Limits of what launchers may ask for. A launcher is a member of the job, but its bytes are
// still checked: a wrong number must not take the host down.
const (
	MaxSessions  = 1024             // open at once
	maxRanks     = 1 << 20          // of one job
	maxOpenField = 253              // bytes of what a launcher says of itself: as long as a DNS name
	maxJournal   = 4 << 20          // bytes of what another launcher needs to take a run over
	maxPorts     = 256              // reserved for one session: two for the job, and one a rank of TensorFlow's
	closedLease  = time.Second      // how long a closed stream keeps its ranks
	defaultLease = 60 * time.Second // how long a silent one does
	maxLease     = 24 * time.Hour
	maxGrace     = time.Hour
	openDeadline = 10 * time.Second // a stream's first frame
	pendingBound = 10 * time.Second // how long unread bytes may put an expiry off
	drainBound   = 5 * time.Second  // how long a session waits for its launcher to take the last frames
)
