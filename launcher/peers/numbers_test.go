package peers

import (
	"fmt"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/test/cost"
)

// Numbers that an agent makes up end nobody's mpiup ps or mpiup stacks, and cost what their reply is long.
func TestNumbersOfAHostileAgent(t *testing.T) {
	numbers := []uint32{0, 1 << 16, 1<<20 - 1, 1 << 20, 1 << 21, 1 << 22, 1<<32 - 1}
	ranks, flights := &apiv1.RanksReply{}, &apiv1.RunFlight{}
	for i, n := range numbers {
		ranks.Ranks = append(ranks.Ranks, &apiv1.RankState{Rank: n, Id: n, Number: n, Pid: -1, Rss: 1 << 63, State: "?", Stack: &apiv1.ProcStack{Frames: []string{"f"}}}, nil,
			&apiv1.RankState{Rank: n, Id: n, Stack: &apiv1.ProcStack{Id: n, Frames: []string{fmt.Sprint(i)}}})
		flights.Flights = append(flights.Flights, flight(n, "0-1048575"), flight(n, "65535"), flight(n, fmt.Sprint(n)))
		ranks.Waits = append(ranks.Waits, &apiv1.RunWaits{Size: n, Placed: "0-1048575", Waits: &apiv1.Waits{Silent: fmt.Sprint(n),
			Waits: []*apiv1.Wait{nil, {Set: "0-1048575", Entered: "0", Seconds: n}, {Set: fmt.Sprint("0,", n), Entered: "0", Seconds: n}}}}, nil)
	}
	ranks.Host, ranks.Flights = &apiv1.Waited{AtNs: -1, Segments: 1 << 63}, []*apiv1.RunFlight{flights, nil}
	w0 := told{host: "w0", reply: ranks}
	absent([]told{w0}, true)
	_ = hang.StacksText(hang.GroupStacks(w0.whereabouts()))
	for i, n := range numbers {
		r := &apiv1.RankWaited{Id: n, State: apiv1.WatchState(i), Seq: 1 << 63, InsideNs: -1 << 63, Call: "MPI_Barrier\n", CalledNs: 1<<63 - 1, CpuNs: -1 << 63, GpuSlow: n}
		for range n & 63 {
			r.Points = append(r.Points, &apiv1.WaitPoint{Seq: uint64(n), WaitedNs: -1 << 63, AtNs: 1<<63 - 1}, nil)
		}
		ranks.Ranks = append(ranks.Ranks, &apiv1.RankState{Rank: n, Id: n, Waited: r})
	}
	top := waits{window: 1, runs: map[runKey]*waiting{}}
	for now := range time.Duration(3) {
		top.hear(now, w0)
		top.rows(now)
		top.said(nil)
		top.begin()
	}
}

func flight(rank uint32, ranks string) *apiv1.Flight {
	return &apiv1.Flight{Rank: rank, Groups: []*apiv1.FlightGroup{nil, {Name: "0", Ranks: ranks, Last: 1 << 63, Ops: []*apiv1.FlightOp{nil, {Seq: 1 << 63}},
		Calls: []*apiv1.FlightCall{nil, {Seq: 1 << 63, AtNs: -1 << 63}, {Seq: 1}}}}}
}

// The bound is for the race detector's allocations too: twice of those without it. Each set of 7 bytes cost 128 KiB once.
func TestSetsOfAHostileAgentAreBounded(t *testing.T) {
	ranks := &apiv1.RanksReply{Flights: []*apiv1.RunFlight{{}}}
	for i := range 4000 {
		ranks.Waits = append(ranks.Waits, &apiv1.RunWaits{Job: fmt.Sprint(i), Waits: &apiv1.Waits{Waits: []*apiv1.Wait{{Set: "65535", Entered: "65535"}, {Set: "65535", Entered: "65535"}}}})
		ranks.Ranks = append(ranks.Ranks, &apiv1.RankState{Job: fmt.Sprint(i), Id: 65535},
			&apiv1.RankState{Rank: 1<<16 - 1, Stack: &apiv1.ProcStack{Frames: []string{fmt.Sprint(i)}}})
		f := flight(uint32(i), "65535")
		for range 63 {
			f.Groups = append(f.Groups, &apiv1.FlightGroup{Ranks: "65535"})
		}
		ranks.Flights[0].Flights = append(ranks.Flights[0].Flights, f)
	}
	w0 := told{host: "w0", reply: ranks}
	if n := cost.Allocated(func() { absent([]told{w0}, true) }); n > 160<<20 {
		t.Errorf("absences cost %d MiB", n>>20)
	}
	if n := cost.Allocated(func() { hang.GroupStacks(w0.whereabouts()) }); n > 16<<20 {
		t.Errorf("stacks cost %d MiB", n>>20)
	}
}
