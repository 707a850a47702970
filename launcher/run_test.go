package launcher

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
)

// scripted is an embedded agent that answers Launch, Stop and Bye with frames a test chose.
type scripted struct {
	launch, stop []*apiv1.Frame
	noted        []*apiv1.Frame // the answer to AbortNoted
	waits        *apiv1.Waits   // the answer to AskWaits; nil: none
	later        []*apiv1.Frame // sent behind that
	signal       []*apiv1.Frame // the answer to the first Signal
	slow         []*apiv1.Frame // sent so much later
	after        time.Duration
	quits        bool // ends the stream after its answer to Launch
}

func (a *scripted) serve(ctx context.Context, s wire.Stream) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	hello := &apiv1.HelloReply{Incarnation: "x", Slots: 2, Cpus: 2}
	if err := s.Send((&apiv1.Opened{Protocol: apiv1.Protocol, Host: hello}).Frame()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clock := wire.NewClock()
	link := wire.NewLink(clock)
	send := func(frames ...*apiv1.Frame) {
		for _, f := range frames {
			_ = link.Send(f)
		}
	}
	stopped := false
	err := link.Run(ctx, s, 0, func(f *apiv1.Frame) error {
		switch f.Body.(type) {
		case *apiv1.Frame_Launch:
			send(a.launch...)
			if a.quits {
				return io.EOF
			}
		case *apiv1.Frame_AbortNoted:
			send(a.noted...)
		case *apiv1.Frame_Signal:
			send(a.signal...)
			a.signal = nil
			if a.after > 0 {
				t := time.AfterFunc(a.after, func() { send(a.slow...) })
				context.AfterFunc(ctx, func() { t.Stop() })
				a.after = 0
			}
		case *apiv1.Frame_AskWaits:
			if a.waits != nil {
				a.waits.Id = f.GetAskWaits().Id
				send(a.waits.Frame())
			}
			send(a.later...)
		case *apiv1.Frame_Stop:
			if !stopped {
				send(a.stop...)
			}
			stopped = true
		case *apiv1.Frame_Bye:
			send((&apiv1.Closed{}).Frame())
		}
		return nil
	})
	cancel()
	if a.quits {
		return fmt.Errorf("ended by the test")
	}
	_ = err // the launcher ends the stream after Closed
	return nil
}

func started(n int) *apiv1.Frame {
	return (&apiv1.Started{Rank: uint32(n), Pid: int32(n) + 10}).Frame()
}

func exited(rank, code int) []*apiv1.Frame {
	return []*apiv1.Frame{
		{Body: &apiv1.Frame_Exited{Exited: &apiv1.Exited{Rank: uint32(rank), Code: int32(code)}}},
		{Body: &apiv1.Frame_OutputEnd{OutputEnd: &apiv1.OutputEnd{Rank: uint32(rank)}}},
	}
}

func stoppedByUs(rank int) []*apiv1.Frame {
	fs := exited(rank, 0)
	x := fs[0].GetExited()
	x.Signal, x.StoppedByUs = 15, true
	return fs
}

func signalled(rank, signal int) []*apiv1.Frame {
	fs := exited(rank, 0)
	fs[0].GetExited().Signal = int32(signal)
	return fs
}

func output(rank int, text string) *apiv1.Frame {
	return (&apiv1.Output{Rank: uint32(rank), Data: []byte(text), Partial: !strings.HasSuffix(text, "\n")}).Frame()
}

func frames(parts ...any) []*apiv1.Frame {
	var out []*apiv1.Frame
	for _, p := range parts {
		switch p := p.(type) {
		case *apiv1.Frame:
			out = append(out, p)
		case []*apiv1.Frame:
			out = append(out, p...)
		}
	}
	return out
}

func TestRun(t *testing.T) {
	both := frames(started(0), started(1))
	notice := func(text string) *apiv1.Frame {
		return (&apiv1.Notice{Text: text, Warning: true}).Frame()
	}
	quiet := func(text string) *apiv1.Frame {
		return (&apiv1.Notice{Text: text}).Frame()
	}
	closed := (&apiv1.Closed{Text: "why"}).Frame()
	fenced := (&apiv1.Closed{Text: "number 2", Refusal: apiv1.Refusal_REFUSAL_FENCED}).Frame()
	ending := (&apiv1.Ending{Why: "SIGTERM"}).Frame()
	aborted := (&apiv1.Aborted{Rank: 1, Code: 42}).Frame()
	held := (&apiv1.Aborted{Rank: 1, Code: 42, Id: 5}).Frame()
	echoed := (&apiv1.Aborted{Rank: 0, Code: 14}).Frame()
	startFailed := (&apiv1.StartFailed{Rank: 0, Text: "/x: not found"}).Frame()
	wireup := (&apiv1.WireupFailed{Rank: 0, Text: "bad PMI"}).Frame()
	long := func() *apiv1.Frame { return (&apiv1.Waits{}).Frame() }
	one := &apiv1.Waits{Silent: "1", Waits: []*apiv1.Wait{{Set: "0-1", Entered: "0", Absent: "1", Seconds: 60}}}
	for _, tt := range []struct {
		name  string
		agent scripted
		limit time.Duration
		code  int
		out   string
		says  string
		cfg   Config
	}{
		{name: "all well", agent: scripted{launch: frames(both, output(0, "hi\n"), exited(0, 0), exited(1, 0))}, out: "hi\n"},
		{name: "output after the exit", agent: scripted{launch: frames(both, exited(1, 0),
			exited(0, 0)[0], output(0, "late"), exited(0, 0)[1])}, out: "late"},
		{name: "a rank fails, the other is stopped", agent: scripted{launch: frames(both, exited(1, 7)), stop: stoppedByUs(0)}, code: 7, says: "rank 1 on h exited with code 7"},
		{name: "abort", agent: scripted{launch: frames(both, aborted, exited(1, 42)), stop: stoppedByUs(0)}, code: 42, says: "MPI_Abort with code 42"},
		{name: "an abort is noted, and what it leads to comes later", agent: scripted{launch: frames(both, held),
			noted: frames(output(1, "let go\n"), echoed, exited(0, 14), exited(1, 42))}, code: 42, out: "let go\n", says: "rank 1 on h called MPI_Abort with code 42"},
		{name: "the first cannot be started, nothing of the second", agent: scripted{launch: frames(startFailed)}, code: 246, says: "/x: not found"},
		{name: "wire-up", agent: scripted{launch: frames(both, wireup), stop: frames(stoppedByUs(0), stoppedByUs(1))}, code: 247, says: "bad PMI"},
		{name: "time limit", limit: 3 * time.Second, agent: scripted{launch: both, stop: frames(stoppedByUs(0), stoppedByUs(1))}, code: 110, says: "--timeout 3s"},
		{name: "time limit, and one has not called MPI_Init", limit: 3 * time.Second, agent: scripted{launch: both, waits: one, stop: frames(stoppedByUs(0), stoppedByUs(1))}, code: 110,
			says: "mpiup: the job ran longer than --timeout 3s\nmpiup: rank 1 (h, pid 11) has not called MPI_Init; rank 0 has waited for it for 1m0s\n" +
				"mpiup: look where that rank is: mpiup stacks\n"},
		{name: "time limit, and the ranks end while the host is asked", limit: 3 * time.Second, agent: scripted{launch: both, later: frames(exited(0, 0), exited(1, 0))}, code: 110, says: "--timeout 3s"},
		{name: "a rank is waited for", agent: scripted{launch: frames(both, long(), long()), waits: one, later: frames(exited(0, 0), exited(1, 0))},
			says: "mpiup: rank 1 (h, pid 11) has not called MPI_Init; rank 0 has waited for it for 1m0s\n"},
		{name: "ranks in barriers that are nobody's", agent: scripted{launch: frames(both, long()), waits: &apiv1.Waits{Silent: "x"}, stop: frames(stoppedByUs(0), stoppedByUs(1))}, code: 250, says: "host h: "},
		{name: "agent is ended", agent: scripted{launch: frames(both, ending, stoppedByUs(0), stoppedByUs(1))}, code: 249, says: "host h with ranks 0-1 is being taken away: SIGTERM"},
		{name: "fenced", agent: scripted{launch: frames(fenced)}, code: 249, says: "a newer launcher of this job took over"},
		{name: "fenced, ranks first", agent: scripted{launch: frames(both, stoppedByUs(0), stoppedByUs(1), fenced)}, code: 249, says: "a newer launcher of this job took over"},
		{name: "ranks ended under us", agent: scripted{launch: frames(both, stoppedByUs(0), stoppedByUs(1), closed)}, code: 248, says: "host h with ranks 0-1 was lost: its agent ended the session: why"},
		{name: "ranks ended under us, stream breaks", agent: scripted{launch: frames(both, stoppedByUs(0), stoppedByUs(1)), quits: true}, code: 248, says: "ended by the test"},
		{name: "ranks ended under us, no reason", agent: scripted{launch: frames(both, stoppedByUs(0), stoppedByUs(1))}, code: 248, says: "does not say why"},
		{name: "session closed under us", agent: scripted{launch: frames(both, closed)}, code: 248, says: "host h with ranks 0-1 was lost: its agent ended the session: why"},
		{name: "agent ends", agent: scripted{launch: both, quits: true}, code: 248, says: "ended by the test"},
		{name: "a rank that is not there", agent: scripted{launch: frames(both, exited(9, 0)), stop: frames(stoppedByUs(0), stoppedByUs(1))}, code: 250, says: "rank 9"},
		{name: "a rank exits twice", agent: scripted{launch: frames(both, exited(0, 0), exited(0, 0)), stop: stoppedByUs(1)}, code: 250, says: "out of turn"},
		{name: "an agent that does not stop its ranks", agent: scripted{launch: frames(both, exited(1, 7))}, code: 7, says: "rank 1"},
		{name: "codes are no failures, all well", cfg: Config{Wishes: Wishes{KeepOn: true}}, agent: scripted{launch: frames(both, exited(1, 7), exited(0, 5))}},
		{name: "codes are no failures, a signal is", cfg: Config{Wishes: Wishes{KeepOn: true}}, agent: scripted{launch: frames(both, exited(1, 7), signalled(0, 9))}, code: 137, says: "rank 0"},
		{name: "codes are no failures, an abort is", cfg: Config{Wishes: Wishes{KeepOn: true}}, agent: scripted{launch: frames(both, aborted, exited(1, 42)), stop: stoppedByUs(0)}, code: 42, says: "MPI_Abort"},
		{name: "a rank ends without MPI_Finalize, and that is no failure", cfg: Config{Wishes: Wishes{KeepOn: true, Recover: true}},
			agent: scripted{launch: frames(both, signalled(0, 9), wireup, exited(1, 0))}},
		{name: "a rank that goes on cannot be wired up", cfg: Config{Wishes: Wishes{KeepOn: true, Recover: true}},
			agent: scripted{launch: frames(both, wireup), stop: frames(stoppedByUs(0), stoppedByUs(1))}, code: 247, says: "bad PMI"},
		{name: "the only host is lost, and nobody can go on", cfg: Config{Wishes: Wishes{KeepOn: true, Recover: true}},
			agent: scripted{launch: both, quits: true}, code: 248, says: "ended by the test"},
		{name: "the plan is shown", cfg: Config{ShowMap: true}, agent: scripted{launch: frames(both, exited(0, 0), exited(1, 0))}, says: "2 ranks on 1 host: x\nh  ranks 0-1  (2 of 2 slots)\n"},
		{name: "what is no warning is for -v", agent: scripted{launch: frames(quiet("mind one"), quiet("mind two"), notice("beware"), both, exited(0, 0), exited(1, 0))},
			says: "mpiup: host h: beware\n"},
		{name: "notices are said once", agent: scripted{launch: frames(notice("mind"), notice("mind"), both, exited(0, 0), exited(1, 0))}, says: "mpiup: host h: mind\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				root := t.TempDir()
				termination := filepath.Join(root, "log")
				if err := os.WriteFile(termination, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				code := Run(context.Background(), Config{
					Reach:  reach.Reach{Sources: hosts.Sources{Root: root, Hostname: "h"}, Embedded: tt.agent.serve, Stdout: &out, Stderr: &errs, TerminationLog: termination},
					Wishes: Wishes{Apps: []job.App{{Argv: []string{"x"}}}, Timeout: tt.limit, KeepOn: tt.cfg.KeepOn, Recover: tt.cfg.Recover}, ShowMap: tt.cfg.ShowMap,
				})
				if code != tt.code || out.String() != tt.out || !strings.Contains(errs.String(), tt.says) || strings.Count(errs.String(), "mind") > 1 {
					t.Errorf("code %d, stdout %q, stderr %q; want %d, %q, %q", code, out.String(), errs.String(), tt.code, tt.out, tt.says)
				}
				if log, _ := os.ReadFile(termination); (len(log) > 0) != (code != 0) {
					t.Errorf("termination log %q with code %d", log, code)
				}
			})
		})
	}
}

func TestRunRefusesBadInput(t *testing.T) {
	fine := &scripted{launch: frames(started(0), exited(0, 0))}
	for _, tt := range []struct {
		name string
		cfg  Config
		code int
		says string
	}{
		{name: "no program", cfg: Config{}, code: 240, says: "no program"},
		{name: "no agent and no hosts", cfg: Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"x"}}}}}, code: 241, says: "--host"},
		{name: "no rank here, and no other host", cfg: Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"x"}}}},
			Reach: reach.Reach{Embedded: fine.serve, Sources: hosts.Sources{NotHere: true}}}, code: 241, says: "--host"},
		{name: "no rank here, and no other host is named", cfg: Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"x"}}}},
			Reach: reach.Reach{Embedded: fine.serve, Sources: hosts.Sources{NotHere: true, Entries: []hostlist.Entry{{Name: "localhost"}, {Name: "H.ns"}}}}}, code: 240, says: "this host alone"},
		{name: "standard input for a rank that is not there", cfg: Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"x"}, N: 1}}}, StdinTarget: "7",
			Reach: reach.Reach{Embedded: fine.serve}}, code: 240, says: "--stdin 7"},
		{name: "output into a file that is in the way", cfg: Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"x"}, N: 1}}}, Output: iof.Config{Dir: "/dev/null/x"},
			Reach: reach.Reach{Embedded: fine.serve}}, code: 251, says: "/dev/null"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs bytes.Buffer
			tt.cfg.Root, tt.cfg.Stderr, tt.cfg.Hostname = t.TempDir(), &errs, "h"
			if code := Run(context.Background(), tt.cfg); code != tt.code || !strings.Contains(errs.String(), tt.says) {
				t.Errorf("code %d, %q; want %d, %q", code, errs.String(), tt.code, tt.says)
			}
		})
	}
}

func TestStartable(t *testing.T) {
	for n, want := range map[int]bool{1: true, apiv1.MaxProcs: true, apiv1.MaxProcs + 1: false} {
		plan := &job.Plan{Hosts: []job.Host{{Name: "w0"}}, Placements: make([]job.Placement, n)}
		if err := placement.Startable(plan, apiv1.MaxProcs); (err == nil) != want {
			t.Errorf("%d ranks on a host: %v", n, err)
		}
	}
}
