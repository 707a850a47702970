package pmix_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/test/need"
)

// program compiles test/mpi/NAME.c with Debian's Open MPI.
func program(t *testing.T, name string) string {
	t.Helper()
	need.Program(t, "mpicc.openmpi", "openmpi-bin and libopenmpi-dev")
	exe := filepath.Join(t.TempDir(), name)
	cc := exec.Command("mpicc.openmpi", "-O1", "-Wall", "-rdynamic", "-o", exe, "../../test/mpi/"+name+".c")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// job runs real ranks on servers in this process, one per host.
type job struct {
	hosts   int
	perHost int
	env     []string
	drop    []string // variables of the server's environment that are left out
	change  func(*pmix.Config)
	envOf   func(rank int) []string // besides env
	dropOf  func(rank int) []string // besides drop
	tape    *tape                   // nil: not recorded

	mu      sync.Mutex
	events  []string
	errs    []error
	servers []*pmix.Server // by host
	star    *star
}

type outcome struct {
	out  string
	exit []string // by rank: "exit status 0", ...
	errs []error  // that servers told
}

func (j *job) event(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, fmt.Sprintf(format, args...))
}

// describe makes one host's server and job.
func (j *job) describe(t *testing.T, namespace string, host int, kill func()) (pmix.Config, pmix.Job) {
	pj := pmix.Job{Namespace: namespace, Here: host, Universe: j.hosts * j.perHost}
	for h := range j.hosts {
		var ranks []int
		for l := range j.perHost {
			ranks = append(ranks, h*j.perHost+l)
		}
		pj.Hosts = append(pj.Hosts, pmix.Host{Name: fmt.Sprintf("w%d", h), Ranks: ranks})
	}
	cfg := pmix.Config{SessionDir: t.TempDir()}
	cfg.Hooks = pmix.Hooks{
		OnInit:     func(r int) { j.event("init %d", r) },
		OnFinalize: func(r int) { j.event("finalize %d", r) },
		OnAbort:    func(r, code int, _ string, targets []int) { j.event("abort %d %d %v", r, code, targets); kill() },
		OnEvent: func(e pmix.Event) {
			j.mu.Lock()
			defer j.mu.Unlock()
			for h, s := range j.servers {
				if h != host {
					s.Notify(e)
				}
			}
		},
		OnLog: func(r int, stderr bool, text string) { j.event("log %d %v %s", r, stderr, text) },
		OnError: func(_ int, err error) {
			j.mu.Lock()
			j.errs = append(j.errs, err)
			j.mu.Unlock()
			kill()
		},
	}
	return cfg, pj
}

// run starts the ranks and, as an agent does, tells the engines which ended, and kills the rest
// when one fails or aborts.
func (j *job) run(t *testing.T, argv ...string) outcome {
	t.Helper()
	size := j.hosts * j.perHost
	for _, f := range []*func(int) []string{&j.envOf, &j.dropOf} {
		if *f == nil {
			*f = func(int) []string { return nil }
		}
	}
	engines, s := engines(t, j.hosts, j.perHost)
	j.star, j.servers, j.events, j.errs = s, nil, nil, nil
	ctx, cancel := context.WithTimeoutCause(t.Context(), 60*time.Second, errors.New("the test's ranks took too long"))
	defer cancel()
	serve, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServers()
	var stdout bytes.Buffer
	var outMu sync.Mutex
	res := outcome{exit: make([]string, size)}
	var ranks processes
	var wg, servers sync.WaitGroup
	namespace := pmix.NewNamespace("test")
	for h, e := range engines {
		cfg, pj := j.describe(t, namespace, h, ranks.kill)
		pj.Engine, cfg.Names = e, s.names
		srv, l := j.server(t, cfg, pj)
		servers.Go(func() { srv.Run(serve, l) })
		for _, r := range pj.Hosts[h].Ranks {
			cmd := j.command(srv, cfg.SessionDir, r, argv)
			w := &lockedWriter{mu: &outMu, b: &stdout}
			cmd.Stdout, cmd.Stderr = w, w
			if err := ranks.start(cmd); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				err := cmd.Wait()
				res.exit[r] = "exit status 0"
				if err != nil {
					res.exit[r] = err.Error()
				}
				e.RankGone(r, "ended with "+res.exit[r])
				if err != nil {
					ranks.kill()
				}
			})
		}
	}
	stop := context.AfterFunc(ctx, ranks.kill)
	wg.Wait()
	stop()
	if ctx.Err() != nil {
		t.Error(context.Cause(ctx))
	}
	stopServers()
	servers.Wait()
	for h, e := range engines {
		e.Close(nil)
		if err := j.servers[h].Cleanup(); err != nil {
			t.Error(err)
		}
	}
	res.out, res.errs = stdout.String(), j.errs
	return res
}

// server makes the server of one host, and its listener.
func (j *job) server(t *testing.T, cfg pmix.Config, pj pmix.Job) (*pmix.Server, net.Listener) {
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
	if err == nil {
		err = srv.Add(pj)
	}
	if err != nil {
		t.Fatal(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.servers = append(j.servers, srv)
	if j.tape != nil {
		l = recorder{l, j.tape}
	}
	return srv, l
}

func (j *job) command(srv *pmix.Server, sessionDir string, rank int, argv []string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader,tcp", "OMPI_MCA_btl_tcp_if_include=127.0.0.0/8", "OMPI_MCA_osc=^ucx",
		// hosts here have one name, and so would their segments in /dev/shm
		"OMPI_MCA_btl_vader_backing_directory="+sessionDir)
	for _, v := range srv.Environment(0, rank) {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains(j.drop, name) && !slices.Contains(j.dropOf(rank), name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, j.env...), j.envOf(rank)...)
	return cmd
}

// processes are a job's ranks. Those that start after the job was killed end at once.
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

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (o outcome) clean(t *testing.T) {
	t.Helper()
	for r := range o.exit {
		if o.exit[r] != "exit status 0" {
			t.Errorf("rank %d: %s", r, o.exit[r])
		}
	}
	if len(o.errs) > 0 {
		t.Error(errors.Join(o.errs...))
	}
	if t.Failed() {
		t.Log(o.out)
	}
}

// hello checks what test/mpi/hello.c printed: every rank knows its place in the job and on its host.
func (j *job) hello(t *testing.T, o outcome) {
	t.Helper()
	o.clean(t)
	size := j.hosts * j.perHost
	for r := range size {
		want := fmt.Sprintf("rank %d of %d on ", r, size)
		i := strings.Index(o.out, want)
		if i < 0 {
			t.Fatalf("%q is missing in\n%s", want, o.out)
		}
		line, _, _ := strings.Cut(o.out[i:], "\n")
		if want := fmt.Sprintf(", %d of %d there", r%j.perHost, j.perHost); !strings.HasSuffix(line, want) {
			t.Errorf("%q does not end with %q", line, want)
		}
	}
	if n := len(j.events); n != 2*size {
		t.Errorf("events %v", j.events)
	}
}

func TestOpenMPI(t *testing.T) {
	hello, ringExe, allreduce := program(t, "hello"), program(t, "ring"), program(t, "allreduce")
	for _, shape := range [][2]int{{1, 1}, {1, 2}, {1, 4}, {2, 2}, {4, 1}} {
		j := &job{hosts: shape[0], perHost: shape[1]}
		t.Run(fmt.Sprintf("%dx%d", j.hosts, j.perHost), func(t *testing.T) {
			size := j.hosts * j.perHost
			j.hello(t, j.run(t, hello))
			for _, p := range []struct{ exe, want string }{{ringExe, fmt.Sprintf("ring %d", size*(size-1)/2)}, {allreduce, "allreduce ok"}} {
				o := j.run(t, p.exe)
				o.clean(t)
				if !strings.Contains(o.out, p.want) {
					t.Errorf("%s printed %q", p.exe, o.out)
				}
			}
		})
	}
}
