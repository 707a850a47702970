package exchange

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/kvs"
)

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
		switch {
		case len(b.AskWaits.Files) > 0:
			return x.askFiles(b.AskWaits)
		case b.AskWaits.Stacks != "":
			return x.askStacks(b.AskWaits)
		case b.AskWaits.Flight:
			x.askDumps(b.AskWaits.Id)
		default:
			x.answerWaits(b.AskWaits.Id, time.Now())
		}
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

// maxWaits bounds the barriers that a launcher is told of at once.
const maxWaits = 16

// Look tells the launcher when ranks here have waited long in a barrier; it is called with every step of the clock.
// Barriers of processes of several jobs (MPI_Comm_connect) are not looked at.
func (x *Exchange) Look(now time.Duration) {
	x.mu.Lock()
	due := x.stalls.Due(now)
	x.mu.Unlock()
	if !due {
		return
	}
	if w, news := x.waits(now); news {
		x.Send(w.Frame())
	}
}

// answerWaits tells the launcher who waits and who is silent here, which it asked at a time.
func (x *Exchange) answerWaits(id uint64, asked time.Time) {
	w, _ := x.waits(x.cfg.Clock.Now())
	w.Id, w.AskedNs, w.AnsweredNs = id, asked.UnixNano(), time.Now().UnixNano()
	x.Send(w.Frame())
}

// DumpTime is for what processes write when they are asked for their flight recorders. torch looks once a second.
const DumpTime = 3 * time.Second

// askDumps lets all processes here write what their flight recorders have, and then answers.
func (x *Exchange) askDumps(id uint64) {
	asked := time.Now()
	x.cfg.Go(func() {
		ctx, cancel := awake.Within(x.cfg.Serving, DumpTime)
		defer cancel()
		var all sync.WaitGroup
		for _, st := range x.Jobs.All() {
			all.Go(func() { _ = st.AskDumps(ctx) })
			all.Go(func() { x.askRAS(ctx, st) })
		}
		all.Wait()
		x.answerWaits(id, asked)
	})
}

// askStacks looks where processes here are, and then answers. An error is a question that no launcher asks.
func (x *Exchange) askStacks(q *apiv1.AskWaits) error {
	wanted, err := idset.Within(q.Stacks, maxIDs)
	if err != nil {
		return fmt.Errorf("stacks of %.80q: %w", q.Stacks, err)
	}
	x.cfg.Go(func() {
		within := StackTime
		if q.WithinMs > 0 {
			within = min(within, time.Duration(q.WithinMs)*time.Millisecond)
		}
		ctx, cancel := awake.Within(x.cfg.Serving, within)
		defer cancel()
		told, notes := x.stacksOf(ctx, wanted)
		w, _ := x.waits(x.cfg.Clock.Now())
		w.Id, w.Stacks, w.Notes = q.Id, told, notes
		x.Send(w.Frame())
	})
	return nil
}

// Bounds of a question for files.
const (
	maxFiles = 4
	maxPath  = 4096 // PATH_MAX
)

// askFiles says which of some files are here, where a rank elsewhere has missed them. An error is a question that no launcher asks.
func (x *Exchange) askFiles(q *apiv1.AskWaits) error {
	if len(q.Files) > maxFiles {
		return fmt.Errorf("a question for %d files; %d are possible", len(q.Files), maxFiles)
	}
	for _, path := range q.Files {
		if !filepath.IsAbs(path) || len(path) > maxPath || strings.Contains(path, "\x00") {
			return fmt.Errorf("a question for %.80q, which is no absolute path", path)
		}
	}
	x.cfg.Go(func() {
		w := &apiv1.Waits{Id: q.Id}
		for _, path := range q.Files {
			is := apiv1.Presence_PRESENCE_UNKNOWN
			switch there, err := host.Exists(path); {
			case err == nil && there:
				is = apiv1.Presence_PRESENCE_THERE
			case err == nil:
				is = apiv1.Presence_PRESENCE_ABSENT
			}
			w.Files = append(w.Files, is)
		}
		x.Send(w.Frame())
	})
	return nil
}

// askRAS asks NCCL's own service, where a job's programs have one, and shows what it says: never more than that.
func (x *Exchange) askRAS(ctx context.Context, st *ranks.Job) {
	at, ok := st.RAS()
	if !ok {
		return
	}
	lines, err := look.AskRAS(ctx, at, func(c net.Conn) error {
		_, err := x.MaySpeak(ctx, nil, c)
		return err
	})
	if err != nil {
		x.Log.Debug("NCCL's RAS service", "at", at, "cause", err)
	}
	for _, l := range lines {
		x.Notice(true, "NCCL's RAS service, which is not always right, says: %s", l)
	}
}

// waits is this host's part of who waits for whom; news: somebody has waited for long and that was not
// said yet.
func (x *Exchange) waits(now time.Duration) (w *apiv1.Waits, news bool) {
	w, open := x.open()
	x.mu.Lock()
	defer x.mu.Unlock()
	ages, news := x.stalls.Look(now, open)
	setAges(w, ages)
	return w, news
}

// Waits answers who is no launcher. It tells of the barriers whose numbers still accepts, or of all where still is nil, and their numbers.
func (x *Exchange) Waits(still func(number uint64) bool) (w *apiv1.Waits, open []uint64) {
	w, open = x.open()
	x.mu.Lock()
	setAges(w, x.stalls.Ages(x.cfg.Clock.Now(), open))
	x.mu.Unlock()
	if still == nil {
		return w, open
	}
	w.Waits = slices.Collect(func(yield func(*apiv1.Wait) bool) {
		for i, n := range open {
			if still(n) && !yield(w.Waits[i]) {
				return
			}
		}
	})
	return w, slices.DeleteFunc(open, func(n uint64) bool { return !still(n) })
}

// open is who has not called MPI_Init here, and the barriers that are open now with their numbers.
func (x *Exchange) open() (w *apiv1.Waits, numbers []uint64) {
	w = &apiv1.Waits{}
	var silent idset.Set
	for _, st := range x.Jobs.All() {
		if !st.Served() {
			continue
		}
		for _, p := range st.All() {
			if p.Silent() {
				silent.Add(int(p.ID))
			}
		}
	}
	for _, b := range x.Engine.Waits(maxWaits) {
		numbers = append(numbers, b.Number)
		w.Waits = append(w.Waits, &apiv1.Wait{Set: b.Set, Entered: b.Entered.String(), Absent: b.Absent.String()})
	}
	w.Silent = silent.String()
	return w, numbers
}

func setAges(w *apiv1.Waits, ages []time.Duration) {
	for i, age := range ages {
		w.Waits[i].Seconds = uint32(age / time.Second)
	}
}
