package session

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/ranks"
	"github.com/mpiup/mpiup/agent/reap"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/wire"
	"github.com/mpiup/mpiup/test/cost"
	"google.golang.org/protobuf/proto"
)

// FuzzFrames gives a session whatever a member of the job may send once it has launched. Frames
// that start or stop processes are only checked.
func FuzzFrames(f *testing.F) {
	for _, m := range []*apiv1.Frame{
		{Seq: 1, Body: &apiv1.Frame_Launch{Launch: &apiv1.Launch{Job: &apiv1.Job{Size: 2}, Number: 1, Procs: []*apiv1.Proc{{Rank: 1}}, Apps: []*apiv1.App{{Argv: []string{"a"}}}}}},
		{Seq: 2, Body: &apiv1.Frame_Signal{Signal: &apiv1.Signal{Number: 15, Ranks: []uint32{7}}}},
		{Seq: 3, Body: &apiv1.Frame_Input{Input: &apiv1.Input{Data: []byte("x"), Eof: true}}},
		{Seq: 4, Body: &apiv1.Frame_FenceResult{FenceResult: &apiv1.FenceResult{Set: "0-3", Epoch: 1, Data: [][]byte{{1}}}}},
		{Seq: 5, Body: &apiv1.Frame_FetchRequest{FetchRequest: &apiv1.FetchRequest{Id: 1, Key: "k", AnyOwner: true}}},
		{Seq: 6, Body: &apiv1.Frame_NameResult{NameResult: &apiv1.NameResult{Id: 1}}},
		{Seq: 7, Body: &apiv1.Frame_Credit{Credit: &apiv1.Credit{Rank: 3, Bytes: 1 << 31}}},
		{Seq: 8, Body: &apiv1.Frame_Resize{Resize: &apiv1.Resize{Rows: 1 << 31}}},
		{Seq: 9, Body: &apiv1.Frame_Launch{Launch: &apiv1.Launch{Job: &apiv1.Job{Number: 1, Base: 4, Size: 2, Spawned: true, AppOf: []uint32{0, 1}}, Number: 1}}},
		{Seq: 9, Body: &apiv1.Frame_Launch{Launch: &apiv1.Launch{Job: &apiv1.Job{Number: 1, Base: 1<<32 - 1, Size: 2}, Number: 1}}},
		{Seq: 10, Body: &apiv1.Frame_SpawnResult{SpawnResult: &apiv1.SpawnResult{Id: 1, Job: 1}}},
		{Seq: 11, Body: &apiv1.Frame_FetchRequest{FetchRequest: &apiv1.FetchRequest{Id: 1, Owner: 9, Key: "k", Wait: true}}},
		{Seq: 12, Body: &apiv1.Frame_Gone{Gone: &apiv1.Gone{Ids: "0-1048575", Host: true}}},
		{Seq: 13, Body: &apiv1.Frame_Event{Event: &apiv1.Event{Data: []byte{0, 0, 0, 1}}}},
		{Seq: 14, Body: &apiv1.Frame_JobOver{JobOver: &apiv1.JobOver{Job: 3, Mute: true}}},
		{Seq: 15, Body: &apiv1.Frame_Rendezvous{Rendezvous: &apiv1.Rendezvous{Scope: "global", Key: "0", Value: []byte("x")}}},
		{Seq: 16, Body: &apiv1.Frame_AskWaits{AskWaits: &apiv1.AskWaits{Id: 1, Stacks: "0-1048575"}}},
		{Body: &apiv1.Frame_Open{Open: &apiv1.Open{Launcher: strings.Repeat("x", 300)}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	log := slog.New(slog.DiscardHandler)
	a := New(Config{Log: log, Clock: wire.NewClock(), Config: ranks.Config{Name: "h", Embedded: true, Host: host.New(host.Config{Log: log}),
		Super: reap.New(reap.Config{Log: log})}})
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		var frame apiv1.Frame
		if proto.Unmarshal(b, &frame) != nil {
			return
		}
		s := newSession(a, &apiv1.Open{Session: strings.Repeat("ab", 16), Secret: make([]byte, 16)}, launcherID{identity: "launcher"})
		defer s.finish()
		s.state = launched
		s.jobs.Add(ranks.New(s.exchange.Shared, parsed(&apiv1.Launch{Job: &apiv1.Job{Size: 4}, Number: 1, Procs: []*apiv1.Proc{{Rank: 0}}, Stdin: []uint32{0}}), nil))
		s.jobs.Add(ranks.New(s.exchange.Shared, parsed(&apiv1.Launch{Job: &apiv1.Job{Number: 3, Base: 9, Size: 4, Spawned: true}, Number: 1}), nil))
		for _, st := range s.jobs.All() {
			st.Cancel() // as if it had been started
		}
		defer func() {
			for _, st := range s.jobs.All() {
				st.Wait()
			}
			s.wg.Wait()
		}()
		switch m := frame.Body.(type) {
		case *apiv1.Frame_Launch:
			if l, err := checkLaunch(m.Launch); err == nil {
				ranks.CommandOf(m.Launch.Apps)
				if s.jobs.Check(m.Launch) == nil {
					st := ranks.New(s.exchange.Shared, l, nil)
					st.Cancel()
					s.jobs.Add(st)
					fuzzJobs(t, &s.jobs)
				}
			}
		case *apiv1.Frame_Open:
			if checkOpen(m.Open) == nil && len(m.Open.Launcher) > maxOpenField {
				t.Error("a long name passes")
			}
		case *apiv1.Frame_Stop, nil:
		default:
			s.deliver(&frame)
		}
	})
}

// fuzzJobs checks what every table of jobs must hold.
func fuzzJobs(t *testing.T, j *ranks.Jobs) {
	all := j.All()
	for i, st := range all {
		if i > 0 && all[i-1].Ours().End() > int(st.Launch.Job.Base) {
			t.Errorf("jobs %d and %d overlap", all[i-1].Launch.Job.Number, st.Launch.Job.Number)
		}
		if j.Of(st.Launch.Job.Base) != st || j.Of(uint32(st.Ours().End()-1)) != st || j.Number(st.Launch.Job.Number) != st {
			t.Errorf("job %d is not found", st.Launch.Job.Number)
		}
	}
}
