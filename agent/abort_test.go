package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/agent/ranks"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
)

// TestAnAbortingRankIsHeld: until the launcher has said that it knows.
func TestAnAbortingRankIsHeld(t *testing.T) {
	c := newClient(t, newAgent(t), '1', "life-1")
	c.dial(false)
	c.start(pmixLaunch(0, 0, 2, "sleep 1000"))
	c.times(2, started)
	s := c.session()
	for _, targets := range [][]int{nil, {0}, {0, 1}} {
		done := make(chan struct{})
		go func() { defer close(done); s.aborted(t.Context(), 1, 42, "text", targets) }()
		isAbort := func(f *apiv1.Frame) bool { return f.GetAborted() != nil }
		seen := c.until(isAbort)
		a := seen[len(seen)-1].GetAborted()
		if a.Rank != 1 || a.Code != 42 || a.Text != "text" || a.Id == 0 || (a.Targets == "0") != (len(targets) == 1) {
			t.Errorf("%v: told of %v", targets, a)
		}
		select {
		case <-done:
			t.Errorf("%v: let go before the launcher knew", targets)
		default:
		}
		c.send((&apiv1.AbortNoted{Id: a.Id + 1}).Frame()) // another's
		c.send((&apiv1.AbortNoted{Id: a.Id}).Frame())
		select {
		case <-done:
		case <-time.After(testBound):
			t.Fatalf("%v: held for ever", targets)
		}
	}
}

// TestAnAbortingRankIsNotHeldForLong: by a launcher that is gone, or by what ends anyway.
func TestAnAbortingRankIsNotHeldForLong(t *testing.T) {
	for _, tt := range []struct {
		name string
		want time.Duration
		ends bool
	}{{"the launcher is gone", ranks.AbortBound, false}, {"the job ends", 0, true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				link := wire.NewLink(wire.Config{Clock: wire.NewClock(0)})
				s := &session{link: link, up: newUpstream(link), log: slog.New(slog.NewTextHandler(&log, nil))}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.ends {
					cancel(errors.New("over"))
				}
				begun := time.Now()
				s.aborted(ctx, 0, 1, "", nil)
				if took := time.Since(begun); took != tt.want || link.Queued() != 1 || !strings.Contains(log.String(), "abort") {
					t.Errorf("held for %v, %d frames, log %q", took, link.Queued(), log.String())
				}
			})
		})
	}
}

// TestAnAbortOfPMIKeepsItsConnection: clients that wait for an answer, which there is none, are held too.
func TestAnAbortOfPMIKeepsItsConnection(t *testing.T) {
	c := newClient(t, newAgent(t), '1', "life-1")
	c.dial(false)
	l := jobLaunch(0, 0, 2, `[ $PMI_RANK = 1 ] || exec sleep 1000
echo "cmd=init pmi_version=1 pmi_subversion=1" >&3; read -r answer <&3
echo "cmd=abort exitcode=42" >&3; read -r answer <&3
echo let go; exec sleep 1000`)
	l.Job.Pmi = apiv1.Pmi_PMI_FD
	begun := time.Now()
	c.start(l)
	seen := c.until(func(f *apiv1.Frame) bool { return f.GetAborted() != nil })
	if a := seen[len(seen)-1].GetAborted(); a.Rank != 1 || a.Code != 42 {
		t.Errorf("told of %v", a)
	}
	if out := stdout(c.until(func(f *apiv1.Frame) bool { return f.GetOutput() != nil })); out != "let go\n" {
		t.Errorf("wrote %q", out)
	}
	if took := time.Since(begun); took < ranks.AbortBound {
		t.Errorf("let go %v after the start", took)
	}
}
