package session

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

// jobLaunch is a job whose ranks are all on this host, running a shell script.
func jobLaunch(job, base, size uint32, script string) *apiv1.Launch {
	l := &apiv1.Launch{Job: &apiv1.Job{Id: "job", Number: job, Base: base, Size: size, Spawned: job > 0, Window: 64 << 10, GraceMs: 2000}, Number: 1, Apps: []*apiv1.App{{Argv: []string{"sh", "-c", script}}}}
	for r := range size {
		l.Procs = append(l.Procs, &apiv1.Proc{Rank: r, LocalRank: r})
	}
	return l
}

// elsewhere is a job without ranks on this host.
func elsewhere(job, base, size uint32) *apiv1.Launch {
	return &apiv1.Launch{Job: &apiv1.Job{Number: job, Base: base, Size: size, Spawned: job > 0}, Number: 1}
}

func (c *client) start(l *apiv1.Launch) {
	c.t.Helper()
	c.send(l.Frame())
}

// session is the agent's side of the client's.
func (c *client) session() *session {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	return c.table.open[c.open.Session]
}

// times collects frames until n of them satisfied done.
func (c *client) times(n int, done func(*apiv1.Frame) bool) (seen []*apiv1.Frame) {
	c.t.Helper()
	for range n {
		seen = append(seen, c.until(done)...)
	}
	return seen
}

func TestTwoJobsOfASession(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	c.start(jobLaunch(0, 0, 2, `sleep 1000`))
	c.times(2, started)
	c.start(jobLaunch(1, 2, 2, `echo "$MPIUP_RANK/$MPIUP_SIZE $PMI_RANK $PMI_SPAWNED"; exec sleep 1000`))
	seen := c.times(2, func(f *apiv1.Frame) bool { return f.GetOutput() != nil })
	said := map[uint32]string{}
	for _, f := range seen {
		if o := f.GetOutput(); o != nil {
			said[o.Rank] = string(o.Data)
		}
	}
	if said[2] != "0/2 0 1\n" || said[3] != "1/2 1 1\n" {
		t.Errorf("output by id: %v", said)
	}
	c.send((&apiv1.Signal{Number: int32(syscall.SIGUSR1), Ranks: []uint32{3, 77}}).Frame())
	if x := exitOf(c.until(exited)); x.Rank != 3 || x.Signal != int32(syscall.SIGUSR1) {
		t.Errorf("exit %v", x)
	}
	c.send((&apiv1.Stop{Why: "test"}).Frame())
	var ended []uint32
	for _, f := range c.times(3, exited) {
		if x := f.GetExited(); x != nil {
			ended = append(ended, x.Rank)
			if !x.StoppedByUs {
				t.Errorf("exit %v", x)
			}
		}
	}
	if slices.Sort(ended); !slices.Equal(ended, []uint32{0, 1, 2}) {
		t.Errorf("a stop ended %v", ended)
	}
	c.start(jobLaunch(2, 4, 1, "exit 0"))
	c.send((&apiv1.Bye{}).Frame())
	if slices.ContainsFunc(c.until(isClosed), started) {
		t.Error("a job was started after the stop")
	}
}

func TestFetchBeforeTheRanksStart(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	c.start(elsewhere(0, 0, 4))
	part := jobLaunch(1, 4, 3, "exit 0")
	part.Procs = part.Procs[1:2]
	c.start(part)
	ask := func(r *apiv1.FetchRequest) {
		c.send(r.Frame())
	}
	ask(&apiv1.FetchRequest{Id: 1, Owner: 5, Key: "k", Wait: true}) // until the rank is gone
	ask(&apiv1.FetchRequest{Id: 2, Owner: 99, Key: "k", Wait: true})
	ask(&apiv1.FetchRequest{Id: 3, Owner: 4, Key: "k", Wait: true})
	ask(&apiv1.FetchRequest{Id: 4, AnyOwner: true, Job: 7, Key: "k"})
	answers := map[uint64]*apiv1.FetchResult{}
	for _, f := range c.times(4, func(f *apiv1.Frame) bool { return f.GetFetchResult() != nil }) {
		if r := f.GetFetchResult(); r != nil {
			answers[r.Id] = r
		}
	}
	if r := answers[1]; r == nil || r.Found || r.Error != "" {
		t.Errorf("of a rank that has ended: %v", r)
	}
	if r := answers[3]; r == nil || !strings.Contains(r.Error, "not on this host") {
		t.Errorf("of a rank of another host: %v", r)
	}
	for _, id := range []uint64{2, 4} {
		if r := answers[id]; r == nil || r.Found {
			t.Errorf("of no job: %v", r)
		}
	}
}

// TestJobThatIsOver: it is let go once its output is out, and its number and ids with it.
func TestJobThatIsOver(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	first := elsewhere(0, 0, 2)
	first.Job.Namespace, first.Job.Layout = "ns-0", []*apiv1.HostRanks{{Name: "w1", Ranks: "0-1"}}
	c.start(first)
	for range 2 {
		c.start(pmixLaunch(1, 2, 1, "echo out"))
		c.until(outputEnd)
		for range 2 {
			c.send((&apiv1.JobOver{Job: 1, Mute: true}).Frame())
		}
		s, late := c.session(), time.Now().Add(time.Minute)
		for s.jobs.Number(1) != nil {
			if runtime.Gosched(); time.Now().After(late) {
				t.Fatal("the job stays")
			}
		}
	}
	c.send((&apiv1.JobOver{Job: 0}).Frame())
	c.send((&apiv1.JobOver{Job: 7}).Frame())
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
}

func TestSpawnAsksTheLauncher(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	c.start(elsewhere(0, 0, 4))
	c.start(jobLaunch(1, 4, 2, "sleep 1000"))
	c.times(2, started)
	s := c.session()
	request := job.Spawn{Parent: 1, Preput: []job.Pair{{Key: "port", Value: []byte("p")}},
		Programs: []job.SpawnProgram{{Argv: []string{"worker", "-v"}, Procs: 3, Dir: "/w", Hosts: []string{"a:2"}}}}
	type result struct {
		job int
		err error
	}
	got := make(chan result, 1)
	begin := func() *apiv1.SpawnRequest {
		c.wg.Go(func() {
			job, err := s.exchange.Spawn(context.Background(), 1, request)
			got <- result{job, err}
		})
		seen := c.until(func(f *apiv1.Frame) bool { return f.GetSpawnRequest() != nil })
		return seen[len(seen)-1].GetSpawnRequest()
	}
	answer := func(r *apiv1.SpawnResult) { c.send(r.Frame()) }

	q := begin()
	app := q.Apps[0]
	if q.Parent != 5 || app.Procs != 3 || !slices.Equal(app.App.Argv, []string{"worker", "-v"}) || !app.App.WdirExplicit ||
		!slices.Equal(app.Hosts, []string{"a:2"}) || string(q.Preput[0].Value) != "p" {
		t.Errorf("the launcher is asked %v", q)
	}
	c.start(elsewhere(2, 6, 3))
	answer(&apiv1.SpawnResult{Id: q.Id, Job: 2})
	if r := <-got; r.job != 2 || r.err != nil {
		t.Errorf("spawned %v", r)
	}
	answer(&apiv1.SpawnResult{Id: begin().Id, Error: "no room"})
	if r := <-got; r.err == nil || r.err.Error() != "no room" {
		t.Errorf("refused: %v", r)
	}
	answer(&apiv1.SpawnResult{Id: begin().Id, Job: 9}) // one that is over already
	if r := <-got; r.job != 9 || r.err != nil {
		t.Errorf("spawned %v", r)
	}
	for name, bad := range map[string]job.Spawn{
		"no program":  {},
		"no such one": {Parent: 2, Programs: request.Programs},
	} {
		if _, err := s.exchange.Spawn(context.Background(), 1, bad); err == nil {
			t.Errorf("%s: asked", name)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(fmt.Errorf("the rank has gone"))
	if _, err := s.exchange.Spawn(ctx, 1, request); err == nil || err.Error() != "the rank has gone" {
		t.Errorf("after the rank's end: %v", err)
	}
}

// A worker's log says how its ranks ended: those that failed by themselves one by one.
func TestTheLogSaysHowRanksEnd(t *testing.T) {
	var log logged
	c := newClient(t, tableWith(t, log.logger(), nil), 'a', "life")
	c.dial(false)
	c.start(jobLaunch(0, 0, 3, "[ $MPIUP_RANK != 1 ] || exit 3"))
	c.times(3, outputEnd)
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, want := range []string{`level=WARN msg="a rank failed" `, ` job=0 rank=1 pid=`, ` end="exit code 3" why=""`, `level=INFO msg="ranks ended" `, ` job=0 well=2 failed=1 stopped=0`} {
		if !strings.Contains(log.text.String(), want) {
			t.Errorf("no %s in\n%s", want, &log.text)
		}
	}
}

// Ranks that end by the signal that the launcher passed on to them, or with a code for it, were stopped: none of them failed.
func TestTheLogSaysWhoWasStopped(t *testing.T) {
	var log logged
	c := newClient(t, tableWith(t, log.logger(), nil), 'a', "life")
	c.dial(false)
	c.start(jobLaunch(0, 0, 2, "trap 'exit 7' TERM; [ $MPIUP_RANK != 0 ] || exec sleep 60; sleep 60 & wait"))
	c.times(2, started)
	c.send((&apiv1.Signal{Number: 15, Once: true}).Frame())
	c.times(2, outputEnd)
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
	log.mu.Lock()
	defer log.mu.Unlock()
	if said := log.text.String(); strings.Contains(said, "a rank failed") || !strings.Contains(said, ` well=0 failed=0 stopped=2 why="the launcher passed a signal on"`) {
		t.Error(said)
	}
}
