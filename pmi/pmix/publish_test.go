package pmix_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const cmdPublish, cmdLookup = 6, 7

func publishing(key, value string, infos ...bfrops.Info) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		w.Group(bfrops.Uint32, uint64(0))
		w.Infos(append([]bfrops.Info{{Key: key, Value: bfrops.Value{Type: bfrops.String, Data: value}}}, infos...))
	}
}

func looking(infos []bfrops.Info, keys ...string) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		w.Group(bfrops.Uint32, uint64(0))
		w.Group(bfrops.Size, uint64(len(keys)))
		for _, k := range keys {
			w.Group(bfrops.String, k)
		}
		w.Infos(infos)
	}
}

func ranged(n uint64) bfrops.Info {
	return bfrops.Info{Key: "pmix.range", Value: bfrops.Value{Type: bfrops.Range, Data: n}}
}

// A lookup that waits is answered the moment that all it asks for is there for it, whoever keeps it.
func TestLookupThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 2, nil)
		defer m.stop()
		m.add([]int{0, 1}, []int{2})
		asker, near, far := m.connect(0, 0), m.connect(0, 1), m.connect(0, 2)
		for _, c := range []*raw{asker, near, far} {
			defer c.nc.Close()
		}
		publish := func(c *raw, more func(*bfrops.Writer)) {
			if st := c.ask(100, cmdPublish, more); st != 0 {
				t.Errorf("publish: status %d", st)
			}
		}
		const (
			local  = 2
			custom = 6
		)
		begin := time.Now()
		asker.send(101, request(cmdLookup, looking([]bfrops.Info{yes("pmix.wait")}, "a", "b")))
		synctest.Wait()
		publish(far, publishing("a", "not for it", ranged(custom), procs(m.proc(0, 1))))
		publish(far, publishing("b", "of the run"))
		publish(near, publishing("a", "near", ranged(local)))
		r := asker.receive(101)
		if st := bfrops.One[int64](r, bfrops.Status); st != 0 || time.Since(begin) != 0 {
			t.Errorf("status %d after %v", st, time.Since(begin))
		}
		got := map[string]string{}
		for _, p := range bfrops.Counted[bfrops.PData](r, bfrops.PDataType) {
			got[p.Key] = p.Value.Text()
		}
		if got["a"] != "near" || got["b"] != "of the run" {
			t.Errorf("found %v", got)
		}
		if st := asker.ask(102, cmdLookup, looking([]bfrops.Info{yes("pmix.wait"), within(7)}, "a", "never")); st != -24 || time.Since(begin) != 7*time.Second {
			t.Errorf("status %d after %v", st, time.Since(begin))
		}
	})
}

// What is published lives as its publisher asks: until its first reader, its process or its job is over, or
// as long as the run.
func TestPersistence(t *testing.T) {
	const (
		indefinite, firstRead, process, app, session = 0, 1, 2, 3, 4
		nothing                                      = -46
	)
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 2, nil)
		defer m.stop()
		m.add([]int{0}, nil)
		m.add(nil, []int{0})
		reader, child := m.connect(0, 0), m.connect(1, 0)
		defer reader.nc.Close()
		names := map[uint64]string{indefinite: "indefinite", firstRead: "first read", process: "process", app: "app", session: "session"}
		for persist, name := range names {
			info := bfrops.Info{Key: "pmix.persist", Value: bfrops.Value{Type: bfrops.Persist, Data: persist}}
			if st := child.ask(100, cmdPublish, publishing(name, "value", info)); st != 0 {
				t.Errorf("%s: status %d", name, st)
			}
		}
		look := func(when string, want map[uint64]int) {
			t.Helper()
			synctest.Wait()
			for persist, name := range names {
				if st := reader.ask(101, cmdLookup, looking(nil, name)); st != want[persist] {
					t.Errorf("%s: %s: status %d, not %d", when, name, st, want[persist])
				}
			}
		}
		look("at first", map[uint64]int{})
		look("again", map[uint64]int{firstRead: nothing})
		if st := child.ask(102, 5, nil); st != 0 {
			t.Errorf("finalize: status %d", st)
		}
		child.nc.Close()
		look("without the process", map[uint64]int{firstRead: nothing, process: nothing})
		for _, s := range m.servers {
			s.JobOver(1, false)
		}
		look("without the job", map[uint64]int{firstRead: nothing, process: nothing, app: nothing})
	})
}

// Who looks for several keys and does not get them leaves those that are for their first reader only; pmix.wait may say how many
// are enough, and one key that is wrong keeps no other from what was asked.
func TestSeveralKeys(t *testing.T) {
	const (
		cmdUnpublish        = 8
		exists, nothing     = -53, -46
		timeout             = -24
		firstRead           = 1
		waitsFor, persisted = "pmix.wait", "pmix.persist"
	)
	number := func(key string, n int64) bfrops.Info {
		return bfrops.Info{Key: key, Value: bfrops.Value{Type: bfrops.Int, Data: n}}
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 1, nil)
		defer m.stop()
		m.add([]int{0, 1})
		asker, publisher := m.connect(0, 0), m.connect(0, 1)
		defer asker.nc.Close()
		defer publisher.nc.Close()
		tag := uint32(100)
		want := func(what string, c *raw, want, cmd int, body func(*bfrops.Writer)) {
			t.Helper()
			tag++
			if st := c.ask(tag, cmd, body); st != want {
				t.Errorf("%s: status %d, not %d", what, st, want)
			}
		}
		want("publish", publisher, 0, cmdPublish, publishing("a", "once", number(persisted, firstRead)))
		want("wait for both", asker, timeout, cmdLookup, looking([]bfrops.Info{yes(waitsFor), within(1)}, "a", "b"))
		want("wait for all", asker, timeout, cmdLookup, looking([]bfrops.Info{number(waitsFor, 0), within(1)}, "a", "b"))
		want("wait for one", asker, 0, cmdLookup, looking([]bfrops.Info{number(waitsFor, 1), within(1)}, "a", "b"))
		want("again", asker, nothing, cmdLookup, looking(nil, "a"))
		want("wait for none", asker, nothing, cmdLookup, looking([]bfrops.Info{yes(waitsFor)}))

		more := bfrops.Info{Key: "c", Value: bfrops.Value{Type: bfrops.String, Data: "c"}}
		want("publish b", publisher, 0, cmdPublish, publishing("b", "b"))
		want("publish b again, and c", publisher, exists, cmdPublish, publishing("b", "b", more))
		want("c", asker, 0, cmdLookup, looking(nil, "c"))
		want("unpublish", publisher, nothing, cmdUnpublish, looking(nil, "missing", "c"))
		want("c", asker, nothing, cmdLookup, looking(nil, "c"))
	})
}
