package peers

import (
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// reply is what a host tells of a rank that did so many steps of a second, of which it waited so much.
func reply(rank uint32, steps int, waited time.Duration) *apiv1.RanksReply {
	w := &apiv1.RankWaited{Id: rank, State: apiv1.WatchState_WATCH_MEASURED, Seq: uint64(steps), CpuNs: int64(steps) * int64(time.Second) / 2}
	for i := range steps {
		w.Points = append(w.Points, &apiv1.WaitPoint{Seq: uint64(i + 1), WaitedNs: int64(waited) * int64(i+1), AtNs: int64(i+1) * int64(time.Second)})
	}
	return &apiv1.RanksReply{
		Host:  &apiv1.Waited{AtNs: int64(steps) * int64(time.Second)},
		Ranks: []*apiv1.RankState{{Launcher: "l", Job: "j", Rank: rank, Id: rank, Pid: 7, Main: 8, Program: "a", State: "R", Rss: 1 << 20, PeakRss: 3 << 20, Waited: w}},
		Waits: []*apiv1.RunWaits{{Launcher: "l", Job: "j", Size: 3}},
	}
}

func TestTop(t *testing.T) {
	all := waits{window: 10 * time.Second, runs: map[runKey]*waiting{}}
	for look, steps := range []int{12, 14} {
		now := time.Duration(look) * 2 * time.Second
		all.begin()
		for rank := range uint32(3) {
			waited := 500 * time.Millisecond
			if rank == 2 {
				waited = 0
			}
			all.hear(now, told{host: "w" + string('0'+rune(rank)), reply: reply(rank, steps, waited)})
		}
		rows := all.rows(now)
		if len(rows) != 3 || rows[0].Rank != 2 || rows[0].Lost < 0.4 || rows[0].Peak != 3<<20 || rows[0].CPUTime != float64(steps)/2 || rows[1].Waited == nil || *rows[1].Waited < 0.4 {
			t.Fatalf("%+v", rows)
		}
		var b strings.Builder
		if err := (topView{Ranks: rows, Said: all.said(nil)}).print(&b, false, nil); err != nil || !strings.Contains(b.String(), "\nrank 2 (w2, pid 7): the others waited 50 % of the last ") {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
	all.begin()
	all.begin()
	if len(all.runs) != 0 || len(all.rows(0)) != 0 {
		t.Error("a run that is gone stays")
	}
}

// What is not measured is said, and so is that a rank is missing.
func TestTopOfWhatIsNotMeasured(t *testing.T) {
	all := waits{window: 10 * time.Second, runs: map[runKey]*waiting{}}
	r := reply(0, 12, 0)
	r.Ranks[0].Waited.State = apiv1.WatchState_WATCH_NEVER
	all.hear(0, told{host: "w0", reply: r})
	all.rows(0)
	if s := all.said(nil); len(s) != 1 || !strings.Contains(s[0].Text, "is not measured: the ranks do not use MPI") {
		t.Errorf("%+v", s)
	}
	all = waits{window: 10 * time.Second, runs: map[runKey]*waiting{}}
	r.Ranks[0].Phase = apiv1.RankPhase_PHASE_RUNNING
	all.hear(0, told{host: "w0", reply: r})
	all.rows(0)
	if s := all.said(nil); len(s) != 1 || !strings.Contains(s[0].Text, "is not measured: start the run with mpiup run --watch-ranks") {
		t.Errorf("%+v", s)
	}
	all = waits{window: 10 * time.Second, runs: map[runKey]*waiting{}}
	all.hear(0, told{host: "w0", reply: reply(0, 12, 0)})
	all.rows(0)
	if s := all.said(nil); len(s) != 1 || !strings.Contains(s[0].Text, "is not measured: nothing was heard of ") {
		t.Errorf("%+v", s)
	}
	for _, r := range []*apiv1.RanksReply{nil, {Ranks: []*apiv1.RankState{nil}, Host: &apiv1.Waited{}, Waits: []*apiv1.RunWaits{nil}, Flights: []*apiv1.RunFlight{nil}}} {
		all.hear(0, told{host: "w0", reply: r})
	}
}
