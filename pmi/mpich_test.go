package pmi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/pmi"
	who "github.com/mpiup/mpiup/pmi/client"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/loopback"
	"github.com/mpiup/mpiup/test/need"
)

// program compiles test/mpi/NAME.c with Debian's MPICH.
func program(t *testing.T, name string) string {
	t.Helper()
	need.MPICH(t)
	return compile(t, "mpicc.mpich", name)
}

func compile(t *testing.T, mpicc, name string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), name)
	cc := exec.Command(mpicc, "-O1", "-Wall", "-rdynamic", "-o", exe, "../test/mpi/"+name+".c")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// ranks runs real ranks on engines in this process, one engine per host.
type ranks struct {
	hosts   int
	perHost int
	port    bool // PMI_PORT and PMI_ID instead of PMI_FD
	env     []string
	noMap   bool // no PMI_process_mapping

	mu     sync.Mutex
	events []string
}

type outcome struct {
	out  string
	exit []string // by rank: "exit status 0", ...
	errs []error  // of Serve, by rank
}

func (j *ranks) event(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, fmt.Sprintf(format, args...))
}

// run starts the ranks and, as an agent does, tells the engines which ended, and kills the rest
// when one fails or aborts.
func (j *ranks) run(t *testing.T, argv ...string) outcome {
	t.Helper()
	size := j.hosts * j.perHost
	nodes := make([]int, size)
	for r := range nodes {
		nodes[r] = r / j.perHost
	}
	engines := engines(t, j.hosts, j.perHost)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 120*time.Second, errors.New("the test's ranks took too long"))
	defer cancel()
	var stdout bytes.Buffer
	var outMu sync.Mutex
	res := outcome{exit: make([]string, size), errs: make([]error, size)}
	var cmds []*exec.Cmd
	kill := sync.OnceFunc(func() {
		for _, c := range cmds {
			c.Process.Kill()
		}
	})
	var wg sync.WaitGroup
	start := make(chan struct{})
	for r := range size {
		e := engines[nodes[r]]
		pj := pmi.Job{Space: e, Universe: size, Reconnect: j.port, Hooks: pmi.Hooks{
			OnInit:     func(r int, _ who.Process) { j.event("init %d", r) },
			OnFinalize: func(r int) { j.event("finalize %d", r) },
			OnAbort:    func(r, code int, _ string) { j.event("abort %d %d", r, code); go kill() },
		}}
		if !j.noMap {
			pj.Mapping = job.ProcessMapping(nodes)
		}
		srv := pmi.New(pj)
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), j.env...)
		cmd.Env = append(cmd.Env, fmt.Sprintf("PMI_RANK=%d", r), fmt.Sprintf("PMI_SIZE=%d", size))
		w := &lockedWriter{mu: &outMu, b: &stdout}
		cmd.Stdout, cmd.Stderr = w, w
		accept, closeAll := j.attach(t, cmd, r, size)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, f := range cmd.ExtraFiles {
			f.Close()
		}
		cmds = append(cmds, cmd)
		wg.Go(func() {
			<-start
			for conn := range accept { // MPICH 4.3 and later opens another for each MPI session
				wg.Go(func() {
					err := srv.Serve(ctx, conn, r)
					conn.Close()
					if err != nil {
						j.mu.Lock()
						res.errs[r] = err
						j.mu.Unlock()
						kill()
					}
				})
			}
		})
		wg.Go(func() {
			<-start
			err := cmd.Wait()
			res.exit[r] = "exit status 0"
			if err != nil {
				res.exit[r] = err.Error()
			}
			e.RankGone(r, "ended with "+res.exit[r])
			if err != nil {
				kill()
			}
			closeAll()
		})
	}
	stop := context.AfterFunc(ctx, func() { kill() })
	defer stop()
	close(start)
	wg.Wait()
	if ctx.Err() != nil {
		t.Error(context.Cause(ctx))
	}
	for _, e := range engines {
		e.Close(nil)
	}
	res.out = stdout.String()
	return res
}

// attach gives cmd its way to the server; accept yields the rank's connections, one after the
// other, until closeAll.
func (j *ranks) attach(t *testing.T, cmd *exec.Cmd, r, size int) (accept iter.Seq[net.Conn], closeAll func()) {
	if !j.port {
		ours, theirs := socketPair(t)
		cmd.ExtraFiles = []*os.File{theirs}
		cmd.Env = append(cmd.Env, "PMI_FD=3")
		return func(yield func(net.Conn) bool) { yield(ours) }, func() {}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gate := pmi.NewGate([]int{r})
	cmd.Env = append(cmd.Env, "PMI_PORT="+l.Addr().String(), fmt.Sprintf("PMI_ID=%d", gate.ID(r)))
	accept = func(yield func(net.Conn) bool) {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			peer, err := loopback.PeerOf(conn)
			if err != nil || int(peer.UID) != os.Getuid() {
				t.Errorf("%+v, %v", peer, err)
			}
			rank, leave, err := gate.Admit(conn)
			if err == nil {
				err = pmi.Welcome(conn, rank, size)
			}
			if err != nil || rank != r {
				t.Error(rank, err)
				return
			}
			defer leave()
			if !yield(conn) {
				return
			}
		}
	}
	return accept, func() { l.Close() }
}

// socketPair returns our end and the file that a rank inherits.
func socketPair(t *testing.T) (net.Conn, *os.File) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "pmi"), os.NewFile(uintptr(fds[1]), "pmi")
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	ours.Close()
	return conn, theirs
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
		if o.exit[r] != "exit status 0" || o.errs[r] != nil {
			t.Errorf("rank %d: %s, %v", r, o.exit[r], o.errs[r])
		}
	}
	if t.Failed() {
		t.Log(o.out)
	}
}

func TestMPICH(t *testing.T) {
	hello, ringExe, allreduce, publish := program(t, "hello"), program(t, "ring"), program(t, "allreduce"), program(t, "publish")
	shapes := []struct {
		name string
		job  *ranks
	}{
		{"1 host, fd", &ranks{hosts: 1, perHost: 3}},
		{"1 host, port", &ranks{hosts: 1, perHost: 2, port: true}},
		{"1 host, no mapping", &ranks{hosts: 1, perHost: 2, noMap: true}},
		{"2 hosts, fd", &ranks{hosts: 2, perHost: 2}},
		{"4 hosts, port", &ranks{hosts: 4, perHost: 1, port: true}},
		{"1 rank", &ranks{hosts: 1, perHost: 1}},
	}
	for _, tt := range shapes {
		t.Run(tt.name, func(t *testing.T) {
			size := tt.job.hosts * tt.job.perHost
			o := tt.job.run(t, hello)
			o.clean(t)
			for r := range size {
				if tt.job.noMap {
					break
				}
				if want := fmt.Sprintf("rank %d of %d on ", r, size); !strings.Contains(o.out, want) {
					t.Errorf("%q is missing in\n%s", want, o.out)
				}
				if want := fmt.Sprintf("%d of %d there", r%tt.job.perHost, tt.job.perHost); !strings.Contains(o.out, want) {
					t.Errorf("%q is missing in\n%s", want, o.out)
				}
			}
			if n := len(tt.job.events); n != 2*size {
				t.Errorf("events %v", tt.job.events)
			}
			for _, p := range []struct{ exe, want string }{{ringExe, fmt.Sprintf("ring %d", size*(size-1)/2)}, {allreduce, "allreduce ok"}, {publish, "publish ok"}} {
				o := tt.job.run(t, p.exe)
				o.clean(t)
				if !strings.Contains(o.out, p.want) {
					t.Errorf("%s printed %q", p.exe, o.out)
				}
			}
		})
	}
}

func TestMPICHAbort(t *testing.T) {
	j := &ranks{hosts: 2, perHost: 2}
	o := j.run(t, program(t, "abort"), "42", "3")
	if !slices.Contains(j.events, "abort 3 42") {
		t.Errorf("events %v\n%s", j.events, o.out)
	}
}

func TestMPICHRankEndsWithoutFinalize(t *testing.T) {
	exe := program(t, "exitcode")
	for _, how := range []string{"without", "signal", "before"} {
		t.Run(how, func(t *testing.T) {
			j := &ranks{hosts: 1, perHost: 3}
			code := "9"
			if how == "before" {
				code = "0" // a failure would have the others killed before they learn of it
			}
			o := j.run(t, exe, code, "1", how)
			var unfinished *pmi.UnfinishedError
			var gone *kvs.GoneError
			if how == "before" {
				if o.errs[1] != nil {
					t.Errorf("rank 1: %v", o.errs[1])
				}
				if !slices.ContainsFunc(o.errs, func(err error) bool { return errors.As(err, &gone) }) {
					t.Errorf("nobody learned that rank 1 will not come: %v", o.errs)
				}
			} else if !errors.As(o.errs[1], &unfinished) {
				t.Errorf("rank 1: %v", o.errs[1])
			}
		})
	}
}

func TestMPICHSpawnIsRefused(t *testing.T) {
	if o := (&ranks{hosts: 1, perHost: 2}).run(t, program(t, "spawn")); !strings.Contains(o.out, "spawn refused") {
		t.Errorf("printed %q, %v", o.out, o.errs)
	}
}

// A PMI-1 client that puts 9.6 MB in all, over one, two and four hosts.
func TestBigKVS(t *testing.T) {
	exe := program(t, "bigkvs")
	for _, j := range []*ranks{{hosts: 1, perHost: 4}, {hosts: 2, perHost: 8}, {hosts: 4, perHost: 2, port: true}} {
		t.Run(fmt.Sprintf("%dx%d", j.hosts, j.perHost), func(t *testing.T) {
			keys := "1000"
			if testing.Short() {
				keys = "100"
			}
			o := j.run(t, exe, keys, "600")
			o.clean(t)
			if !strings.Contains(o.out, "bigkvs ok") {
				t.Errorf("printed %q", o.out)
			}
		})
	}
}

// Other builds of MPICH than Debian's: MPIUP_TEST_MPICC lists their compilers (for example those
// of the wheels "mpich" on PyPI, each in a virtual environment).
func TestOtherMPICH(t *testing.T) {
	list := need.Asked(t, "MPIUP_TEST_MPICC", "/path/to/mpicc:...")
	shapes := []*ranks{
		{hosts: 1, perHost: 3}, {hosts: 2, perHost: 2}, {hosts: 4, perHost: 1, port: true}, {hosts: 1, perHost: 2, noMap: true},
	}
	for _, mpicc := range filepath.SplitList(list) {
		for _, p := range []struct{ name, want string }{
			{"hello", "there"}, {"ring", "ring"}, {"allreduce", "allreduce ok"}, {"publish", "publish ok"}, {"session", "session ok"}, {"spawn", "spawn refused"},
		} {
			exe := compile(t, mpicc, p.name)
			for _, j := range shapes {
				t.Run(fmt.Sprintf("%s %s %dx%d port=%v %v", strings.ReplaceAll(mpicc, "/", "_"), p.name, j.hosts, j.perHost, j.port, j.env), func(t *testing.T) {
					o := j.run(t, exe)
					o.clean(t)
					if !strings.Contains(o.out, p.want) {
						t.Errorf("printed %q", o.out)
					}
				})
			}
		}
	}
}

// Slurm's libpmi2 is the PMI-2 client at hand; MPICH as Debian and PyPI have it speaks PMI-1 only.
// $CPATH, $LIBRARY_PATH and $LD_LIBRARY_PATH may say where it is.
func TestPMI2Client(t *testing.T) {
	need.Program(t, "cc", "gcc")
	exe := filepath.Join(t.TempDir(), "pmi2")
	cc := exec.Command("cc", "-O1", "-Wall", "-o", exe, "../test/mpi/pmi2.c", "-lpmi2")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Logf("%v\n%s", err, out)
		need.Done(t, "libpmi2", err, "install libpmi2-0-dev")
	}
	for _, j := range []*ranks{{hosts: 1, perHost: 3}, {hosts: 2, perHost: 2}, {hosts: 1, perHost: 1}} {
		t.Run(fmt.Sprintf("%dx%d", j.hosts, j.perHost), func(t *testing.T) {
			o := j.run(t, exe)
			o.clean(t)
			if !strings.Contains(o.out, "pmi2 ok") {
				t.Errorf("printed %q", o.out)
			}
		})
	}
}
