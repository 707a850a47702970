// Package spawn serves what ranks ask for with MPI_Comm_spawn. It keeps the requests in a queue and says what the run
// is to do next for the first of them. PURE.
//
//	Add ─▶ queued ─▶ first ──Read──▶ waits for files ──HostsRead─┐
//	                 ▲ │ │ └──Join──▶ waits for hosts ──Joined────┤
//	                 │ │ └────Wait──▶ waits for room ──Ended,Late─┤
//	                 └─┼──────────────────────────────────────────┘
//	                   └─▶ Start, Refuse: it leaves the queue
//
// Requests are served one after the other, so each sees the slots that those before it took.
//
// Concurrency: a Queue belongs to one goroutine, that of the run's loop. Whoever carries out an order puts what comes of it
// into the queue, and then asks for the next order until there is none.
//
// The package reads no file, reaches no host and starts no process: those are orders.
package spawn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/placement"
)

// Bounds of what ranks may ask for in one run.
const (
	maxJobs    = 4096 // at once
	maxAsks    = 256  // at once
	maxRefused = 16   // refusals that the user is told of
)

// Config is what the user allows.
type Config struct {
	Policy  placement.Policy // of the run: what a request does not say
	Files   bool             // hostfiles that ranks name are read
	PerHost int              // processes that one host can start
}

// Ask is a rank's request for another job, from the request to the job's launch.
type Ask struct {
	Host    int    // that asked
	ID      uint64 // the request's number there
	Parent  int    // id of the rank
	Request job.Spawn

	targets [][]job.Share // by program, once read
	read    bool
	wait    wait
	timed   bool // the wait for room has its end
	waited  bool // it has waited for room
	failed  error
}

// wait is what the first request waits for.
type wait int

const (
	nothing wait = iota
	files
	hosts
	room
)

// View is the run as the first request finds it.
type View struct {
	Stopping bool // the run is being stopped
	Over     bool // the rank that asked has ended
	Jobs     int  // of which something is left
	Procs    int  // that the run has had
	Spawned  bool // spawned processes run, whose slots may come free
	Sites    []placement.Site
	Reached  []bool // by site: it has a session that can take a job
	// Find is the site that a rank means by a name, -1: none.
	Find func(name string) int
}

// Action is what the run is to do.
type Action int

// The actions.
const (
	None   Action = iota
	Read          // the hosts of the programs, with their files: HostsRead tells
	Join          // reach Strangers and Sites: Joined tells
	Wait          // for room: Ended tells, or Late
	Start         // Plan, on Sites
	Refuse        // because of Why
)

// Order is what is to be done for a request.
type Order struct {
	Do        Action
	Ask       *Ask
	Strangers []string  // hosts by name that the run does not know
	Sites     []int     // those to be reached, or those of Plan's hosts
	Plan      *job.Plan // without CPUs
	Why       error
}

// Queue is the requests of a run; the first is being served.
type Queue struct {
	cfg     Config
	asks    []*Ask
	refused int
}

// New is a queue without requests.
func New(cfg Config) *Queue { return &Queue{cfg: cfg} }

// Add takes a request. One that is refused at once has an error.
func (q *Queue) Add(a *Ask) error {
	if err := a.Request.Check(); err != nil {
		return err
	}
	if len(q.asks) >= maxAsks {
		return fmt.Errorf("%d other spawns wait already", len(q.asks))
	}
	q.asks = append(q.asks, a)
	return nil
}

// HostsRead brings the hosts of the first request, by program, or why they cannot be read.
func (q *Queue) HostsRead(targets [][]job.Share, err error) {
	a := q.asks[0]
	a.targets, a.read, a.failed, a.wait = targets, true, err, nothing
}

// Joined says that hosts were reached for the first request, or why not.
func (q *Queue) Joined(err error) { q.asks[0].failed, q.asks[0].wait = err, nothing }

// Ended says that a process has ended, which may make room.
func (q *Queue) Ended() {
	if len(q.asks) > 0 && q.asks[0].wait == room {
		q.asks[0].wait = nothing
	}
}

// Late says that the wait for room is over.
func (q *Queue) Late() {
	if len(q.asks) > 0 && q.asks[0].wait == room {
		q.asks[0].waited, q.asks[0].wait = true, nothing
	}
}

// Next is what to do now; look is asked for the run as the rank that asked finds it, if that matters.
func (q *Queue) Next(look func(parent int) View) Order {
	if len(q.asks) == 0 || q.asks[0].wait != nothing {
		return Order{}
	}
	a := q.asks[0]
	o := q.next(a, look(a.Parent))
	o.Ask = a
	if o.Why != nil {
		o.Do = Refuse
	}
	if o.Do == Start || o.Do == Refuse {
		q.asks = q.asks[1:]
	}
	return o
}

// next takes the first request as far as it gets. An order with Why is a refusal.
func (q *Queue) next(a *Ask, v View) Order {
	if err := q.possible(a, v); err != nil {
		return Order{Why: err}
	}
	if !a.read {
		if a.OfFiles() {
			a.wait = files
			return Order{Do: Read}
		}
		var err error
		if a.targets, err = Targets(a.Request.Programs, nil); err != nil {
			return Order{Why: err}
		}
		a.read = true
	}
	batches, strangers, err := a.batches(v)
	switch {
	case err != nil:
		return Order{Why: err}
	case len(strangers) > 0:
		a.wait = hosts
		return Order{Do: Join, Strangers: strangers[:min(len(strangers), a.procs())]}
	}
	plan, used, err := placement.Spawn(v.Sites, batches, q.cfg.Policy)
	if err == nil {
		err = placement.Startable(plan, q.cfg.PerHost)
	}
	if err != nil {
		return a.cramped(v, err)
	}
	a.timed = false
	var far []int
	for _, i := range used {
		if !v.Reached[i] {
			far = append(far, i)
		}
	}
	if len(far) > 0 {
		a.wait = hosts
		return Order{Do: Join, Sites: far}
	}
	return Order{Do: Start, Plan: plan, Sites: used}
}

// possible says what rules a request out, wherever it is to run.
func (q *Queue) possible(a *Ask, v View) error {
	switch {
	case a.failed != nil:
		return a.failed
	case v.Stopping:
		return errors.New("the run is being stopped")
	case v.Over:
		return errors.New("the rank that asked has ended")
	case v.Jobs >= maxJobs:
		return fmt.Errorf("the run has %d jobs, the most there can be", v.Jobs)
	case v.Procs+a.procs() > placement.MaxRanks:
		return fmt.Errorf("the run has had %d processes; %d are possible", v.Procs, placement.MaxRanks)
	case a.OfFiles() && !q.cfg.Files:
		return errors.New("the launcher reads no hostfiles for ranks; the user allows those of a directory with --spawn-hostfiles or MPIUP_SPAWN_HOSTFILES")
	}
	return nil
}

// cramped has a request that finds no room wait for it, once, while spawned processes run. Slots are free when
// processes have ended, a little after they have disconnected from their parents. Without the pause a rank that
// spawns again at once would be refused.
func (a *Ask) cramped(v View, why error) Order {
	switch {
	case a.waited || !v.Spawned:
		return Order{Why: why}
	case a.timed:
		a.wait = room
		return Order{}
	}
	a.wait, a.timed = room, true
	return Order{Do: Wait}
}

func (a *Ask) procs() (n int) {
	for _, p := range a.Request.Programs {
		n += p.Procs
	}
	return n
}

// batches is the request as placement takes it; strangers are hosts it names that the run does not know.
func (a *Ask) batches(v View) (batches []placement.Batch, strangers []string, err error) {
	known := map[string]bool{}
	for i, p := range a.Request.Programs {
		b := placement.Batch{Name: p.Argv[0], Procs: p.Procs, PerHost: p.PerHost}
		if err := mapBy(&b, p.MapBy); err != nil {
			return nil, nil, err
		}
		for _, t := range a.targets[i] {
			if s := v.Find(t.Host); s >= 0 {
				b.On = append(b.On, placement.Share{Site: s, Slots: t.Slots})
			} else if key := strings.ToLower(t.Host); !known[key] {
				known[key] = true
				strangers = append(strangers, t.Host)
			}
		}
		batches = append(batches, b)
	}
	return batches, strangers, nil
}

// Refused is what is said of a request that comes to nothing: to the rank, and to the user, who knows the rank as who.
// The rank may name a file that it cannot read itself: what is in it, and so which hosts it names, is told the user only.
func (q *Queue) Refused(a *Ask, who string, why error) (rank string, user []string) {
	rank = why.Error()
	if q.cfg.Files && a.OfFiles() {
		rank = "the hosts of its hostfile could not be used; the launcher has told the user why"
	}
	if q.refused++; q.refused > maxRefused {
		return rank, nil
	}
	program := "a program"
	if ps := a.Request.Programs; len(ps) > 0 && len(ps[0].Argv) > 0 {
		program = fmt.Sprintf("%.200s", ps[0].Argv[0])
	}
	user = []string{fmt.Sprintf("%s could not spawn %s: %v", who, program, why)}
	if q.refused == maxRefused {
		user = append(user, "further spawns that fail are not told of")
	}
	return rank, user
}
