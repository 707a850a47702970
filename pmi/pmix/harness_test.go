package pmix_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	who "github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/event"
	"github.com/mpiup/mpiup/pmi/pmix/jobdata"
)

// trial runs real ranks, and those that they spawn, on servers in this process, one per host.
type trial struct {
	hosts    int
	perHost  int
	env      []string
	drop     []string // variables of the server's environment that are left out
	change   func(*pmix.Config)
	envOf    func(rank int) []string // besides env; of the first job
	dropOf   func(rank int) []string // besides drop; of the first job
	tape     *tape                   // of a job of one rank; nil: not recorded
	dialogue *dialogue               // of a job of one host; nil: not recorded

	mu      sync.Mutex
	events  []string
	errs    []error
	servers []*pmix.Server // by host
	star    *star
}

type outcome struct {
	out  string
	exit map[int]string // by id: "exit status 0", ...
	errs []error        // that servers told
}

func (j *trial) event(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, fmt.Sprintf(format, args...))
}

// play is one run of a job.
type play struct {
	*trial
	t     *testing.T
	dirs  []string // of sessions, by host
	ranks processes
	wg    sync.WaitGroup

	outMu sync.Mutex
	out   bytes.Buffer
	exit  map[int]string
}

func (w *play) Write(p []byte) (int, error) {
	w.outMu.Lock()
	defer w.outMu.Unlock()
	return w.out.Write(p)
}

// config is a host's server.
func (w *play) config(host int) pmix.Config {
	w.dirs = append(w.dirs, w.t.TempDir())
	cfg := pmix.Config{Machine: jobdata.Machine{SessionDir: w.dirs[host]}, Engine: w.star.engines[host], Spawn: w.spawn}
	cfg.Hooks = pmix.Hooks{
		OnInit:     func(id int, _ who.Process) { w.event("init %d", id) },
		OnFinalize: func(id int) { w.event("finalize %d", id) },
		OnAbort: func(_ context.Context, id, code int, _ string, targets []int) {
			w.event("abort %d %d %v", id, code, targets)
			w.ranks.kill()
		},
		OnEvent: func(e event.Event) { w.tell(host, e) },
		OnLog:   func(id int, stderr bool, text string) { w.event("log %d %v %s", id, stderr, text) },
		OnError: func(_ int, err error) {
			w.mu.Lock()
			w.errs = append(w.errs, err)
			w.mu.Unlock()
			w.ranks.kill()
		},
	}
	return cfg
}

// tell takes an event to the other hosts.
func (w *play) tell(from int, e event.Event) {
	packed, err := event.Encode(e)
	if err != nil {
		w.t.Error(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for h, s := range w.servers {
		if e, err = event.Decode(packed); err != nil {
			w.t.Error(err)
		}
		if h != from {
			s.Notify(e)
		}
	}
}

// spawn puts the processes of a request on the hosts in turn.
func (w *play) spawn(_ context.Context, parent int, r job.Spawn) (int, error) {
	layout := make([][]int, w.hosts)
	n := 0
	for _, p := range r.Programs {
		if _, err := exec.LookPath(p.Argv[0]); err != nil {
			w.event("not started: %s", p.Argv[0])
			return 0, err
		}
		for range p.Procs {
			layout[n%w.hosts] = append(layout[n%w.hosts], n)
			n++
		}
	}
	return w.launch(layout, &job.Process{Job: parent, Rank: r.Parent}, r.Programs)
}

// launch adds a job on all hosts and starts its ranks.
func (w *play) launch(layout [][]int, parent *job.Process, programs []job.SpawnProgram) (number int, err error) {
	number, sj := w.star.add(w.t, layout)
	pj := pmix.Job{Job: jobdata.Job{Namespace: "test-" + rand.Text(), Universe: w.hosts * w.perHost}, SpawnedBy: parent}
	here := make([]int, w.hosts)
	for h, ranks := range layout {
		here[h] = -1
		if len(ranks) > 0 {
			here[h] = len(pj.Hosts)
			pj.Hosts = append(pj.Hosts, jobdata.Host{Name: fmt.Sprintf("w%d", h), Ranks: ranks})
		}
	}
	for app, p := range programs {
		for range p.Procs {
			pj.Apps = append(pj.Apps, app)
		}
	}
	for h, srv := range w.servers {
		pj.Here, pj.Space = here[h], sj.spaces[h]
		if err := srv.Add(pj); err != nil {
			return 0, err
		}
	}
	for h, ranks := range layout {
		for _, r := range ranks {
			if err := w.start(h, number, r, sj, programs[pj.Apps[r]]); err != nil {
				return 0, err
			}
		}
	}
	return number, nil
}

// start runs a rank and, as an agent does, tells the engine and the other hosts when it ends, and
// kills the rest when it failed.
func (w *play) start(host, number, rank int, sj *starJob, p job.SpawnProgram) error {
	cmd := w.command(w.servers[host].Environment(number, rank), host, number, rank, p)
	cmd.Stdout, cmd.Stderr = w, w
	if err := w.ranks.start(cmd); err != nil {
		return err
	}
	w.wg.Go(func() {
		exit := "exit status 0"
		err := cmd.Wait()
		if err != nil {
			exit = err.Error()
		}
		w.outMu.Lock()
		w.exit[sj.base+rank] = exit
		w.outMu.Unlock()
		sj.spaces[host].RankGone(rank, "ended with "+exit)
		w.star.leave(sj.base+rank, "ended with "+exit)
		if err != nil {
			w.ranks.kill()
		}
	})
	return nil
}

func (w *play) command(env []string, host, number, rank int, p job.SpawnProgram) *exec.Cmd {
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader,tcp", "OMPI_MCA_btl_tcp_if_include=127.0.0.0/8", "OMPI_MCA_osc=^ucx")
	cmd.Env = append(cmd.Env, p.Env...)
	// hosts here have one name, and so would their segments in /dev/shm
	cmd.Env = append(cmd.Env, "OMPI_MCA_btl_vader_backing_directory="+w.dirs[host])
	drop, more := w.drop, w.env
	if number == 0 {
		drop, more = append(slices.Clone(drop), w.dropOf(rank)...), append(slices.Clone(more), w.envOf(rank)...)
	}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains(drop, name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, more...)
	return cmd
}

// run starts the ranks, and kills all when one fails or aborts.
func (j *trial) run(t *testing.T, argv ...string) outcome {
	t.Helper()
	for _, f := range []*func(int) []string{&j.envOf, &j.dropOf} {
		if *f == nil {
			*f = func(int) []string { return nil }
		}
	}
	j.star, j.servers, j.events, j.errs = newStar(j.hosts, kvs.Limits{}), nil, nil, nil
	w := &play{trial: j, t: t, exit: map[int]string{}}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 120*time.Second, errors.New("the test's ranks took too long"))
	defer cancel()
	serve, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServers()
	var servers sync.WaitGroup
	layout := make([][]int, j.hosts)
	for h := range layout {
		for l := range j.perHost {
			layout[h] = append(layout[h], h*j.perHost+l)
		}
		srv, l := j.server(t, w.config(h))
		servers.Go(func() { srv.Run(serve, l) })
	}
	if _, err := w.launch(layout, nil, []job.SpawnProgram{{Argv: argv, Procs: j.hosts * j.perHost, Dir: "/"}}); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, w.ranks.kill)
	w.wg.Wait()
	stop()
	if ctx.Err() != nil {
		t.Error(context.Cause(ctx))
	}
	stopServers()
	servers.Wait()
	j.star.close()
	for _, s := range j.servers {
		if err := s.Cleanup(); err != nil {
			t.Error(err)
		}
	}
	return outcome{w.out.String(), w.exit, j.errs}
}

// server makes the server of one host, and its listener.
func (j *trial) server(t *testing.T, cfg pmix.Config) (*pmix.Server, net.Listener) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Address = l.Addr().String()
	if j.change != nil {
		j.change(&cfg)
	}
	srv, err := pmix.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.servers = append(j.servers, srv)
	if j.tape != nil {
		l = recorder{l, j.tape}
	}
	if j.dialogue != nil {
		l = overhearing{l, j.dialogue}
	}
	return srv, l
}

// processes are a run's ranks. Those that start after it was killed end at once.
type processes struct {
	mu     sync.Mutex
	cmds   []*exec.Cmd
	killed bool
}

func (p *processes) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmds = append(p.cmds, cmd)
	if p.killed {
		cmd.Process.Kill()
	}
	return nil
}

func (p *processes) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	for _, c := range p.cmds {
		c.Process.Kill()
	}
}
