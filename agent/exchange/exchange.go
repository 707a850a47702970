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
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mpiup/mpiup/agent/ranks"
	"github.com/mpiup/mpiup/agent/stall"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// Config is what an Exchange is told of its session.
type Config struct {
	Shared  *ranks.Shared // of the session's jobs; New enters Engine and Session
	Link    *wire.Link    // to the launcher
	Clock   *wire.Clock
	Serving context.Context // ends when the session's processes have ended
	Go      func(func())    // runs what the session waits for; at its very end, nothing
	End     func(why string)
}

// Exchange is a session's. It is the ranks.Session of its jobs.
type Exchange struct {
	*ranks.Shared
	cfg    Config
	star   *star
	pmix   pmixHost
	logLen atomic.Int64 // bytes that ranks had shown by PMIx_Log

	mu     sync.Mutex
	stalls stall.Watch // guarded by mu
}

// New only builds.
func New(c Config) *Exchange {
	x := &Exchange{Shared: c.Shared, cfg: c, star: newStar(c.Link)}
	x.Engine = kvs.New(kvs.Run{Upstream: x.star, Names: x.star})
	x.Session = x
	return x
}

// Send queues a frame for the launcher. A link that is full has a launcher that takes nothing: the session ends.
func (x *Exchange) Send(f *apiv1.Frame) { x.sent(x.cfg.Link.Send(f)) }

// Lend is Send of a frame whose bytes are given back.
func (x *Exchange) Lend(f *apiv1.Frame, back func()) { x.sent(x.cfg.Link.Lend(f, back)) }

func (x *Exchange) sent(err error) {
	if err != nil {
		x.cfg.End("the launcher takes no frames: " + err.Error())
	}
}

// Notice tells the user something, once. The launcher puts our host's name before it, but only
// the first host's that says the same.
func (x *Exchange) Notice(warning bool, format string, args ...any) {
	x.Send((&apiv1.Notice{Text: fmt.Sprintf(format, args...), Warning: warning}).Frame())
}

// Deliver handles a frame of the launcher's. An error is a frame that no launcher sends.
func (x *Exchange) Deliver(f *apiv1.Frame) error {
	switch b := f.Body.(type) {
	case *apiv1.Frame_FenceResult:
		x.star.answer(fenceKey{b.FenceResult.Set, b.FenceResult.Epoch}, b.FenceResult)
	case *apiv1.Frame_NameResult:
		x.star.answer(nameID(b.NameResult.Id), b.NameResult)
	case *apiv1.Frame_FetchResult:
		x.star.answer(fetchID(b.FetchResult.Id), b.FetchResult)
	case *apiv1.Frame_SpawnResult:
		x.star.answer(spawnID(b.SpawnResult.Id), b.SpawnResult)
	case *apiv1.Frame_AbortNoted:
		x.star.answer(abortID(b.AbortNoted.Id), b.AbortNoted)
	case *apiv1.Frame_AskWaits:
		x.answerWaits(b.AskWaits.Id)
	case *apiv1.Frame_FetchRequest:
		x.answerFetch(b.FetchRequest)
	case *apiv1.Frame_Gone:
		return x.gone(b.Gone)
	case *apiv1.Frame_Event:
		x.event(b.Event)
	default:
		return fmt.Errorf("frame %T is not for an agent", f.Body)
	}
	return nil
}

// answerFetch answers another host's question for what ranks here have put. The job is known from
// its Launch on, before its ranks run.
func (x *Exchange) answerFetch(r *apiv1.FetchRequest) {
	res := &apiv1.FetchResult{Id: r.Id}
	st, rank := x.Jobs.Of(r.Owner), kvs.AnyOwner
	if r.AnyOwner {
		st = x.Jobs.Number(r.Job)
	} else if st != nil {
		rank = int(r.Owner - st.Launch.Job.Base)
	}
	if st == nil || r.AnyOwner || !r.Wait {
		if st != nil {
			res.Value, res.Found = st.Get(rank, r.Key)
		}
		x.Send(res.Frame())
		return
	}
	x.cfg.Go(func() {
		var err error
		if res.Value, res.Found, err = st.Await(rank, r.Key, string(r.Not)); err != nil {
			res.Error = err.Error()
		}
		x.Send(res.Frame())
	})
}
