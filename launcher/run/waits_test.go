package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/cost"
)

// What an agent makes up of who waits for whom is refused.
func TestNonsenseOfWaits(t *testing.T) {
	for _, w := range []*apiv1.Waits{{Silent: "x"}, {Silent: "-1"}, {Waits: []*apiv1.Wait{{Set: "0-99999999"}}},
		{Waits: []*apiv1.Wait{{Set: "0-1", Entered: "?"}}}} {
		if _, err := hang.BarriersOf(w, 4); err == nil {
			t.Errorf("%v was taken", w)
		}
	}
	if r, err := hang.BarriersOf(&apiv1.Waits{Silent: "2", Waits: []*apiv1.Wait{{Set: "0-3#7", Entered: "0-1", Seconds: 64}}}, 4); err != nil ||
		r.Silent.String() != "2" || r.Open[0].Of.String() != "0-3" || r.Open[0].Entered.String() != "0-1" || r.Open[0].Age.Seconds() != 64 {
		t.Errorf("%+v, %v", r, err)
	}
}

// What an agent makes up of where ranks are is bounded, shows no escapes, and is of its own ranks that it was asked for.
func TestNonsenseOfStacks(t *testing.T) {
	cfg := Config{}
	cfg.Timeout = time.Minute
	p := aboutToLaunch(t, cfg)
	p.play(p.Start(p.now))
	for id := range 4 {
		p.on(p.who.HostOf(id), (&apiv1.Started{Rank: uint32(id), Pid: 7}).Frame())
	}
	p.step(Expired{Limit})
	for h := range 2 {
		p.on(h, (&apiv1.Waits{Id: p.inquiry.id}).Frame())
	}
	evil := strings.Repeat("x\x1b[2J\u202e\nmpiup: all is well", 100_000)
	frames := make([]string, 10_000)
	for i := range frames {
		frames[i] = evil
	}
	w := &apiv1.Waits{Id: p.inquiry.id, Notes: slices.Repeat([]string{evil, "x" + evil, "y" + evil, "z" + evil}, 1000)}
	for _, id := range []uint32{3, 2, 0, 0, 1, 4, 1 << 31, 1<<32 - 1} { // w0 has 0 and 1
		w.Stacks = append(w.Stacks, &apiv1.ProcStack{Id: id, Pid: -1, Means: evil, Frames: frames})
	}
	w.Stacks = append(w.Stacks, slices.Repeat(w.Stacks, 10_000)...)
	cost.AtMost(t, cost.Bound{Fixed: 4 << 20}, 0, func() { p.on(0, w.Frame()) })
	p.on(1, (&apiv1.Waits{Id: p.inquiry.id, Stacks: []*apiv1.ProcStack{nil, {Id: 2}}}).Frame())
	v, bad := p.Verdict().Verdict(verdict.Circumstances{})
	text := strings.Join(v.End(verdict.LastLines{All: true}), "\n")
	if !bad || len(v.Stacks) != 2 || v.Stacks[1].Ranks != "0-1" || v.Stacks[1].Of != 3 || len(v.Stacks[1].Frames) > 3 || len(text) > 8<<10 || visible.Text(text) != text || strings.Contains(text, "\nmpiup:") || v.Rank != nil {
		t.Errorf("%+v, %d bytes:\n%.4000s", v, len(text), text)
	}
}
