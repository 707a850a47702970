package launcher

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/reach"
)

// After SIGTERM every rank has the whole time, whoever ends first and however, and the run was preempted; after Ctrl-C
// every rank has the whole of --grace.
func TestTermGrace(t *testing.T) {
	ending := (&apiv1.Ending{Why: "SIGTERM"}).Frame()
	aborted := (&apiv1.Aborted{Rank: 0, Code: 42}).Frame()
	both := func() []*apiv1.Frame { return frames(started(0), started(1)) }
	const grace = 20 * time.Second
	for _, tt := range []struct {
		name    string
		agent   scripted
		signals []os.Signal
		limit   time.Duration
		code    int
		took    time.Duration
		says    string
	}{
		{name: "one dies, the other saves for long", signals: []os.Signal{syscall.SIGTERM}, code: 249, took: 19 * time.Second,
			agent: scripted{launch: both(), signal: signalled(0, 15), slow: exited(1, 0), after: 19 * time.Second},
			says:  "mpiup: got SIGTERM and passed it on: the ranks have 20s to end\n"},
		{name: "both end well", signals: []os.Signal{syscall.SIGTERM}, code: 249, took: 2 * time.Second,
			agent: scripted{launch: both(), signal: exited(0, 0), slow: exited(1, 0), after: 2 * time.Second}},
		{name: "one aborts", signals: []os.Signal{syscall.SIGTERM}, code: 249, took: 10 * time.Second,
			agent: scripted{launch: both(), signal: frames(aborted, exited(0, 42)), slow: exited(1, 0), after: 10 * time.Second}},
		{name: "nobody ends", signals: []os.Signal{syscall.SIGTERM}, code: 249, took: grace,
			agent: scripted{launch: both(), stop: frames(stoppedByUs(0), stoppedByUs(1))}, says: "the launcher on l got SIGTERM"},
		{name: "a second one", signals: []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, code: 249, took: 3 * time.Second,
			agent: scripted{launch: both(), stop: frames(stoppedByUs(0), stoppedByUs(1))}},
		{name: "the time limit", signals: []os.Signal{syscall.SIGTERM}, limit: 5 * time.Second, code: 249, took: 5*time.Second - time.Millisecond,
			agent: scripted{launch: both(), waits: &apiv1.Waits{}, stop: frames(stoppedByUs(0), stoppedByUs(1))}},
		{name: "Ctrl-C and a failure", signals: []os.Signal{syscall.SIGINT}, code: 130, took: 5 * time.Second, says: "kills them\nmpiup: interrupted\n",
			agent: scripted{launch: both(), signal: exited(0, 7), stop: stoppedByUs(1)}},
		{name: "its only agent is ended", code: 249, took: 15 * time.Second, signals: []os.Signal{syscall.SIGHUP},
			agent: scripted{launch: both(), signal: frames(ending, stoppedByUs(0)), slow: stoppedByUs(1), after: 15 * time.Second},
			says:  "mpiup: host h with ranks 0-1 is being taken away: SIGTERM; all ranks get SIGTERM and have 20s to end\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs bytes.Buffer
				signals := make(chan os.Signal, len(tt.signals))
				for i, s := range tt.signals {
					defer time.AfterFunc(time.Millisecond+time.Duration(i)*3*time.Second, func() { signals <- s }).Stop()
				}
				begun := time.Now()
				code := Run(context.Background(), Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"x"}}}, Timeout: tt.limit}, Signals: signals,
					Reach: reach.Reach{Sources: hosts.Sources{Root: t.TempDir(), Hostname: "h"}, Pod: "l", Embedded: tt.agent.serve, Stderr: &errs, TermGrace: grace}})
				took := time.Since(begun).Truncate(time.Millisecond) - time.Millisecond
				if code != tt.code || took.Round(time.Second) != tt.took.Round(time.Second) || !strings.Contains(errs.String(), tt.says) {
					t.Errorf("code %d after %v, %q; want %d after %v, %q", code, took, errs.String(), tt.code, tt.took, tt.says)
				}
			})
		})
	}
}

// What was known of the hosts that are missing is said when the wait is interrupted, too.
func TestInterruptedWait(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reach.GotSignal(syscall.SIGINT))
	got := newDriver(Config{}).impatient(ctx, &reach.Failure{Code: 243, Lines: []string{"host w0: no such name", "host w1: connection refused"}})
	want := []string{"host w0: no such name", "host w1: connection refused", "got SIGINT while waiting for hosts"}
	if f, ok := got.(*reach.Failure); !ok || f.Code != 130 || !slices.Equal(f.Lines, want) {
		t.Errorf("got %v", got)
	}
	for command, code := range map[bool]int{false: 249, true: 143} {
		if n := reach.GotSignal(syscall.SIGTERM).Status(command); n != code {
			t.Errorf("SIGTERM, command %v: %d, not %d", command, n, code)
		}
	}
}
