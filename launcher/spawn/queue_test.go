package spawn

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/test/golden"
)

// Each file of testdata is a run: commands stand at the beginning of a line, what the queue orders then is indented.
// go test -update writes the orders anew.
//
//	oversubscribe | files               the user allows it
//	host NAME SLOTS [busy=N] [far] [elastic]   far: no session; elastic: nobody wrote the slots
//	jobs N | procs N | stopping | over  the run from now on
//	ask PROGRAM*N[@HOSTS] ...           a rank asks; +PATH for a hostfile, %MAP for a mapping
//	read HOSTS | unread TEXT            of the hostfile
//	joined [NAME ...] | lost TEXT       hosts that were reached, with two slots where they are new
//	ended NAME | late                   a spawned process there; the wait
func TestScripts(t *testing.T) {
	golden.Play(t, func(t *testing.T, out *strings.Builder) func(string) {
		p := &play{t: t, out: out}
		return func(line string) {
			words := strings.Fields(line)
			p.do(words[0], words[1:])
		}
	})
}

// play is a run that does at once what it is told, but for reaching hosts, reading files and waiting.
type play struct {
	t     *testing.T
	out   *strings.Builder
	cfg   Config
	queue *Queue
	view  View
	names []string
	asks  uint64
}

func (p *play) do(command string, args []string) {
	if p.queue == nil {
		switch command {
		case "oversubscribe":
			p.cfg.Policy.Oversubscribe = true
			return
		case "files":
			p.cfg.Files = true
			return
		}
		p.cfg.PerHost = 4
		p.queue, p.view.Jobs, p.view.Procs = New(p.cfg), 1, 1
	}
	rest := strings.Join(args, " ")
	switch command {
	case "host":
		p.host(args)
	case "jobs", "procs":
		n, err := strconv.Atoi(rest)
		if err != nil {
			p.t.Fatal(err)
		}
		*map[string]*int{"jobs": &p.view.Jobs, "procs": &p.view.Procs}[command] = n
	case "stopping":
		p.view.Stopping = true
	case "over":
		p.view.Over = true
	case "ask":
		p.ask(args)
	case "read":
		p.queue.HostsRead(Targets(p.queue.asks[0].Request.Programs, func(string) ([]hostlist.Entry, error) { return hostlist.ParseList(rest) }))
	case "unread":
		p.queue.HostsRead(nil, errors.New(rest))
	case "joined":
		for _, name := range args {
			if i := p.find(name); i >= 0 {
				p.view.Reached[i] = true
			} else {
				p.host([]string{name, "2"})
			}
		}
		p.queue.Joined(nil)
	case "lost":
		p.queue.Joined(errors.New(rest))
	case "ended":
		p.view.Sites[p.find(rest)].Busy--
		p.queue.Ended()
	case "late":
		p.queue.Late()
	default:
		p.t.Fatalf("%s is no command", command)
	}
	p.serve()
}

func (p *play) find(name string) int { return slices.Index(p.names, name) }

func (p *play) host(args []string) {
	slots, _ := strconv.Atoi(args[1])
	site, reached := placement.Site{Host: job.Host{Name: args[0], Slots: slots, SlotsGiven: true}}, true
	for _, a := range args[2:] {
		if n, ok := strings.CutPrefix(a, "busy="); ok {
			site.Busy, _ = strconv.Atoi(n)
		}
		reached = reached && a != "far"
		site.SlotsGiven = site.SlotsGiven && a != "elastic"
	}
	p.names = append(p.names, args[0])
	p.view.Sites, p.view.Reached = append(p.view.Sites, site), append(p.view.Reached, reached)
}

func (p *play) ask(args []string) {
	p.asks++
	a := &Ask{Host: 0, ID: p.asks}
	for _, arg := range args {
		arg, by, _ := strings.Cut(arg, "%")
		arg, file, _ := strings.Cut(arg, "+")
		arg, hosts, _ := strings.Cut(arg, "@")
		name, n, _ := strings.Cut(arg, "*")
		q := job.SpawnProgram{Argv: []string{name}, MapBy: by, Hostfile: file}
		q.Procs, _ = strconv.Atoi(n)
		if hosts != "" {
			q.Hosts = []string{hosts}
		}
		a.Request.Programs = append(a.Request.Programs, q)
	}
	if err := p.queue.Add(a); err != nil {
		p.refused(a, err)
	}
}

func (p *play) say(format string, args ...any) { fmt.Fprintf(p.out, "  "+format+"\n", args...) }

func (p *play) refused(a *Ask, why error) {
	rank, user := p.queue.Refused(a, "rank 0", why)
	p.say("%d: refuse: %s", a.ID, rank)
	for _, l := range user {
		p.say("   user: %s", l)
	}
}

func (p *play) serve() {
	for {
		p.view.Find = p.find
		o := p.queue.Next(func(int) View { return p.view })
		switch o.Do {
		case None:
			return
		case Read:
			p.say("%d: read", o.Ask.ID)
		case Wait:
			p.say("%d: wait", o.Ask.ID)
		case Join:
			names := slices.Clone(o.Strangers)
			for _, i := range o.Sites {
				names = append(names, p.names[i])
			}
			p.say("%d: join %s", o.Ask.ID, strings.Join(names, " "))
		case Start:
			var ranks []string
			for _, pl := range o.Plan.Placements {
				p.view.Sites[o.Sites[pl.Host]].Busy++
				ranks = append(ranks, p.names[o.Sites[pl.Host]])
			}
			p.view.Jobs, p.view.Procs, p.view.Spawned = p.view.Jobs+1, p.view.Procs+len(ranks), true
			p.say("%d: start on %s", o.Ask.ID, strings.Join(ranks, " "))
		case Refuse:
			p.refused(o.Ask, o.Why)
		}
	}
}

// Children have what the command line exports and the directory of who asked, unless they say otherwise.
func TestPrograms(t *testing.T) {
	parent := job.App{Wdir: "/data", WdirExplicit: false}
	a := &Ask{Request: job.Spawn{Programs: []job.SpawnProgram{
		{Argv: []string{"a"}, Procs: 1, Env: []string{"B=b"}}, {Argv: []string{"b"}, Procs: 2, Dir: "sub"}, {Argv: []string{"c"}, Procs: 1, Dir: "/else"}}}}
	var got []string
	for _, p := range a.Programs(parent, []string{"A=a"}) {
		got = append(got, fmt.Sprintln(p.Argv, p.N, p.Wdir, p.WdirExplicit, p.Env))
	}
	want := []string{"[a] 1 /data false [A=a B=b]\n", "[b] 2 /data/sub true [A=a]\n", "[c] 1 /else true [A=a]\n"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}
