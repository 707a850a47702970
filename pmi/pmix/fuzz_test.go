package pmix_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/test/cost"
)

// conversation is frames as they go over a connection.
func conversation(payloads ...[]byte) (b []byte) {
	for i, p := range payloads {
		frame := append(make([]byte, bfrops.HeaderLen), p...)
		bfrops.FinishFrame(frame, uint32(101+i))
		b = append(b, frame...)
	}
	return b
}

// seeds are requests of every command that a rank of job 0 sends in a run of two jobs.
func seeds(m *multi) [][]byte {
	both := list(m.proc(0, bfrops.RankWildcard), m.proc(1, 0))
	published := func(w *bfrops.Writer) {
		w.Group(bfrops.Uint32, uint64(0))
		w.Infos([]bfrops.Info{{Key: "service", Value: bfrops.Value{Type: bfrops.String, Data: "port"}},
			{Key: "pmix.range", Value: bfrops.Value{Type: bfrops.Range, Data: uint64(6)}}, procs(m.proc(0, 0))})
	}
	keys := func(infos ...bfrops.Info) func(*bfrops.Writer) {
		return func(w *bfrops.Writer) {
			w.Group(bfrops.Uint32, uint64(0))
			w.Group(bfrops.Size, uint64(1))
			w.Group(bfrops.String, "service")
			w.Infos(infos)
		}
	}
	group := func(w *bfrops.Writer) {
		w.Group(bfrops.String, "group")
		both(w)
	}
	return [][]byte{
		conversation(request(0, nil), request(cmdFence, list(m.proc(0, bfrops.RankWildcard))), request(5, nil)),
		conversation(request(cmdCommit, committing("key", "value")), request(cmdGet, getting(m.proc(1, 0), "key", yes("pmix.immediate"))),
			request(cmdGet, getting(m.proc(1, bfrops.RankWildcard), ""))),
		conversation(request(cmdConnect, both), request(cmdDisconnect, both), request(cmdFence, both)),
		conversation(request(6, published), request(7, keys()), request(7, keys(yes("pmix.wait"))), request(8, keys())),
		conversation(request(cmdSpawn, spawning([]bfrops.Info{{Key: "pmix.mapby", Value: bfrops.Value{Type: bfrops.String, Data: "ppr:2:node"}}},
			bfrops.App{Cmd: "child", Argv: []string{"child", "x"}, Env: []string{"A=b"}, Dir: "/", MaxProcs: 2}))),
		conversation(request(cmdRegister, codes(code)), request(cmdNotify, raising(code, 4)), request(cmdRegister, codes()),
			request(cmdDeregister, func(w *bfrops.Writer) { w.Status(code) })),
		conversation(request(18, func(w *bfrops.Writer) {
			w.Group(bfrops.Size, uint64(0))
			w.Infos([]bfrops.Info{{Key: "pmix.reg.cleanup", Value: bfrops.Value{Type: bfrops.String, Data: "/nowhere/x"}}})
		}), request(15, querying("pmix.qry.ns", "pmix.qry.ptable"))),
		conversation(request(18, controlling([]bfrops.Info{yes("pmix.jctrl.kill")}, m.proc(1, 0)))),
		conversation(request(24, group), request(28, func(w *bfrops.Writer) { w.Group(bfrops.String, "group") })),
		conversation(request(cmdAbort, func(w *bfrops.Writer) {
			w.Status(1)
			w.Group(bfrops.String, "text")
			bfrops.PutCounted(w, bfrops.ProcType, []bfrops.Proc{m.proc(1, 0)})
		})),
		conversation(request(16, func(w *bfrops.Writer) {
			w.Group(bfrops.Time, uint64(0))
			w.Infos([]bfrops.Info{{Key: "pmix.log.stderr", Value: bfrops.Value{Type: bfrops.String, Data: "text"}}})
			w.Infos(nil)
		})),
	}
}

// A hostile rank may send anything: the server goes on, the other rank of its job is served, and
// one of another job as if nothing had been.
func FuzzServe(f *testing.F) {
	refuses := func(cfg *pmix.Config) {
		cfg.Spawn = func(_ context.Context, _ int, r job.Spawn) (int, error) {
			if err := r.Check(); err != nil {
				f.Errorf("a request that does not pass its own check: %v", err)
			}
			return 0, errors.New("no room")
		}
	}
	m := newMulti(f, 1, nil)
	m.add([]int{0, 1})
	m.add([]int{0})
	m.stop()
	for _, seed := range seeds(m) {
		f.Add(seed)
	}
	serve := func(t *testing.T, data []byte) {
		m := newMulti(t, 1, refuses)
		defer m.stop()
		m.add([]int{0, 1})
		m.add([]int{0})
		c := m.connect(0, 0)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			io.Copy(io.Discard, c.nc)
		}()
		c.nc.Write(data)
		beside, other := m.connect(0, 1), m.connect(1, 0)
		if st := beside.ask(101, cmdCommit, nil); st != 0 {
			t.Errorf("the other rank: status %d", st)
		}
		if st := other.ask(101, cmdCommit, nil); st != 0 {
			t.Errorf("the other job: status %d", st)
		}
		other.send(102, request(cmdGet, getting(m.proc(1, 0), "key", yes("pmix.immediate")))) // else it waits 2 s for the key
		if st, _, values := other.values(102); st != -46 {
			t.Errorf("the other job has %v", values)
		}
		if st := other.ask(103, cmdFence, list(m.proc(1, bfrops.RankWildcard))); st != 0 {
			t.Errorf("the other job's fence: %d", st)
		}
		for _, nc := range []net.Conn{beside.nc, other.nc, c.nc} {
			nc.SetDeadline(time.Time{}) // a pipe's timer lives on after Close, and the heap of timers would grow
			nc.Close()
		}
		<-drained
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cost.AtMost(t, cost.Parser, len(data), func() { serve(t, data) })
	})
}
