package pmix_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// A client that asks and never reads is answered no further than it reads: 64 questions of 35 bytes had made the server
// hold 64 answers of 4 MiB.
func TestAnswersThatNobodyReads(t *testing.T) {
	const size, questions = 3 << 20, 64
	for _, tt := range []struct {
		name  string
		hosts int
		cmd   int
		ask   func(m *multi) func(*bfrops.Writer)
	}{
		{"GET on the host", 1, 4, func(m *multi) func(*bfrops.Writer) { return getting(m.proc(0, 1), "") }},
		{"GET from another host", 2, 4, func(m *multi) func(*bfrops.Writer) { return getting(m.proc(0, 1), "") }},
		{"LOOKUP", 1, 7, func(*multi) func(*bfrops.Writer) { return looking(nil, "name") }},
		{"LOOKUP of one name again and again", 1, 7, func(*multi) func(*bfrops.Writer) {
			return looking(nil, strings.Split(strings.Repeat("name,", 999)+"name", ",")...)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMulti(t, tt.hosts, nil)
				defer m.stop()
				if tt.hosts == 1 {
					m.add([]int{0, 1})
				} else {
					m.add([]int{0}, []int{1})
				}
				owner := m.connect(0, 1)
				defer owner.nc.Close()
				large := strings.Repeat("x", size)
				if st := owner.ask(101, cmdCommit, committing("key", large)); st != 0 {
					t.Fatalf("commit: %d", st)
				}
				if st := owner.ask(102, 6, publishing("name", large)); st != 0 {
					t.Fatalf("publish: %d", st)
				}
				asker := m.connect(0, 0)
				defer asker.nc.Close()
				before := heap()
				for i := range questions {
					asker.send(uint32(200+i), request(tt.cmd, tt.ask(m)))
				}
				synctest.Wait()
				if more := heap() - before; more > 12*size {
					t.Errorf("the server holds %d bytes more for %d questions", more, questions)
				}
				if tt.cmd != 4 {
					return
				}
				answered := map[uint32]bool{}
				for range questions {
					f, err := bfrops.ReadFrame(asker.nc)
					if err != nil {
						t.Fatal(err)
					}
					tag, r := f.Tag, bfrops.NewReader(bfrops.Canonical(), false, f.Payload)
					if st := bfrops.One[int64](r, bfrops.Status); st != 0 {
						t.Errorf("question %d: status %d", tag, st)
					}
					answered[tag] = true
				}
				if len(answered) != questions {
					t.Errorf("%d of %d questions were answered", len(answered), questions)
				}
			})
		})
	}
}

// A fence that would carry too much is out of resource for its ranks, on every host, and the user reads why, once of each
// host; the ranks go on.
func TestFenceThatCarriesTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		var mu sync.Mutex
		limits := kvs.DefaultLimits()
		limits.Sending = 1000
		m := newMultiWith(t, 2, limits, func(cfg *pmix.Config) {
			cfg.Hooks.OnNotice = func(text string) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, text)
			}
		})
		defer m.stop()
		m.add([]int{0, 1}, []int{2})
		collecting := func(w *bfrops.Writer) {
			bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc{m.proc(0, bfrops.RankWildcard)})
			w.Infos([]bfrops.Info{yes("pmix.collect")})
		}
		var clients []*raw
		for rank := range 3 {
			c := m.connect(0, rank)
			defer c.nc.Close()
			clients = append(clients, c)
		}
		if st := clients[0].ask(101, cmdCommit, committing("key", strings.Repeat("x", 4000))); st != 0 {
			t.Fatal(st)
		}
		for round, more := range []func(*bfrops.Writer){collecting, list(m.proc(0, bfrops.RankWildcard))} {
			for _, c := range clients {
				c.send(200, request(cmdFence, more))
			}
			for rank, c := range clients {
				if st, want := bfrops.One[int64](c.receive(200), bfrops.Status), []int64{-29, 0}[round]; st != want {
					t.Errorf("rank %d, fence %d: status %d, want %d", rank, round, st, want)
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(said) != 2 || !strings.Contains(said[0], "1000 are possible") {
			t.Errorf("%q", said)
		}
		if err := m.err(); err != nil {
			t.Error(err)
		}
	})
}
