package pmix_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

func within(seconds uint64) bfrops.Info {
	return bfrops.Info{Key: "pmix.timeout", Value: bfrops.Value{Type: bfrops.Uint32, Data: seconds}}
}

// A rank that has committed may commit again: who asks for a key that is not there yet, on the
// rank's host or another, gets it with a later commit, and is told after a while that there is none.
func TestGetOfAKeyThatIsCommittedLater(t *testing.T) {
	const nothing = -46
	commit := func(t *testing.T, c *raw, key string) {
		if st := c.ask(200, cmdCommit, committing(key, "value")); st != 0 {
			t.Error("commit", st)
		}
	}
	for _, c := range []struct {
		name  string
		key   string
		infos []bfrops.Info
		after time.Duration // what the owner does: commit another key, and so much later this one; 0: never
		want  int
		took  time.Duration
	}{
		{"in time", "late", nil, time.Second, 0, time.Second},
		{"too late", "late", nil, 3 * time.Second, nothing, 2 * time.Second},
		{"never", "late", nil, 0, nothing, 2 * time.Second},
		{"immediate", "late", []bfrops.Info{yes("pmix.immediate")}, time.Second, nothing, 0},
		{"timeout", "late", []bfrops.Info{within(5)}, 0, -24, 5 * time.Second},
		{"in the client's time", "late", []bfrops.Info{within(5)}, 4 * time.Second, 0, 4 * time.Second},
		{"not worth the wait", "pml.base.2.0", nil, time.Second, nothing, 0},
	} {
		for i := range 4 {
			where, rank := i%2, []uint32{0, bfrops.RankUndef}[i/2]
			t.Run(fmt.Sprintf("%s/host %d rank %d", c.name, where, int32(rank)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMulti(t, 2, nil)
					defer m.stop()
					m.add([]int{0, 1}, []int{2})
					owner, asker, other := m.connect(0, 0), m.connect(0, 1+where), m.connect(0, 2-where)
					for _, c := range []*raw{owner, asker, other} {
						defer c.nc.Close()
						commit(t, c, "first")
					}
					begin := time.Now()
					asker.send(101, request(cmdGet, getting(m.proc(0, rank), c.key, c.infos...)))
					synctest.Wait()
					commit(t, owner, "second") // is not what is waited for
					if c.after > 0 {
						time.AfterFunc(c.after, func() { commit(t, owner, c.key) })
					}
					st, of, values := asker.values(101)
					if took := time.Since(begin); st != c.want || took != c.took || st == 0 && of != m.proc(0, 0) {
						t.Errorf("status %d after %v, want %d after %v", st, took, c.want, c.took)
					}
					if c.want == 0 && (values[c.key].Text() != "value" || values["second"].Text() != "value") {
						t.Errorf("values %v", values)
					}
					time.Sleep(time.Minute) // fake: commits that come too late
				})
			})
		}
	}
}

// Who asks for a key of nobody in particular waits for ranks that have not committed at all, and no longer
// than there are such.
func TestGetOfNobodysKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 2, nil)
		defer m.stop()
		m.add([]int{0, 1}, []int{2})
		first, second, elsewhere := m.connect(0, 0), m.connect(0, 1), m.connect(0, 2)
		for _, c := range []*raw{first, second, elsewhere} {
			defer c.nc.Close()
		}
		ask := func(key string, later func()) (int, bfrops.Proc, time.Duration) {
			begin := time.Now()
			first.send(101, request(cmdGet, getting(m.proc(0, bfrops.RankUndef), key)))
			time.AfterFunc(10*time.Minute, later)
			st, of, _ := first.values(101)
			return st, of, time.Since(begin)
		}
		commit := func(c *raw, key string) {
			if st := c.ask(200, cmdCommit, committing(key, "value")); st != 0 {
				t.Error("commit", st)
			}
		}
		if st, of, took := ask("late", func() { commit(elsewhere, "late") }); st != 0 || of != m.proc(0, 2) || took != 10*time.Minute {
			t.Errorf("status %d of %v after %v", st, of, took)
		}
		commit(first, "mine")
		st, _, took := ask("never", func() { m.star.jobs[0].spaces[0].RankGone(1, "ended") })
		if st != -46 || took != 10*time.Minute {
			t.Errorf("status %d after %v", st, took)
		}
	})
}

// What waits for a rank's next commit ends with the rank.
func TestGetOfAKeyOfARankThatEnds(t *testing.T) {
	for where := range 2 {
		synctest.Test(t, func(t *testing.T) {
			m := newMulti(t, 2, nil)
			defer m.stop()
			m.add([]int{0, 1}, []int{2})
			owner, asker := m.connect(0, 0), m.connect(0, 1+where)
			defer owner.nc.Close()
			defer asker.nc.Close()
			if st := owner.ask(100, cmdCommit, committing("first", "value")); st != 0 {
				t.Fatal(st)
			}
			begin := time.Now()
			asker.send(101, request(cmdGet, getting(m.proc(0, 0), "late", within(100))))
			synctest.Wait()
			m.star.jobs[0].spaces[0].RankGone(0, "ended")
			if st, _, _ := asker.values(101); st != -46 || time.Since(begin) != 0 {
				t.Errorf("host %d: status %d after %v", where, st, time.Since(begin))
			}
		})
	}
}
