package pmix_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// A job that ends without a word is answered for at the port where its parent waits: what comes to
// connect with it fails at once. The end may be known before the spawn is answered.
func TestSpawnOfWhatNeverCalls(t *testing.T) {
	for name, want := range map[string]string{"ompi": "4294901760.0:mpiup-refused", "ompi5": "mpiup-refused.0"} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, early %v", name, early), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var m *multi
					m = newMulti(t, 1, func(cfg *pmix.Config) {
						cfg.Spawn = func(context.Context, int, job.Spawn) (int, error) {
							m.add([]int{0})
							if early {
								m.servers[0].JobOver(1, true)
							}
							return 1, nil
						}
					})
					defer m.stop()
					m.add([]int{0, 1})
					c := m.connect(0, 0)
					defer c.nc.Close()
					child := bfrops.App{Cmd: "true", Argv: []string{"true"}, Env: []string{"OMPI_PARENT_PORT=p"}, MaxProcs: 1}
					if st := c.ask(101, cmdSpawn, spawning([]bfrops.Info{text("pmix.pers", name)}, child)); st != 0 {
						t.Fatal(st)
					}
					c.send(102, request(cmdLookup, looking([]bfrops.Info{yes("pmix.wait")}, "p:connect")))
					synctest.Wait()
					m.servers[0].JobOver(1, true)
					r := c.receive(102)
					if st := bfrops.One[int64](r, bfrops.Status); st != 0 {
						t.Fatal(st)
					}
					if found := bfrops.Counted[bfrops.PData](r, bfrops.PDataType); len(found) != 1 || found[0].Value.Text() != want {
						t.Errorf("found %v", found)
					}
					none := bfrops.Proc{Namespace: "mpiup-refused"}
					if st := c.ask(103, cmdConnect, list(m.proc(0, bfrops.RankWildcard), none)); st != -43 {
						t.Errorf("connect: status %d", st)
					}
					if say := "0 says mpiup: MPI_Comm_spawn of true by rank 0: it has ended without MPI_Init\n"; len(m.events) != 1 || m.events[0] != say {
						t.Errorf("told %q", m.events)
					}
				})
			})
		}
	}
}

// What a job that is over has left can be asked for a while, by those who know it, and nothing of it
// stays; a run may have many thousands.
func TestJobsThatAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 1, nil)
		defer m.stop()
		m.add([]int{0})
		c := m.connect(0, 0)
		defer c.nc.Close()
		const jobs = 70
		for i := 1; i <= jobs; i++ {
			m.add([]int{0})
			child := m.connect(i, 0)
			if st := child.ask(101, cmdPublish, publishing("name", "of the job")); st != 0 {
				t.Fatalf("job %d publishes: status %d", i, st)
			}
			if st := c.ask(101, cmdLookup, looking(nil, "name")); st != 0 {
				t.Errorf("name of job %d: status %d", i, st)
			}
			c.send(102, request(cmdConnect, list(m.proc(0, 0), m.proc(i, 0))))
			if st := child.ask(102, cmdConnect, list(m.proc(i, 0), m.proc(0, 0))); st != 0 {
				t.Fatalf("job %d connects: status %d", i, st)
			}
			if st := bfrops.One[int64](c.receive(102), bfrops.Status); st != 0 {
				t.Fatal(st)
			}
			child.nc.Close()
			m.star.jobs[i].spaces[0].RankGone(0, "ended")
			m.servers[0].JobOver(i, false)
			synctest.Wait()
			if st := c.ask(103, cmdLookup, looking(nil, "name")); st != -46 {
				t.Errorf("name of job %d after its end: status %d", i, st)
			}
		}
		for job, want := range map[int]time.Duration{1: 10 * time.Second, jobs: 0} {
			begin := time.Now()
			c.send(104, request(cmdGet, getting(m.proc(job, bfrops.RankWildcard), "pmix.job.size")))
			st, _, values := c.values(104)
			if took := time.Since(begin); took != want || (st == 0) != (want == 0) || want == 0 && values["pmix.job.size"].Data != uint64(1) {
				t.Errorf("job %d: status %d, %v after %v", job, st, values, took)
			}
		}
		if st := c.ask(105, cmdGet, getting(m.proc(jobs, 0), "key")); st != -46 {
			t.Errorf("a value: status %d", st)
		}
		h := good(0)
		h.Namespace = m.jobs[jobs].Namespace
		nc := m.pipes[0].dial(t)
		nc.SetDeadline(time.Now().Add(time.Hour))
		if _, err := nc.Write(hello(h)); err == nil {
			if n, err := nc.Read(make([]byte, 1)); err == nil {
				t.Errorf("a process of a job that is over gets an answer of %d bytes", n)
			}
		}
		nc.Close()
		m.errs = nil
	})
}
