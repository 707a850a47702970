package pmix_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const cmdSpawn = 9

func spawning(infos []bfrops.Info, apps ...bfrops.App) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		w.Infos(infos)
		bfrops.PutCounted(w, bfrops.AppType, apps)
	}
}

func text(key, value string) bfrops.Info {
	return bfrops.Info{Key: key, Value: bfrops.Value{Type: bfrops.String, Data: value}}
}

func required(i bfrops.Info) bfrops.Info {
	i.Flags |= bfrops.InfoRequired
	return i
}

func variable(how, name, value string) bfrops.Info {
	return bfrops.Info{Key: "pmix.envar." + how, Value: bfrops.Value{Type: bfrops.EnvarType, Data: bfrops.Envar{Name: name, Value: value, Separator: ':'}}}
}

// What is asked of the launcher, or what the user is told; package spawn has the other requests.
func TestSpawnRequests(t *testing.T) {
	for _, tt := range []struct {
		name  string
		infos []bfrops.Info
		app   func(*bfrops.App)
		want  func(*job.SpawnProgram)
		says  string
	}{
		{name: "plain"},
		{name: "unknown and required", infos: []bfrops.Info{required(text("pmix.preloadbin", "yes"))}, says: `its attribute "pmix.preloadbin" is marked as required`},
		{name: "variables", infos: []bfrops.Info{
			variable("set", "A", "1"), variable("add", "GIVEN", "no"), variable("add", "HAD", "no"), variable("add", "NEW", "new"),
			variable("prepnd", "HAD", "x"), variable("appnd", "GIVEN", "y"), variable("first", "LIST", "b"), text("pmix.envar.unset", "OLD")},
			app: func(a *bfrops.App) { a.Env = []string{"GIVEN=given", "OLD=old", "LIST=a:b:c", "no variable", "=x"} },
			want: func(p *job.SpawnProgram) {
				p.Env = []string{"GIVEN=given:y", "LIST=b:a:c", "A=1", "NEW=new", "HAD=x:had"}
			}},
		{name: "no process", app: func(a *bfrops.App) { a.MaxProcs = 0 }, says: "spawn of 0 processes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app := bfrops.App{Cmd: "/bin/child", Argv: []string{"child", "x"}, Dir: "/d", MaxProcs: 2}
			want := job.SpawnProgram{Argv: []string{"/bin/child", "x"}, Procs: 2, Dir: "/d", AlsoDir: true, Env: []string{}}
			if tt.app != nil {
				tt.app(&app)
			}
			if tt.want != nil {
				tt.want(&want)
			}
			var got job.Spawn
			m := newMulti(t, 1, func(cfg *pmix.Config) {
				cfg.Spawn = func(_ context.Context, job int, r job.Spawn) (int, error) {
					got = r
					return 0, errors.New("the launcher says no")
				}
			})
			defer m.stop()
			m.getenv = func(rank int, name string) string {
				return map[string]string{"HAD": "had"}[name[:len(name)*rank]] // rank 1 has it
			}
			m.add([]int{0, 1})
			c := m.connect(0, 1)
			defer c.nc.Close()
			r := c.wants(101, cmdSpawn, -181, spawning(tt.infos, app))
			if ns := r.One(bfrops.String); ns != nil || r.More() {
				t.Errorf("the refusal names %v", ns)
			}
			if tt.says != "" {
				if len(m.events) != 1 || !strings.Contains(m.events[0], tt.says) || !strings.HasPrefix(m.events[0], "1 says mpiup: MPI_Comm_spawn of ") {
					t.Errorf("said %q, want %q", m.events, tt.says)
				}
				return
			}
			if len(m.events) != 0 || got.Parent != 1 || len(got.Programs) != 1 || !reflect.DeepEqual(got.Programs[0], want) {
				t.Errorf("asked for %+v, want %+v; said %q", got, want, m.events)
			}
		})
	}
}

// The answer names the new job, which its parent can then ask about.
func TestSpawnAnswer(t *testing.T) {
	var m *multi
	m = newMulti(t, 1, func(cfg *pmix.Config) {
		cfg.Spawn = func(_ context.Context, job int, r job.Spawn) (int, error) {
			number, add := m.job([]int{0, 1, 2})
			add(0)
			return number, nil
		}
	})
	defer m.stop()
	m.add([]int{0})
	c := m.connect(0, 0)
	defer c.nc.Close()
	r := c.wants(101, cmdSpawn, 0, spawning(nil, bfrops.App{Cmd: "x", MaxProcs: 3}))
	if ns := bfrops.One[string](r, bfrops.String); ns != m.jobs[1].Namespace {
		t.Errorf("namespace %q", ns)
	}
	values := map[string]any{}
	for r.More() {
		p := bfrops.One[bfrops.KVal](r, bfrops.KValType)
		values[p.Key] = p.Value.Data
	}
	if r.Err() != nil || values["pmix.job.size"] != uint64(3) || values["pmix.parent"] != any(m.proc(0, 0)) || values["pmix.spawned"] != true {
		t.Errorf("%v, %v", values, r.Err())
	}
	// A rank of it finds its parent among what is its own, where libpmix 7 looks.
	c.send(102, request(cmdGet, getting(m.proc(1, 2), "pmix.parent")))
	if st, _, own := c.values(102); st != 0 || own["pmix.parent"].Data != any(m.proc(0, 0)) {
		t.Errorf("of a rank: %d, %v", st, own)
	}
}

// The other ranks of Open MPI 4 wait for what the root hears at its port.
func TestRefusedSpawnReleasesOpenMPI4(t *testing.T) {
	for _, personality := range []string{"ompi", "ompi5"} {
		m := newMulti(t, 1, func(cfg *pmix.Config) {
			cfg.Spawn = func(context.Context, int, job.Spawn) (int, error) { return 0, errors.New("no room") }
		})
		m.add([]int{0, 1})
		c := m.connect(0, 0)
		want := map[string]int{"ompi": 0, "ompi5": -181}[personality]
		c.wants(101, cmdSpawn, want, spawning([]bfrops.Info{text("pmix.pers", personality)},
			bfrops.App{Cmd: "x", Env: []string{"OMPI_PARENT_PORT=12.0:77"}, MaxProcs: 1}))
		found := c.ask(102, 7, func(w *bfrops.Writer) {
			w.Group(bfrops.Uint32, uint64(0))
			w.Group(bfrops.Size, uint64(1))
			w.Group(bfrops.String, "12.0:77:connect")
			w.Infos(nil)
		})
		if want := map[string]int{"ompi": 0, "ompi5": -46}[personality]; found != want {
			t.Errorf("%s: the lookup of its port is answered %d", personality, found)
		}
		c.nc.Close()
		m.stop()
	}
}

// wants sends a command, checks the status of the answer and returns the rest.
func (c *raw) wants(tag uint32, command, status int, more func(*bfrops.Writer)) *bfrops.Reader {
	c.t.Helper()
	c.send(tag, request(command, more))
	r := c.receive(tag)
	if st := int(bfrops.One[int64](r, bfrops.Status)); st != status {
		c.t.Fatalf("status %d, want %d", st, status)
	}
	return r
}
