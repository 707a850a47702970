package pmix_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/event"
)

const (
	cmdNotify, cmdRegister, cmdDeregister = 12, 13, 14

	code = -3000 // of an application
)

func codes(c ...int64) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		bfrops.PutCounted(w, bfrops.Status, c)
		w.Infos(nil)
	}
}

func raising(code int, reach byte, infos ...bfrops.Info) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		w.Status(code)
		w.Group(bfrops.Range, uint64(reach))
		w.Infos(infos)
	}
}

func procs(list ...bfrops.Proc) bfrops.Info {
	a := bfrops.Array{Type: bfrops.ProcType}
	for _, p := range list {
		a.Data = append(a.Data, p)
	}
	return bfrops.Info{Key: "pmix.evrange", Value: bfrops.Value{Type: bfrops.DataArray, Data: a}}
}

// audience is clients that listen; each is called by its job and rank.
type audience struct {
	t       *testing.T
	clients map[string]*raw
	heard   map[string][]string
}

func newAudience(t *testing.T) *audience {
	return &audience{t, map[string]*raw{}, map[string][]string{}}
}

// ask is raw.ask for one that may hear something before the answer.
func (a *audience) ask(name string, tag uint32, command int, more func(*bfrops.Writer)) int {
	a.t.Helper()
	a.clients[name].send(tag, request(command, more))
	for {
		f, err := bfrops.ReadFrame(a.clients[name].nc)
		if err != nil {
			a.t.Fatal(err)
		}
		if f.Tag == tag {
			return int(bfrops.One[int64](bfrops.NewReader(bfrops.Canonical(), false, f.Payload), bfrops.Status))
		}
		a.note(name, f)
	}
}

// hear takes what has come for every client.
func (a *audience) hear() {
	for name, c := range a.clients {
		for {
			c.nc.SetReadDeadline(time.Now().Add(time.Millisecond))
			f, err := bfrops.ReadFrame(c.nc)
			c.nc.SetReadDeadline(time.Time{})
			if err != nil {
				break
			}
			a.note(name, f)
		}
	}
}

func (a *audience) note(name string, f bfrops.Frame) {
	r := bfrops.NewReader(bfrops.Canonical(), false, f.Payload)
	if n := bfrops.One[uint64](r, bfrops.Command); f.Tag != bfrops.TagEvent || n != cmdNotify {
		a.t.Errorf("%s gets tag %d, command %d", name, f.Tag, n)
	}
	code, from := bfrops.One[int64](r, bfrops.Status), bfrops.One[bfrops.Proc](r, bfrops.ProcType)
	a.heard[name] = append(a.heard[name], fmt.Sprintf("%d of %s/%d", code, from.Namespace[:4], from.Rank))
}

// Who is told of an event: two jobs on two hosts, all of whose ranks listen but for the last one.
func TestEventsReachThoseInRange(t *testing.T) {
	const all = "job0/1 job1/0 job1/1"
	for _, tt := range []struct {
		name  string
		reach byte
		info  func(m *multi) []bfrops.Info
		want  string // who hears it
	}{
		{"session", 4, nil, all},
		{"global", 5, nil, all},
		{"none given", 0, nil, all},
		{"namespace", 3, nil, "job0/1"},
		{"host", 2, nil, "job1/0"},
		{"process", 7, nil, ""},
		{"resource manager", 1, nil, ""},
		{"one elsewhere", 6, func(m *multi) []bfrops.Info { return []bfrops.Info{procs(m.proc(1, 1))} }, "job1/1"},
		{"one here", 6, func(m *multi) []bfrops.Info { return []bfrops.Info{procs(m.proc(1, 0))} }, "job1/0"},
		{"a job", 6, func(m *multi) []bfrops.Info { return []bfrops.Info{procs(m.proc(1, bfrops.RankWildcard))} }, "job1/0 job1/1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMulti(t, 2, nil)
				defer m.stop()
				m.add([]int{0}, []int{1})
				m.add([]int{0}, []int{1, 2})
				a := newAudience(t)
				for j := range 2 {
					for r := range 2 + j {
						c := m.connect(j, r)
						defer c.nc.Close()
						if r == 2 {
							continue
						}
						if st := c.ask(101, cmdRegister, codes(code)); st != 0 {
							t.Fatal(st)
						}
						a.clients[fmt.Sprintf("job%d/%d", j, r)] = c
					}
				}
				var infos []bfrops.Info
				if tt.info != nil {
					infos = tt.info(m)
				}
				if st := a.clients["job0/0"].ask(102, cmdNotify, raising(code, tt.reach, infos...)); st != 0 {
					t.Fatal(st)
				}
				a.hear()
				var heard []string
				for name, events := range a.heard {
					heard = append(heard, name)
					if !slices.Equal(events, []string{fmt.Sprintf("%d of job0/0", code)}) {
						t.Errorf("%s hears %v", name, events)
					}
				}
				slices.Sort(heard)
				if got := strings.Join(heard, " "); got != tt.want {
					t.Errorf("heard by %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// Who registers a handler after the event is told of it, once, and for a while.
func TestEventsForLateListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 1, nil)
		defer m.stop()
		m.add([]int{0, 1})
		c, late := m.connect(0, 0), m.connect(0, 1)
		defer c.nc.Close()
		defer late.nc.Close()
		a := newAudience(t)
		a.clients["late"], a.clients["itself"] = late, c
		yes := bfrops.Value{Type: bfrops.Bool, Data: true}
		a.ask("itself", 101, cmdNotify, raising(code, 4))
		a.ask("itself", 102, cmdNotify, raising(code-1, 4, bfrops.Info{Key: "pmix.evnocache", Value: yes}))
		a.ask("itself", 103, cmdNotify, raising(code-2, 4, bfrops.Info{Key: "pmix.evnondef", Value: yes}))
		gone, ok := m.servers[0].RankEvent(event.Left, 1)
		if !ok {
			t.Fatal("the rank is not known")
		}
		m.servers[0].Notify(gone)
		for name := range a.clients {
			a.ask(name, 104, cmdRegister, codes()) // of all codes
			a.ask(name, 105, cmdRegister, codes(code, code-2))
			a.clients[name].send(106, request(cmdDeregister, func(w *bfrops.Writer) { w.Status(code) }))
			a.ask(name, 107, cmdRegister, codes(code))
		}
		a.hear()
		want := []string{fmt.Sprintf("%d of job0/0", code), fmt.Sprintf("%d of job0/0", code-2)}
		if !slices.Equal(a.heard["late"], want) || a.heard["itself"] != nil {
			t.Errorf("heard %v, want %v by who is late", a.heard, want)
		}
		time.Sleep(time.Minute) // of the bubble's time
		again := m.connect(0, 1)
		defer again.nc.Close()
		a.clients = map[string]*raw{"much later": again}
		a.ask("much later", 101, cmdRegister, codes(code))
		if a.hear(); a.heard["much later"] != nil {
			t.Errorf("much later: %v", a.heard)
		}
	})
}

// Ranks of two jobs went with two hosts: one event of each job's part of a host, then one of each rank.
func TestHostEvents(t *testing.T) {
	m := newMulti(t, 3, nil)
	defer m.stop()
	m.add([]int{0}, []int{1, 2}, []int{3})
	m.add([]int{0}, []int{1}, nil)
	const hosts = "pmix.hname=w1 pmix.nodeid=1"
	want := []string{
		"-231 of 1: pmix.evaffected=[1 2] " + hosts, "-200 of 1: pmix.evproc=1 " + hosts, "-200 of 2: pmix.evproc=2 " + hosts,
		"-231 of 3: pmix.evproc=3 pmix.hname=w2 pmix.nodeid=2", "-200 of 3: pmix.evproc=3 pmix.hname=w2 pmix.nodeid=2",
		"-231 of job 1's 1: pmix.evproc=job 1's 1 " + hosts, "-200 of job 1's 1: pmix.evproc=job 1's 1 " + hosts,
	}
	proc := func(p any) string {
		if p := p.(bfrops.Proc); p.Namespace != m.jobs[0].Namespace {
			return fmt.Sprintf("job 1's %d", p.Rank)
		}
		return fmt.Sprint(p.(bfrops.Proc).Rank)
	}
	var got []string
	for _, e := range m.servers[0].HostEvents(idset.Of(1, 2, 3, 5, 900)) {
		text := fmt.Sprintf("%d of %s:", e.Code, proc(e.Source))
		for _, i := range e.Infos {
			v := i.Value.Data
			switch d := v.(type) {
			case bfrops.Proc:
				v = proc(d)
			case bfrops.Array:
				var all []string
				for _, p := range d.Data {
					all = append(all, proc(p))
				}
				v = all
			}
			text += fmt.Sprintf(" %s=%v", i.Key, v)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("told\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A host of many ranks is told of to the end, however late its listeners read.
func TestHostEventsAreAllHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 2, nil)
		defer m.stop()
		var many []int
		var ids idset.Set
		for r := 1; r <= 512; r++ {
			many = append(many, r)
			ids.Add(r)
		}
		m.add([]int{0}, many)
		c := m.connect(0, 0)
		defer c.nc.Close()
		a := newAudience(t)
		a.clients["c"] = c
		a.ask("c", 101, cmdRegister, codes(-200))
		for _, e := range m.servers[0].HostEvents(ids) {
			m.servers[0].Notify(e)
		}
		if a.hear(); len(a.heard["c"]) != len(many) {
			t.Errorf("%d of %d events came", len(a.heard["c"]), len(many))
		}
	})
}

func TestEventsAreBounded(t *testing.T) {
	large := bfrops.Info{Key: "text", Value: bfrops.Value{Type: bfrops.String, Data: strings.Repeat("x", 64<<10)}}
	l := newLab(t, nil)
	defer l.stop()
	c := l.connect(t, 0)
	defer c.nc.Close()
	if st := c.ask(101, cmdNotify, raising(code, 4, large)); st != -29 {
		t.Errorf("a large one is taken: %d", st)
	}
	if st := c.ask(102, cmdNotify, raising(code, 6)); st != -27 {
		t.Errorf("one for nobody is taken: %d", st)
	}
}
