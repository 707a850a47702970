package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/placement"
)

// run is one job's life here. After start, the fields below "loop" belong to the goroutine of
// loop.
type run struct {
	cfg   Config
	begun time.Time
	clock *wire.Clock
	plan  *job.Plan
	hosts []*hostConn // by node rank
	sink  *iof.Sink
	input *iof.Input // nil: nobody gets standard input
	mail  *mailbox
	back  credits

	unblock context.CancelFunc // output is waited for no longer

	// loop
	job     jobState
	ranks   []rankInfo
	started int
	active  int      // hosts whose connection has not ended
	created []int    // by host: ranks not heard of yet
	running []int    // by host: ranks that run
	outputs []int    // by host: ranks whose output has not ended
	byes    []bool   // by host: Bye was sent
	ending  []string // by host: why its agent is being ended, as it said
	noticed map[string]bool
	hub     *hub
	verdict verdict
	order   int
	signals signalState
	timers  struct{ quiet, grace, bound *time.Timer }
}

// rankInfo is what is known of one rank.
type rankInfo struct {
	state  rankState
	output bool // its output has begun and not ended
	pid    int32
}

// failure ends a command before its verdict: an exit code and what to say.
type failure struct {
	code  int
	lines []string
}

func (f *failure) Error() string { return fmt.Sprint(f.lines) }

func failf(code int, format string, args ...any) *failure {
	return &failure{code, []string{fmt.Sprintf(format, args...)}}
}

// Run starts a job, waits for its end, prints the last lines and returns the exit code of
// docs/exit-codes.md. It blocks until all it started has ended. When ctx ends, the ranks are
// stopped as by SIGTERM.
func Run(ctx context.Context, cfg Config) int {
	cfg.fill()
	r := &run{cfg: cfg, begun: time.Now(), clock: wire.NewClock(0), mail: newMailbox(), noticed: map[string]bool{}}
	r.signals.pid = os.Getpid()
	err := r.all(ctx)
	var f *failure
	if errors.As(err, &f) {
		return r.cfg.last(f.code, f.lines, nil)
	}
	cause, bad := r.verdict.cause()
	if !bad {
		return 0
	}
	var tail []string
	if r.sink != nil && (cause.kind == faultRank || cause.kind == faultAbort) {
		tail = r.sink.Tail(cause.rank)
	}
	return r.cfg.last(r.verdict.exit(), r.verdict.explain(), tail)
}

// all is the sequence: hosts, plan, launch, loop. A *failure ends it before the job has a
// verdict.
func (r *run) all(ctx context.Context) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	found, opener, err := r.gather(ctx, life)
	if err != nil {
		return err
	}
	if r.cfg.DryRun {
		closeAll(found)
		_, err := fmt.Fprint(r.cfg.Stdout, placement.Render(r.plan, r.cfg.Apps))
		return err
	}
	if err := r.prepare(found, opener); err != nil {
		closeAll(found)
		return err
	}
	parts.Go(func() { r.clock.Run(life, r.tickHosts) })
	var sinkDone sync.WaitGroup
	sinkCtx, unblock := context.WithCancel(life)
	r.unblock = unblock
	defer unblock()
	sinkDone.Go(func() { _ = r.sink.Run(sinkCtx) }) // each error came through Broken
	for _, h := range r.hosts {
		parts.Go(func() { r.mail.put(event{host: h.index, end: true, err: h.run(life), at: r.clock.Now()}) })
	}
	r.launch(number(found))
	var inputDone sync.WaitGroup
	inputCtx, endInput := context.WithCancel(life)
	defer inputDone.Wait()
	defer endInput()
	if r.input != nil {
		inputDone.Go(func() {
			if err := r.input.Run(inputCtx); err != nil {
				r.say("%v; the ranks see its end", err)
			}
		})
	}
	r.loop(ctx)
	r.job, _ = r.job.next(jobEnded)
	r.sink.Close()
	r.flush(&sinkDone)
	return nil
}

// flush waits until all output is written. A reader that does not read is waited for as by any
// program, until a second INT or TERM.
func (r *run) flush(sink *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { sink.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		case s := <-r.cfg.Signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM {
				r.unblock()
			}
		}
	}
}

// gather finds, reaches and places; r.plan stands when it returns.
func (r *run) gather(ctx, life context.Context) ([]found, *opener, error) {
	if len(r.cfg.Apps) == 0 {
		return nil, nil, failf(job.ExitUsage, "no program was given")
	}
	ctx, cancel := r.patience(ctx)
	defer cancel()
	set, err := r.cfg.find(ctx)
	if err != nil {
		return nil, nil, r.impatient(ctx, err)
	}
	want, err := r.needed(set)
	if err != nil {
		return nil, nil, err
	}
	opener := newOpener(&r.cfg.Reach)
	found, err := r.cfg.assemble(ctx, life, want, opener)
	if err != nil {
		return nil, nil, r.impatient(ctx, err)
	}
	r.move(jobGathered)
	hosts := allocation(set.hosts, found)
	r.plan, err = placement.Place(hosts, r.cfg.Apps, r.cfg.Policy)
	if err != nil {
		closeAll(found)
		return nil, nil, failf(job.ExitUsage, "%v", err)
	}
	for _, w := range r.plan.Warnings {
		r.say("%s", w)
	}
	r.move(jobPlaced)
	return found, opener, nil
}

// needed are the hosts that get ranks. Where all slots were given, that is known before any
// host is asked; and so is a plan that cannot be.
func (r *run) needed(set *hostSet) ([]wanted, error) {
	for _, w := range set.hosts {
		if !w.entry.Given {
			return set.hosts, nil
		}
	}
	plan, err := placement.Place(allocation(set.hosts, nil), r.cfg.Apps, r.cfg.Policy)
	if err != nil {
		return nil, failf(job.ExitUsage, "%v", err)
	}
	ranked := map[string]bool{}
	for _, h := range plan.Hosts {
		ranked[h.Name] = true
	}
	var want []wanted
	for _, w := range set.hosts {
		if ranked[w.entry.Name] {
			want = append(want, w)
		}
	}
	return want, nil
}

// allocation is the hosts as placement takes them; agents' own counts are taken where no slots
// were given.
func allocation(want []wanted, have []found) []job.Host {
	agents := map[string]*apiv1.HelloReply{}
	for _, f := range have {
		agents[f.entry.Name] = f.session.opened.Host
	}
	hosts := make([]job.Host, len(want))
	for i, w := range want {
		h := job.Host{Name: w.entry.Name, Slots: w.entry.Slots, SlotsGiven: w.entry.Given}
		if a := agents[w.entry.Name]; a != nil {
			h.CPUs = int(a.Cpus)
			if !h.SlotsGiven {
				h.Slots = max(int(a.Slots), 1)
			}
		}
		hosts[i] = h
	}
	return hosts
}

// number is this incarnation's fencing number: the one it has, or the next after all that any
// reached agent knows.
func number(hosts []found) uint64 {
	var own, highest uint64
	for _, h := range hosts {
		own = max(own, h.session.opened.OwnNumber)
		highest = max(highest, h.session.opened.HighestNumber)
	}
	if own > 0 {
		return own
	}
	return highest + 1
}

func closeAll(hosts []found) {
	for _, h := range hosts {
		if h.session != nil {
			h.session.close()
		}
		if h.wait != nil {
			h.wait()
		}
	}
}

// say prints one line of mpiup's own.
func (r *run) say(format string, args ...any) { r.cfg.say(format, args...) }

func (r *Reach) say(format string, args ...any) {
	fmt.Fprintf(r.Stderr, "mpiup: %s\n", fmt.Sprintf(format, args...))
}

// sentence is the cause as it stands.
func (r *run) sentence() string {
	if f, ok := r.verdict.cause(); ok {
		return f.sentence()
	}
	return "as mpiup was told"
}
