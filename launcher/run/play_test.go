package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// play is a run whose orders are looked at, and carried out only where another event follows at once.
type play struct {
	*Run
	now   Now
	said  strings.Builder
	given []Order
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// playing is a run that is about to launch.
func playing(t testing.TB, cfg Config, placed []job.Host) *play {
	t.Helper()
	plan, err := placement.Place(placed, cfg.Apps, cfg.Policy)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Plan, cfg.Begun, cfg.ID, cfg.Pod = plan, epoch, "run", "l"
	cfg.Namespace, cfg.Self = func() string { return "namespace" }, func(string) bool { return false }
	cfg.Errno = func(n int32) (string, string) { return fmt.Sprintf("E%d", n), fmt.Sprintf("error %d", n) }
	for _, h := range plan.Hosts {
		cfg.Hosts = append(cfg.Hosts, model.Host{Name: h.Name})
	}
	for _, h := range placed {
		cfg.Sites = append(cfg.Sites, model.Site{Host: h})
	}
	if cfg.Grace == 0 {
		cfg.Grace, cfg.TermGrace = 5*time.Second, 25*time.Second
	}
	return &play{Run: New(cfg), now: Now{Wall: epoch, Clock: time.Millisecond}}
}

// aboutToLaunch is a run of four ranks on two hosts.
func aboutToLaunch(t testing.TB, cfg Config) *play {
	cfg.Apps = []job.App{{Argv: []string{"a.out"}, N: 4}}
	return playing(t, cfg, []job.Host{{Name: "w0", Slots: 2, SlotsGiven: true}, {Name: "w1", Slots: 2, SlotsGiven: true}})
}

func (p *play) step(e Event) { p.play(p.Step(p.now, e)) }

func (p *play) play(list []Order) {
	p.given = append(p.given, list...)
	for _, o := range list {
		switch o := o.(type) {
		case Say:
			fmt.Fprintf(&p.said, "mpiup: %s\n", o.Line)
		case Grow:
			p.step(Grown{})
		}
	}
}

// on is a frame of a host.
func (p *play) on(host int, f *apiv1.Frame) { p.step(Frame{Host: host, Frame: f, At: p.now.Clock}) }

// sent are the frames to a host so far.
func (p *play) sent(host int) (list []*apiv1.Frame) {
	for _, o := range p.given {
		if s, ok := o.(Send); ok && s.Host == host {
			list = append(list, s.Frame)
		}
	}
	return list
}
