package launcher

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/run/phases"
	"github.com/mpiup/mpiup/test/cost"
)

// aboutToLaunch is a run of four ranks on two hosts, whose agents have not heard of it yet.
func aboutToLaunch(t testing.TB, out *strings.Builder) *driver {
	cfg := Config{Wishes: Wishes{Apps: []job.App{{Argv: []string{"a.out"}, N: 4}}}}
	if out != nil {
		cfg.Stderr = out
	}
	cfg.Fill()
	r := newDriver(cfg)
	placed := []job.Host{{Name: "w0", Slots: 2, SlotsGiven: true}, {Name: "w1", Slots: 2, SlotsGiven: true}}
	var err error
	if r.plan, err = placement.Place(placed, r.cfg.Apps, r.cfg.Policy); err != nil {
		t.Fatal(err)
	}
	found := make([]reach.Found, len(placed))
	for i, h := range placed {
		found[i].Entry = hostlist.Entry{Name: h.Name}
		found[i].Session = &link.Session{Opened: &apiv1.Opened{Host: &apiv1.HelloReply{}}, Close: func() {}}
	}
	var all []phases.Answer
	for i, f := range found {
		f.Entry.Slots, f.Entry.Given = placed[i].Slots, true
		all = append(all, phases.Answer{Wanted: f.Wanted, Host: r.hostOf(f)})
	}
	r.know(all)
	r.aside = func(f func(context.Context)) {
		life, cancel := context.WithCancel(context.Background())
		cancel()
		f(life)
	}
	if err := r.prepare(found, reach.NewOpener(&r.cfg.Reach)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.alarms.Stop() })
	r.carryOut(r.run.Start(r.now()))
	return r
}

// FuzzFrames gives a run what an agent that lost its mind may send: three frames from two hosts.
func FuzzFrames(f *testing.F) {
	seed := func(bodies ...*apiv1.Frame) {
		var bs [3][]byte
		for i, m := range bodies {
			b, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			bs[i] = b
		}
		f.Add(bs[0], bs[1], bs[2])
	}
	started := (&apiv1.Started{Rank: 0, Pid: 7}).Frame()
	seed(started, (&apiv1.Output{Rank: 0, Data: []byte("x\n")}).Frame(),
		(&apiv1.Exited{Rank: 0, Signal: 9, Text: "rank 0 x"}).Frame())
	seed(started, started, (&apiv1.Closed{Text: "x"}).Frame())
	seed((&apiv1.FenceEnter{Set: "0-3", Epoch: 1, Data: []byte("x"), Collect: true}).Frame(),
		(&apiv1.FetchRequest{Id: 1, Owner: 1 << 31}).Frame(),
		(&apiv1.NameRequest{Op: 9, Service: "s"}).Frame())
	seed((&apiv1.Ending{Why: "x"}).Frame(),
		(&apiv1.Notice{Text: "x"}).Frame(),
		(&apiv1.OutputEnd{Rank: 99, Cut: true}).Frame())
	spawned := func(asked *apiv1.SpawnRequest) *apiv1.Frame {
		return asked.Frame()
	}
	child := &apiv1.SpawnApp{App: &apiv1.App{Argv: []string{"c"}, Wdir: "d"}, Procs: 2}
	seed(started, spawned(&apiv1.SpawnRequest{Id: 1, Parent: 0, Apps: []*apiv1.SpawnApp{child}, Preput: []*apiv1.KeyValue{{Key: "k"}}}),
		(&apiv1.Started{Rank: 4, Pid: 8}).Frame())
	seed(spawned(&apiv1.SpawnRequest{Apps: []*apiv1.SpawnApp{{Procs: 1 << 31, MapBy: "ppr:0:node"}, nil, child}}),
		spawned(&apiv1.SpawnRequest{Apps: []*apiv1.SpawnApp{{App: child.App, Procs: 1, Hosts: []string{"w1:2", "9.9.9.9"}, Hostfile: "/dev/zero"}}}),
		(&apiv1.Event{Data: []byte("x")}).Frame())
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		defer cost.Watch(t, cost.Parser, len(a)+len(b)+len(c))()
		r := aboutToLaunch(t, nil)
		for i, data := range [][]byte{a, b, c} {
			var frame apiv1.Frame
			if proto.Unmarshal(data, &frame) != nil || frame.Body == nil {
				continue
			}
			if err := r.deliver(i%2, &frame); err != nil {
				t.Error(err)
			}
			r.step(run.Frame{Host: i % 2, Frame: &frame, At: r.clock.Now()})
			for _, e := range r.mail.take() {
				r.step(e)
			}
			r.step(run.Turn{})
		}
		r.run.Verdict().Explain()
	})
}
