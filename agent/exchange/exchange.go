// Package exchange is what the ranks of one session do together with ranks elsewhere: fences, names, values, events,
// spawns, aborts. On this host they meet in one engine and one PMIx server; other hosts are reached by the launcher.
//
//	rank ──PMI-1, PMI-2──▶ ranks.Job ─┐
//	rank ──PMIx──▶ pmix.Server ───────┴─▶ kvs.Engine ──▶ star ══question══▶ launcher ══▶ other hosts
//	                   ▲                                   ◀════answer═════
//	                   └──────── events, Gone ◀═══════════════════════════
//
// Processes are named by their id in the run, the base of their job plus their rank there.
//
// Concurrency: New only builds. All methods may be called by several goroutines; Deliver, which is given the frames of a
// stream in order, does not block. What takes time runs on goroutines that the session waits for (Config.Go), and ends
// with Config.Serving.
//
// It starts and ends no process, and knows neither leases nor other launchers.
package exchange

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// Config is what an Exchange is told of its session.
type Config struct {
	Shared  *ranks.Shared // of the session's jobs; New enters Engine and Session
	Link    Link          // to the launcher
	Clock   *wire.Clock
	Serving context.Context  // ends when the session's processes have ended
	Go      func(f func())   // runs f; the session's end waits for it. After that it does nothing
	End     func(why string) // begins the session's end
	MayLook func() error     // nil: the launcher may see what ranks do; else why not
}

// Link is the way to the launcher: a wire.Link, or what notes what goes over it (agent/handover).
type Link interface {
	Send(*apiv1.Frame) error
	Lend(f *apiv1.Frame, back func()) error
	Ease(ctx context.Context, most int) error
}

// Exchange serves all jobs of one session, as their ranks.Session.
type Exchange struct {
	*ranks.Shared
	cfg    Config
	star   *star
	pmix   pmixHost
	logLen atomic.Int64 // bytes that ranks had shown by PMIx_Log

	mu     sync.Mutex
	stalls look.Barriers // guarded by mu
}

// New makes an Exchange, and starts nothing.
func New(c Config) *Exchange {
	x := &Exchange{Shared: c.Shared, cfg: c, star: &star{link: c.Link, waiting: map[any]chan any{}}}
	x.Engine = kvs.New(kvs.Run{Upstream: x.star, Names: x.star})
	x.Session = x
	return x
}

// Send queues a frame for the launcher. If the link is full, the launcher reads nothing and the session ends.
func (x *Exchange) Send(f *apiv1.Frame) { x.sent(x.cfg.Link.Send(f)) }

// Lend is Send of a frame whose bytes are given back.
func (x *Exchange) Lend(f *apiv1.Frame, back func()) { x.sent(x.cfg.Link.Lend(f, back)) }

func (x *Exchange) sent(err error) {
	if err != nil {
		x.cfg.End("the launcher takes no frames: " + err.Error())
	}
}
