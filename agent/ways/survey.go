// Package ways is an agent's part in a launcher's look at the hosts, which `mpiup doctor` and a pre-flight take:
//
//	Checkup  what a job's ranks would find here   (judged by agent/checkup)
//	Answer   holds ports open for other hosts' questions, as long as the launcher listens
//	Ask      measures the way to other hosts' ports
//
// Concurrency: all three may be called by several goroutines. Each returns when what it started has ended; Answer ends
// with its context, and when the agent does.
//
// It does not ask whether a caller may: the gRPC service of package agent does.
package ways

import (
	"net/netip"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/mpilib"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/topology/discover"
)

// Bounds of what a launcher may ask for.
const (
	maxAnswer  = 10 * time.Minute // for which other hosts are answered, if a launcher stays so long
	maxAnswers = 64               // launchers that are answered for at a time
	maxTargets = 4096             // hosts of one Ask
	maxSought  = 64               // programs and directories of one Checkup
	askAtOnce  = 16
	maxRanks   = 1 << 20 // of one job
)

// Config is what a Survey is told of its agent.
type Config struct {
	Hello     func() *apiv1.HelloReply // what the agent says of itself
	Host      *host.Host
	Libs      *mpilib.Memory
	Inventory discover.Inventory
	Slots     int
	Env       []string          // the container's, as ranks get it
	Dir       string            // where the container starts
	Address   func() netip.Addr // the agent's own
	Ending    <-chan struct{}   // closed when the agent ends

	WatchLibrary string // libmpiup-watch.so with its directory; "": there is none
}

// Survey answers a launcher's questions about this host.
type Survey struct {
	cfg       Config
	answering chan struct{} // has one for each launcher for which ports are open for other hosts' questions
}

// New only builds.
func New(c Config) *Survey { return &Survey{cfg: c, answering: make(chan struct{}, maxAnswers)} }
