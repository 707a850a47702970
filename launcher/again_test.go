package launcher

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run/phases"
)

// Each session of the agent is another start of the ranks.
func TestRanksAreStartedAgain(t *testing.T) {
	both := frames(started(0), started(1))
	fails := scripted{launch: frames(both, output(1, "begun"), exited(1, 7)), stop: stoppedByUs(0)}
	notStarted := (&apiv1.StartFailed{Rank: 0, Text: "/x: not found"}).Frame()
	ends := scripted{launch: frames(both, output(1, "ended\n"), exited(0, 0), exited(1, 0))}
	for _, tt := range []struct {
		name   string
		starts []scripted
		most   int
		limit  time.Duration
		code   int
		out    string
		took   time.Duration
		says   []string
	}{
		{"once", []scripted{fails, ends}, 1, 0, 0, "begunended\n", 0, []string{"rank 1 on h exited with code 7; the ranks start again (restart 1 of 1)\n"}},
		{"again and again", []scripted{fails, fails, fails, fails, ends}, 9, 0, 0, "begunbegunbegunbegunended\n", 7 * time.Second,
			[]string{"again in 1s (restart 2 of 9)", "again in 2s (restart 3 of 9)", "again in 4s (restart 4 of 9)"}},
		{"too often", []scripted{fails, fails}, 1, 0, 7, "begunbegun", 0, []string{"mpiup: rank 1 on h exited with code 7\n", "had been started again once (--max-restarts 1)"}},
		{"what a start again does not mend", []scripted{{launch: frames(notStarted)}}, 3, 0, 246, "", 0, []string{"/x: not found"}},
		{"the time of the run is up before", []scripted{fails, fails, fails}, 9, 2 * time.Second, 110, "begunbegunbegun", 2 * time.Second, []string{"again in 2s (restart 3 of 9)", "--timeout 2s ran out in the pause before restart 3, after rank 1 on h exited with code 7\n", "time-out; more"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				n := 0
				serve := func(ctx context.Context, s wire.Stream) error { n++; return tt.starts[n-1].serve(ctx, s) }
				begun := time.Now()
				code := Run(context.Background(), Config{
					Reach:  reach.Reach{Sources: hosts.Sources{Root: t.TempDir(), Hostname: "h"}, Embedded: serve, Stdout: &out, Stderr: &errs},
					Wishes: Wishes{Apps: []job.App{{Argv: []string{"x"}, N: 2}}, MaxRestarts: tt.most, Timeout: tt.limit},
				})
				if took := time.Since(begun); code != tt.code || out.String() != tt.out || n != len(tt.starts) || took < tt.took || took > tt.took+500*time.Millisecond {
					t.Errorf("code %d after %d starts in %v, output %q\n%s", code, n, took, out.String(), errs.String())
				}
				for _, s := range tt.says {
					if !strings.Contains(errs.String(), s) {
						t.Errorf("%q does not say %q", errs.String(), s)
					}
				}
			})
		})
	}
}

// What each signal does to a run whose ranks die of it, with and without restarts, and in the pause between two starts: the table of
// docs/exit-codes.md.
func TestSignals(t *testing.T) {
	both := frames(started(0), started(1))
	fails, ends := scripted{launch: frames(both, exited(1, 7)), stop: stoppedByUs(0)}, scripted{launch: frames(both, exited(0, 0), exited(1, 0))}
	for _, tt := range []struct {
		sig        syscall.Signal
		run, pause int // the codes
	}{
		{syscall.SIGINT, 130, 130}, {syscall.SIGTERM, job.ExitPreempted, job.ExitPreempted}, {syscall.SIGHUP, 129, 129},
		{syscall.SIGQUIT, 131, 131},
		{syscall.SIGUSR1, 138, 0}, {syscall.SIGUSR2, 140, 0},
	} {
		died := func(rank uint32) *apiv1.Frame { return (&apiv1.Exited{Rank: rank, Signal: int32(tt.sig)}).Frame() }
		dies := scripted{launch: both, signal: frames([]*apiv1.Frame{died(0), (&apiv1.OutputEnd{Rank: 0}).Frame(), died(1), (&apiv1.OutputEnd{Rank: 1}).Frame()})}
		says := "got " + job.SignalName(int(tt.sig)) + " in the pause before restart 2, after rank 1 on h exited with code 7\n"
		for _, at := range []struct {
			name       string
			starts     []scripted
			most, n    int
			code       int
			says       string
			afterwards time.Duration
		}{
			{"in a run", []scripted{dies}, 0, 1, tt.run, "", time.Millisecond},
			{"in a run that may start again", []scripted{dies, ends}, 9, 1, tt.run, "", time.Millisecond},
			{"in a pause", []scripted{fails, fails, ends}, 9, 2 + map[bool]int{true: 1}[tt.pause == 0], tt.pause, map[bool]string{true: says}[tt.pause > 0], 500 * time.Millisecond},
		} {
			t.Run(job.SignalName(int(tt.sig))+" "+at.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var errs bytes.Buffer
					n, signals := 0, make(chan os.Signal, 1)
					time.AfterFunc(at.afterwards, func() { signals <- tt.sig })
					got := Run(context.Background(), Config{
						Reach: reach.Reach{Sources: hosts.Sources{Root: t.TempDir(), Hostname: "h"}, Stdout: &bytes.Buffer{}, Stderr: &errs, TermGrace: time.Minute,
							Embedded: func(ctx context.Context, s wire.Stream) error { n++; return at.starts[n-1].serve(ctx, s) }},
						Wishes: Wishes{Apps: []job.App{{Argv: []string{"x"}, N: 2}}, MaxRestarts: at.most}, Signals: signals,
					})
					if got != at.code || n != at.n || !strings.Contains(errs.String(), at.says) {
						t.Errorf("code %d after %d starts, want %d after %d and %q\n%s", got, n, at.code, at.n, at.says, errs.String())
					}
				})
			})
		}
	}
}

// What ranks that are started again cannot have is refused, and says what to do.
func TestRestartsAreRefused(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	other, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	one, least := []job.App{{Argv: []string{"x"}}}, job.Elastic{Min: 4}
	for _, tt := range []struct {
		name string
		cfg  Config
		says string
	}{
		{"no restarts", Config{Stdin: other}, ""},
		{"no input", Config{Wishes: Wishes{MaxRestarts: 1}, Stdin: null}, ""},
		{"input for nobody", Config{Wishes: Wishes{MaxRestarts: 1}, Stdin: other, StdinTarget: "none"}, ""},
		{"input", Config{Wishes: Wishes{MaxRestarts: 1}, Stdin: other, StdinTarget: "0"}, "add < /dev/null, or --stdin none"},
		{"spares for nothing", Config{Spares: 1}, "--spares 1: spares come in when ranks are started again; add --max-restarts"},
		{"two copies for nothing", Config{Beside: time.Second}, "--restart-beside 1s: it is about ranks that start again; add --max-restarts"},
		{"ranks that go on", Config{Wishes: Wishes{MaxRestarts: 1, Recover: true}}, "leave one of the two out"},
		{"programs that are no job", Config{Wishes: Wishes{MaxRestarts: 1, Linger: true}}, "leave one of the two out"},
		{"an elastic job", Config{Wishes: Wishes{Apps: one}, Elastic: least}, ""},
		{"an elastic job's input", Config{Wishes: Wishes{Apps: one}, Elastic: least, Stdin: other}, "--min-np 4: what ranks have read of standard input"},
		{"an elastic job's spares", Config{Wishes: Wishes{Apps: one, MaxRestarts: 1}, Elastic: least, Spares: 1}, "a host without ranks comes in by itself"},
		{"an elastic job of two programs", Config{Wishes: Wishes{Apps: append(one, one...)}, Elastic: least}, "give one program"},
		{"an elastic job that goes on", Config{Wishes: Wishes{Apps: one, Recover: true}, Elastic: least}, "leave one of the two out"},
		{"an elastic job on given hosts", Config{Wishes: Wishes{Apps: []job.App{{On: []job.Share{{Host: "a"}}}}}, Elastic: least}, "cannot move to others"},
		{"an elastic job of other pods", Config{Wishes: Wishes{Apps: one, Nodes: 2}, Elastic: least}, "start all from one host"},
		{"more ranks than slots", Config{Wishes: Wishes{Apps: one, Policy: placement.Policy{Oversubscribe: true}}, Elastic: least}, "has a rank for each slot"},
		{"not whole hosts", Config{Wishes: Wishes{Apps: one, Policy: placement.Policy{PerNode: 3}}, Elastic: least}, "both must be multiples of that"},
		{"other pods' ranks", Config{Wishes: Wishes{MaxRestarts: 1, Nodes: 2}}, "start all from one host"},
	} {
		if err := tt.cfg.restarts(); (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}

// Ranks start again when none of a silent host can run any more, or so long before as the user allows; then it is said who may run twice.
func TestHowLongRanksRest(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		pause, left, beside, want time.Duration // s
		says                      string
	}{
		{"nobody is silent", 3, 0, 0, 3, ""},
		{"nobody is silent, and two copies are allowed", 3, 0, 9, 3, ""},
		{"a host is", 0, 15, 0, 15, ", when those of b have ended by their lease (--launcher-timeout)"},
		{"the pause is longer", 20, 15, 0, 20, ""},
		{"the pause is longer, and two copies are allowed", 20, 15, 9, 20, ""},
		{"two copies for a while", 0, 15, 9, 6, ", and for up to 9s those of b may run beside them and write what they write (--restart-beside)"},
		{"two copies for what is left after the pause", 10, 15, 9, 10, ", and for up to 5s those of b may run beside them and write what they write (--restart-beside)"},
		{"two copies for as long as there may be", 0, 15, 60, 0, ", and for up to 15s those of b may run beside them and write what they write (--restart-beside)"},
	} {
		got, says := phases.Pause(tt.pause*time.Second, tt.left*time.Second, tt.beside*time.Second, "b")
		if got != tt.want*time.Second || says != tt.says {
			t.Errorf("%s: %v%q, want %v%q", tt.name, got, says, tt.want*time.Second, tt.says)
		}
	}
}

// A lease that nobody asked for lasts no longer than a silent host is waited for, where the next start waits for its end.
func TestLeaseOfRanksThatStartAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want time.Duration
	}{
		{"they do not", Config{}, time.Minute},
		{"they do", Config{Wishes: Wishes{MaxRestarts: 1}}, 30 * time.Second},
		{"an elastic job", Config{Elastic: job.Elastic{Min: 1}}, 30 * time.Second},
		{"the user said how long", Config{Wishes: Wishes{MaxRestarts: 1}, Reach: reach.Reach{LeaseSaid: true}}, time.Minute},
		{"hosts are waited for for longer", Config{Wishes: Wishes{MaxRestarts: 1}, Reach: reach.Reach{NodeTimeout: time.Hour}}, time.Minute},
	} {
		tt.cfg.Fill()
		if tt.cfg.shorten(); tt.cfg.Lease != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, tt.cfg.Lease, tt.want)
		}
	}
}
