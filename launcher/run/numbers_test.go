package run

import (
	"fmt"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/cost"
)

// A frame with a number or a set beyond the run's size is nonsense: it ends no launcher, and the verdict names its host.
func TestNumbersBeyondTheRun(t *testing.T) {
	for _, n := range []uint32{4, 1 << 20, 1 << 21, 1 << 31, 1<<32 - 1} {
		set := fmt.Sprint("0,", n)
		for what, f := range map[string]framed{
			"flight": &apiv1.Flight{Rank: max(n, n<<8), Groups: []*apiv1.FlightGroup{{Name: "0", Ops: []*apiv1.FlightOp{{Seq: 1}}}}},
			"group":  &apiv1.Flight{Groups: []*apiv1.FlightGroup{{Name: "0", Ranks: fmt.Sprint(uint64(n) << 8)}}},
			"waits":  &apiv1.Waits{Id: 1, Silent: set},
			"wait":   &apiv1.Waits{Id: 1, Waits: []*apiv1.Wait{{Set: "0-3", Entered: set}}}, "barrier": &apiv1.Waits{Id: 1, Waits: []*apiv1.Wait{{Set: set}}},
			"works": &apiv1.Activity{Works: set}, "place": &apiv1.Activity{Places: []*apiv1.Place{{Ids: set}}},
			"met": &apiv1.Met{Loaded: set}, "fence": &apiv1.FenceEnter{Set: set}, "abort": &apiv1.Aborted{Targets: set},
			"control": &apiv1.Control{Targets: set, Signal: 9}, "rendezvous": &apiv1.Rendezvous{Rank: n}, "rendezvous's job": &apiv1.Rendezvous{Job: n},
			"others' rendezvous": &apiv1.Rendezvous{Rank: 2}, "exit": &apiv1.Exited{Rank: n}, "spawn": &apiv1.SpawnRequest{Parent: n}, "program": &apiv1.Chosen{App: n},
			"dropped": &apiv1.Resumed{Dropped: []*apiv1.Dropped{{Rank: n}}}, "fences": &apiv1.Resumed{Fences: []string{set + " 1"}},
		} {
			p := aboutToLaunch(t, Config{Adopted: strings.HasPrefix(what, "dropped") || what == "fences"})
			if p.cfg.Adopted {
				p.play(p.Adopt(p.now))
			} else {
				p.play(p.Start(p.now))
			}
			for id := range uint32(4) {
				p.on(int(id/2), (&apiv1.Started{Rank: id, Pid: 1}).Frame())
			}
			p.inquiry.ask(whoWaits)
			p.on(0, f.Frame())
			if c, ok := p.verdict.Cause(); !ok || c.Event != verdict.Internal || c.Host != "w0" {
				t.Errorf("%s of %d: %+v", what, n, c)
			}
		}
	}
}

// Sets of few bytes cost few.
func TestFlightsAreBounded(t *testing.T) {
	p := aboutToLaunch(t, Config{})
	p.play(p.Start(p.now))
	f := &apiv1.Flight{}
	for range 64 {
		f.Groups = append(f.Groups, &apiv1.FlightGroup{Ranks: "1023", Ops: []*apiv1.FlightOp{{Where: strings.Repeat("x", 1000)}}})
	}
	n := cost.Allocated(func() {
		for rank := range uint32(512) {
			f.Rank = rank
			p.on(0, f.Frame())
		}
	})
	if n > 8*hang.MaxHeld {
		t.Errorf("%d bytes were taken", n)
	}
	if c, ok := p.verdict.Cause(); !ok || !strings.Contains(c.Text, "more than") {
		t.Errorf("%+v", c)
	}
}
