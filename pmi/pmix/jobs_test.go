package pmix_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
)

const (
	cmdAbort, cmdCommit, cmdFence, cmdGet = 1, 2, 3, 4
	cmdConnect, cmdDisconnect             = 10, 11
)

// Ranks of two jobs on two hosts connect, each listing the others in its own order, and are told
// about the other job; then they take leave.
func TestConnectOverJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 2, nil)
		defer m.stop()
		m.add([]int{0}, []int{1})
		m.add([]int{0}, []int{1})
		a, b := m.proc(0, bfrops.RankWildcard), m.proc(1, bfrops.RankWildcard)
		lists := []func(*bfrops.Writer){list(a, b), list(b, a), list(m.proc(1, 1), m.proc(1, 0), m.proc(0, 0), m.proc(0, 1)), list(b, m.proc(0, 1), m.proc(0, 0))}
		var clients []*raw
		for i, l := range lists {
			c := m.connect(i/2, i%2)
			defer c.nc.Close()
			clients = append(clients, c)
			c.send(101, request(cmdConnect, l))
		}
		for i, c := range clients {
			r := c.receive(101)
			if st := bfrops.One[int64](r, bfrops.Status); st != 0 {
				t.Fatalf("client %d: status %d", i, st)
			}
			about := r.Sub(bfrops.Buffer{Data: bfrops.One[[]byte](r, bfrops.ByteObject)})
			if name := bfrops.One[string](about, bfrops.String); name != m.jobs[1-i/2].Namespace || r.More() {
				t.Errorf("client %d is told of %q, %v", i, name, r.Err())
			}
			keys := map[string]int{}
			for about.More() {
				keys[bfrops.One[bfrops.KVal](about, bfrops.KValType).Key]++
			}
			if about.Err() != nil || keys["pmix.pblob"] != 2 || keys["pmix.node.arr"] != 2 || keys["pmix.parent"] != 1-i/2 {
				t.Errorf("client %d is told %v, %v", i, keys, about.Err())
			}
		}
		for i, c := range clients {
			c.send(102, request(cmdDisconnect, lists[3-i]))
		}
		for i, c := range clients {
			if st := bfrops.One[int64](c.receive(102), bfrops.Status); st != 0 {
				t.Errorf("client %d disconnects: status %d", i, st)
			}
		}
	})
}

// A fence of some ranks of two jobs needs those and no others.
func TestFenceOverJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 3, nil)
		defer m.stop()
		m.add([]int{0, 1}, []int{2}, nil)
		m.add([]int{0}, nil, []int{1})
		few := list(m.proc(0, 2), m.proc(1, 0))
		x, y := m.connect(0, 2), m.connect(1, 0)
		defer x.nc.Close()
		defer y.nc.Close()
		for range 3 { // one after the other
			x.send(101, request(cmdFence, few))
			y.send(101, request(cmdFence, few))
			for _, c := range []*raw{x, y} {
				if st := bfrops.One[int64](c.receive(101), bfrops.Status); st != 0 {
					t.Error(st)
				}
			}
		}
		stranger := m.connect(1, 1)
		defer stranger.nc.Close()
		if st := stranger.ask(101, cmdFence, few); st != -27 {
			t.Errorf("a rank that is not in it: %d", st)
		}
	})
}

func TestGetOfAnotherJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 2, nil)
		defer m.stop()
		m.add([]int{0}, nil)
		m.add([]int{0}, []int{1})
		c, near, far := m.connect(0, 0), m.connect(1, 0), m.connect(1, 1)
		for _, r := range []*raw{c, near, far} {
			defer r.nc.Close()
		}
		c.send(101, request(cmdGet, getting(m.proc(1, bfrops.RankWildcard), "pmix.job.size")))
		st, of, values := c.values(101)
		if st != 0 || of != m.proc(1, bfrops.RankWildcard) || values["pmix.job.size"].Data != uint64(2) || values["pmix.pdata"].Type != bfrops.DataArray {
			t.Errorf("the job: %d, %v, %v", st, of, values)
		}
		c.send(102, request(cmdGet, getting(m.proc(1, 1), "pmix.hname")))
		if st, of, values := c.values(102); st != 0 || of != m.proc(1, 1) || values["pmix.hname"].Text() != "w1" {
			t.Errorf("a rank: %d, %v, %v", st, of, values)
		}
		// What ranks put, from this host and from the other; asked for before it is there.
		c.send(103, request(cmdGet, getting(m.proc(1, 0), "key")))
		c.send(104, request(cmdGet, getting(m.proc(1, 1), "key")))
		synctest.Wait()
		for value, peer := range map[string]*raw{"near": near, "far": far} {
			if st := peer.ask(101, cmdCommit, committing("key", value)); st != 0 {
				t.Fatal(st)
			}
			tag := map[string]uint32{"near": 103, "far": 104}[value]
			if st, _, values := c.values(tag); st != 0 || values["key"].Text() != value {
				t.Errorf("%s: %d, %v", value, st, values)
			}
		}
		// Of whoever has it.
		c.send(105, request(cmdGet, getting(m.proc(1, bfrops.RankUndef), "key")))
		if st, of, _ := c.values(105); st != 0 || of != m.proc(1, 0) {
			t.Errorf("of any rank: %d, %v", st, of)
		}
		if st := c.ask(106, cmdGet, getting(m.proc(1, 2), "key")); st != -46 {
			t.Errorf("of no rank: %d", st)
		}
	})
}

// Who goes before a barrier over jobs, or while others are in it, fails it for all.
func TestBarrierOverJobsWithARankThatIsGone(t *testing.T) {
	for _, when := range []string{"before", "meanwhile"} {
		for _, where := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				m := newMulti(t, 2, nil)
				defer m.stop()
				m.add([]int{0}, nil)
				m.add([]int{0}, []int{1})
				c, other := m.connect(0, 0), m.connect(1, 1-where)
				defer c.nc.Close()
				defer other.nc.Close()
				all := list(m.proc(0, 0), m.proc(1, bfrops.RankWildcard))
				leave := func() {
					m.star.jobs[1].spaces[where].RankGone(where, "ended")
					m.star.leave(1+where, "ended")
				}
				if when == "before" {
					leave()
				}
				c.send(101, request(cmdConnect, all))
				other.send(101, request(cmdConnect, all))
				synctest.Wait()
				if when == "meanwhile" {
					leave()
				}
				synctest.Wait()
				var gone *kvs.GoneError
				if err := m.err(); !errors.As(err, &gone) || gone.Gone[0] != 1+where || gone.Set != "0-2" {
					t.Errorf("%s on host %d: %v", when, where, err)
				}
			})
		}
	}
}

// The launcher may have told another host of a job first.
func TestNamespaceThatIsNotKnownYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 1, nil)
		defer m.stop()
		m.add([]int{0})
		_, add := m.job([]int{0})
		c := m.connect(0, 0)
		defer c.nc.Close()
		ask := getting(m.proc(1, bfrops.RankWildcard), "")
		begin := time.Now()
		if st := c.ask(101, cmdGet, ask); st != -46 || time.Since(begin) != 10*time.Second {
			t.Errorf("status %d after %v", st, time.Since(begin))
		}
		begin = time.Now()
		now := getting(m.proc(1, 0), "", bfrops.Info{Key: "pmix.immediate", Value: bfrops.Value{Type: bfrops.Bool, Data: true}})
		if st := c.ask(102, cmdGet, now); st != -46 || time.Since(begin) != 0 {
			t.Errorf("at once: status %d after %v", st, time.Since(begin))
		}
		c.send(103, request(cmdGet, ask))
		c.send(104, request(cmdConnect, list(m.proc(0, 0), m.proc(1, 0))))
		synctest.Wait()
		add(0)
		if st, of, _ := c.values(103); st != 0 || of != m.proc(1, bfrops.RankWildcard) {
			t.Errorf("status %d of %v", st, of)
		}
		child := m.connect(1, 0)
		defer child.nc.Close()
		if st := child.ask(101, cmdConnect, list(m.proc(1, 0), m.proc(0, 0))); st != 0 {
			t.Errorf("the child: %d", st)
		}
		if st := bfrops.One[int64](c.receive(104), bfrops.Status); st != 0 {
			t.Errorf("the parent: %d", st)
		}
	})
}

func TestAbortTargets(t *testing.T) {
	m := newMulti(t, 1, nil)
	defer m.stop()
	m.add([]int{0, 1})
	m.add([]int{0, 1, 2})
	for _, tt := range []struct {
		want  string
		procs []bfrops.Proc
	}{
		{"abort by 2: 7 of []", nil},
		{"abort by 2: 7 of []", []bfrops.Proc{m.proc(1, bfrops.RankWildcard)}},
		{"abort by 2: 7 of [2]", []bfrops.Proc{m.proc(1, 0)}},
		{"abort by 2: 7 of [0 1 3]", []bfrops.Proc{m.proc(1, 1), m.proc(0, bfrops.RankWildcard)}},
	} {
		c := m.connect(1, 0)
		st := c.ask(101, cmdAbort, func(w *bfrops.Writer) {
			w.Status(7)
			w.Group(bfrops.String, nil)
			bfrops.PutCounted(w, bfrops.ProcType, tt.procs)
		})
		if st != 0 || m.events[len(m.events)-1] != tt.want {
			t.Errorf("%v: status %d, %q, want %q", tt.procs, st, m.events, tt.want)
		}
		c.nc.Close()
	}
}

func aborting(code int) []byte {
	return request(cmdAbort, func(w *bfrops.Writer) {
		w.Status(code)
		w.Group(bfrops.String, nil)
		bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc(nil))
	})
}

// A rank that aborts ends once it is answered, and ranks elsewhere abort when their connections to it
// break. What the first says is slow to be heard, and is heard first all the same.
func TestAnAbortIsHeardBeforeWhatFollowsFromIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan struct{})
		var order []int
		m := newMulti(t, 2, func(cfg *pmix.Config) {
			cfg.Hooks.OnAbort = func(_ context.Context, _, code int, _ string, _ []int) {
				if code == 42 {
					<-heard
				}
				order = append(order, code)
			}
		})
		defer m.stop()
		m.add([]int{0}, []int{1})
		first, second := m.connect(0, 0), m.connect(0, 1)
		defer first.nc.Close()
		defer second.nc.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			first.receive(101)
			second.send(101, aborting(14))
			second.receive(101)
		}()
		first.send(101, aborting(42))
		synctest.Wait() // the other rank would abort now
		close(heard)
		<-done
		if !slices.Equal(order, []int{42, 14}) {
			t.Errorf("heard %v", order)
		}
	})
}

func controlling(infos []bfrops.Info, procs ...bfrops.Proc) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		bfrops.PutCounted(w, bfrops.ProcType, procs)
		w.Infos(infos)
	}
}

func TestJobControl(t *testing.T) {
	m := newMulti(t, 1, nil)
	defer m.stop()
	m.add([]int{0, 1})
	m.add([]int{0, 1, 2})
	c := m.connect(1, 0)
	defer c.nc.Close()
	signal := func(n int64) bfrops.Info {
		return bfrops.Info{Key: "pmix.jctrl.sig", Value: bfrops.Value{Type: bfrops.Int, Data: n}}
	}
	no := bfrops.Info{Key: "pmix.jctrl.kill", Value: bfrops.Value{Type: bfrops.Bool, Data: false}}
	for i, tt := range []struct {
		name  string
		info  bfrops.Info
		procs []bfrops.Proc
		st    int
		want  string // "": nothing
	}{
		{"a rank of another job", yes("pmix.jctrl.kill"), []bfrops.Proc{m.proc(0, 1)}, 0, "2 sends 9 to [1], end true"},
		{"the own job", yes("pmix.jctrl.term"), nil, 0, "2 sends 15 to [2 3 4], end true"},
		{"pause", yes("pmix.jctrl.pause"), []bfrops.Proc{m.proc(1, 1)}, 0, "2 sends 19 to [3], end false"},
		{"resume", yes("pmix.jctrl.resume"), []bfrops.Proc{m.proc(1, 1)}, 0, "2 sends 18 to [3], end false"},
		{"signal", signal(10), []bfrops.Proc{m.proc(1, 1), m.proc(0, 0)}, 0, "2 sends 10 to [0 3], end false"},
		{"no kill", no, nil, 0, ""},
		{"signal 0", signal(0), nil, -27, ""},
		{"signal 65", signal(65), nil, -27, ""},
		{"no job", yes("pmix.jctrl.kill"), []bfrops.Proc{{Namespace: "x"}}, -46, ""},
		{"no rank", yes("pmix.jctrl.kill"), []bfrops.Proc{m.proc(1, 3)}, -27, ""},
		{"checkpoint", yes("pmix.jctrl.ckptev"), nil, -47, ""},
	} {
		m.events = nil
		st := c.ask(uint32(101+i), 18, controlling([]bfrops.Info{tt.info}, tt.procs...))
		if got := strings.Join(m.events, ", "); st != tt.st || got != tt.want {
			t.Errorf("%s: status %d, %q; want %d, %q", tt.name, st, got, tt.st, tt.want)
		}
	}
}

// A barrier with a process that another has ended is answered, and nobody's failure.
func TestBarrierWithAnAbortedRank(t *testing.T) {
	for name, all := range map[string]func(m *multi) func(*bfrops.Writer){
		"one job":   func(m *multi) func(*bfrops.Writer) { return list(m.proc(0, bfrops.RankWildcard)) },
		"over jobs": func(m *multi) func(*bfrops.Writer) { return list(m.proc(0, 1), m.proc(0, 0), m.proc(1, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMulti(t, 2, nil)
				defer m.stop()
				m.add([]int{0}, []int{1})
				m.add([]int{0}, nil)
				c, ended := m.connect(0, 0), m.connect(0, 1)
				defer c.nc.Close()
				c.send(101, request(cmdFence, all(m)))
				synctest.Wait()
				for _, s := range m.servers {
					s.Aborted(idset.Of(1))
				}
				ended.nc.Close()
				m.star.leave(1, "was ended") // as the launcher hears of its end
				if st := bfrops.One[int64](c.receive(101), bfrops.Status); st != -8 {
					t.Errorf("status %d", st)
				}
				if st := c.ask(102, cmdFence, list(m.proc(0, 0))); st != 0 {
					t.Errorf("without it: status %d", st)
				}
				var gone *kvs.GoneError
				if errors.As(m.err(), &gone) {
					t.Error(gone)
				}
			})
		})
	}
}

func TestJobsThatDoNotFitTogether(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*pmix.Job)
		want  string
	}{
		"number":    {func(j *pmix.Job) { j.Space.Number = 0 }, "known already"},
		"namespace": {func(j *pmix.Job) { j.Namespace = "job0-0123456789abcdef" }, "known already"},
		"parent":    {func(j *pmix.Job) { j.SpawnedBy = &job.Process{Job: 7} }, "not known"},
		"no rank":   {func(j *pmix.Job) { j.SpawnedBy = &job.Process{Rank: 2} }, "not known"},
		"no space":  {func(j *pmix.Job) { j.Space = nil }, "without a key-value space"},
	} {
		m := newMulti(t, 1, nil)
		m.add([]int{0, 1})
		_, sj := m.star.add(t, [][]int{{0}})
		j := pmix.Job{Job: jobdata.Job{Namespace: "job1", Hosts: []jobdata.Host{{Name: "w0", Ranks: []int{0}}}}, Space: sj.spaces[0]}
		c.spoil(&j)
		if err := m.servers[0].Add(j); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		m.stop()
		if err := m.servers[0].Add(j); err == nil || !strings.Contains(err.Error(), "ended") {
			t.Errorf("%s: after the end: %v", name, err)
		}
	}
}
