package jobdata

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

func text(key, value string) bfrops.Info { return bfrops.NewInfo(key, bfrops.String, value) }

func required(i bfrops.Info) bfrops.Info {
	i.Flags |= bfrops.InfoRequired
	return i
}

func variable(how, name, value string) bfrops.Info {
	return bfrops.NewInfo("pmix.envar."+how, bfrops.EnvarType, bfrops.Envar{Name: name, Value: value, Separator: ':'})
}

// What is asked of the launcher, or what the user is told.
func TestRequest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		infos []bfrops.Info
		app   func(*bfrops.App)
		want  func(*job.SpawnProgram)
		says  string
	}{
		{name: "plain"},
		{name: "job attributes", infos: []bfrops.Info{text("pmix.host", "a:2, b"), text("pmix.hostfile", "h"), text("pmix.addhost", "c"), text("pmix.addhostfile", "i"), text("pmix.wdir", "/w")},
			want: func(p *job.SpawnProgram) {
				p.Hosts, p.Hostfile, p.AddHosts, p.AddHostfile, p.Dir = []string{"a:2", "b"}, "h", []string{"c"}, "i", "/w"
			}},
		{name: "those of the program prevail", infos: []bfrops.Info{text("pmix.wdir", "/job")},
			app:  func(a *bfrops.App) { a.Infos = []bfrops.Info{text("pmix.wdir", "/program")} },
			want: func(p *job.SpawnProgram) { p.Dir = "/program" }},
		{name: "npernode of Open MPI 4", infos: []bfrops.Info{text("pmix.ppr", "3:n")},
			want: func(p *job.SpawnProgram) { p.PerHost, p.MapBy = 3, "ppr:3:node" }},
		{name: "npernode of Open MPI 5", infos: []bfrops.Info{text("pmix.mapby", "PPR:1:NODE:oversubscribe")},
			want: func(p *job.SpawnProgram) { p.PerHost, p.MapBy = 1, "ppr:1:node" }},
		{name: "by node", infos: []bfrops.Info{text("pmix.mapby", "node:oversubscribe")}, want: func(p *job.SpawnProgram) { p.MapBy = "node" }},
		{name: "by core", infos: []bfrops.Info{text("pmix.mapby", "core")}},
		{name: "by core and nothing else", infos: []bfrops.Info{required(text("pmix.mapby", "core"))}, says: `it is to be mapped by "core"; slot, node`},
		{name: "by socket", infos: []bfrops.Info{text("pmix.ppr", "2:socket")}, says: "only ppr:N:node is supported"},
		{name: "unknown", infos: []bfrops.Info{text("pmix.preloadbin", "yes"), text("what", "ever")}},
		{name: "unknown and required", infos: []bfrops.Info{required(text("pmix.preloadbin", "yes"))}, says: `its attribute "pmix.preloadbin" is marked as required`},
		{name: "personality", infos: []bfrops.Info{required(text("pmix.pers", "ompi5"))}},
		{name: "variables", infos: []bfrops.Info{
			variable("set", "A", "1"), variable("add", "GIVEN", "no"), variable("add", "HAD", "no"), variable("add", "NEW", "new"),
			variable("prepnd", "HAD", "x"), variable("appnd", "GIVEN", "y"), variable("first", "LIST", "b"), text("pmix.envar.unset", "OLD")},
			app: func(a *bfrops.App) { a.Env = []string{"GIVEN=given", "OLD=old", "LIST=a:b:c", "no variable", "=x"} },
			want: func(p *job.SpawnProgram) {
				p.Env = []string{"GIVEN=given:y", "LIST=b:a:c", "A=1", "NEW=new", "HAD=x:had"}
			}},
		{name: "no variable", infos: []bfrops.Info{text("pmix.envar.set", "A=1")}, says: "pmix.envar.set is not a variable"},
		{name: "without arguments", app: func(a *bfrops.App) { a.Argv = nil }, want: func(p *job.SpawnProgram) { p.Argv = []string{"/bin/child"} }},
		{name: "without a command", app: func(a *bfrops.App) { a.Cmd = "" }, want: func(p *job.SpawnProgram) { p.Argv[0] = "child" }},
		{name: "without anything", app: func(a *bfrops.App) { a.Cmd, a.Argv = "", nil }, says: "program 0 has no name"},
		{name: "no process", app: func(a *bfrops.App) { a.MaxProcs = 0 }, says: "spawn of 0 processes"},
		{name: "too many", app: func(a *bfrops.App) { a.MaxProcs = 1 << 20 }, says: "spawn of 1048576 processes"},
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
			got, err := Request(1, tt.infos, []bfrops.App{app}, func(name string) string { return map[string]string{"HAD": "had"}[name] })
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v, want %q", err, tt.says)
				}
				return
			}
			if err != nil || got.Parent != 1 || len(got.Programs) != 1 || !reflect.DeepEqual(got.Programs[0], want) {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// Where Open MPI's root waits for the new ranks' call, and what it is told where none comes.
func TestCaller(t *testing.T) {
	app := bfrops.App{Cmd: "x", Env: []string{"A=b", "OMPI_PARENT_PORT=12.0:77"}}
	for _, tt := range []struct {
		personality string
		app         bfrops.App
		key, list   string // "": nobody waits
	}{
		{"ompi", app, "12.0:77:connect", "4294901760.0:mpiup-refused"},
		{"ompi5", app, "12.0:77:connect", "mpiup-refused.0"},
		{"mpich", app, "", ""},
		{"ompi", bfrops.App{Cmd: "x"}, "", ""},
	} {
		by := CallerOf([]bfrops.Info{text("pmix.pers", tt.personality)}, []bfrops.App{tt.app})
		if by == nil {
			if tt.key != "" {
				t.Errorf("%s: nobody waits", tt.personality)
			}
			continue
		}
		if key, value := by.Refusal(); key != tt.key || value.Text() != tt.list || by.Program != "x" {
			t.Errorf("%s: %q is told %q", tt.personality, key, value.Text())
		}
	}
	if by := CallerOf([]bfrops.Info{text("pmix.pers", "ompi")}, nil); by != nil {
		t.Errorf("%+v waits for nothing", by)
	}
}
