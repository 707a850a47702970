package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// What runs on a host is for those to know who may look there, by whichever call they ask.
func TestWhatRunsIsForThoseWhoMayLook(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		name, asks string
		agent      []string
		told       bool
	}{
		{"a launcher", "mpiup://g/launcher/l1", nil, true},
		{"a worker", "mpiup://g/agent/x", nil, false},
		{"a worker that may start ranks", "mpiup://g/agent/x", []string{"--allow", "run:agent,run"}, false},
		{"a launcher that may not look", "mpiup://g/launcher/l1", []string{"--deny", "look"}, false},
		{"the launcher whose ranks they are, and may not look", "mpiup://g/launcher/l0", []string{"--deny", "look"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := startAgent(t, nil, append([]string{"--http", "off", "--tls-dir", s.files("mpiup://g/agent/w")}, tt.agent...)...)
			// The rank asks, so it runs while it is asked about.
			e := mpiup(t, "run", "--tls-dir", s.files("mpiup://g/launcher/l0"), "--host", at.Addr+":1", "-n", "1", "--",
				bin, "peers", "--json", "--host", at.Addr, "--tls-dir", s.files(tt.asks))
			if told := strings.Contains(e.Stdout, `"program": "mpiup"`); e.Code != 0 || told != tt.told || !strings.Contains(e.Stdout, `"alive"`) {
				t.Errorf("it ends with %d, and is told of the program: %v\n%s%s", e.Code, told, e.Stdout, e.Stderr)
			}
		})
	}
}

// Who may not look tries each way to what ranks do: the calls by both protocols, a signal that they answer, what an agent says of itself when a session opens,
// its metrics, and gossip. None tells of the program, and no rank gets the signal.
func TestGateOfLook(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		name, uri string
		agent     []string
	}{
		{"a worker", "mpiup://g/agent/x", nil},
		{"a worker by a launcher's name", "mpiup://g/agent/l0", nil},
		{"a launcher that may not look", "mpiup://g/launcher/l1", []string{"--deny", "look"}},
		{"a launcher where only runs are allowed", "mpiup://g/launcher/l1", []string{"--allow", "run"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			http := lab.Address() + ":8080"
			at := startAgent(t, nil, append([]string{"--http", http, "--tls-dir", s.files("mpiup://g/agent/w")}, tt.agent...)...)
			dir := t.TempDir()
			program := filepath.Join(dir, "hidden-program")
			if err := os.WriteFile(program, []byte("#!/bin/sh\ntrap 'echo got it' USR1\necho runs\nwhile ! test -e "+dir+"/go; do sleep 0.05; done\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			c := exec.Command(bin, "run", "--tls-dir", s.files("mpiup://g/launcher/l0"), "--host", at.Addr+":1", "-n", "1", "--stdin", "none", "--", program)
			c.Dir, c.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
			run, err := lab.StartHere(c)
			if err != nil {
				t.Fatal(err)
			}
			lab.Eventually(t, "the rank runs", func() bool { return strings.Contains(run.Stdout.String(), "runs") })
			tls := s.files(tt.uri)
			told := ""
			for _, protocol := range []string{"h2", apiv1.AskProtocol} {
				client := dial(t, tls, at.Addr, protocol)
				for name, call := range map[string]func(context.Context) (any, error){
					"Ranks": func(ctx context.Context) (any, error) { return client.Ranks(ctx, &apiv1.RanksRequest{}) },
					"Stacks": func(ctx context.Context) (any, error) {
						return client.Ranks(ctx, &apiv1.RanksRequest{Stacks: &apiv1.StacksWish{}})
					},
					"Stacks by signal": func(ctx context.Context) (any, error) {
						return client.Ranks(ctx, &apiv1.RanksRequest{Stacks: &apiv1.StacksWish{Signal: 10}})
					},
					"Stacks of a rank": func(ctx context.Context) (any, error) {
						return client.Ranks(ctx, &apiv1.RanksRequest{Stacks: &apiv1.StacksWish{Ranks: "0"}})
					},
					"Hello":             func(ctx context.Context) (any, error) { return client.Hello(ctx, &apiv1.HelloRequest{}) },
					"Peers":             func(ctx context.Context) (any, error) { return client.Peers(ctx, &apiv1.PeersRequest{}) },
					"Checkup":           func(ctx context.Context) (any, error) { return client.Checkup(ctx, &apiv1.CheckupRequest{}) },
					"Shutdown of peers": func(ctx context.Context) (any, error) { return client.Ask(ctx, &apiv1.AskRequest{}) },
				} {
					ctx, cancel := context.WithTimeout(t.Context(), bound)
					reply, err := call(ctx)
					cancel()
					if told += fmt.Sprint(name, reply, err); strings.HasPrefix(name, "Stacks") && err == nil || name == "Ranks" && err == nil {
						t.Errorf("%s over %s: %v", name, protocol, reply)
					}
				}
			}
			opened, err := attach(t, tls, at, &apiv1.Open{Protocol: apiv1.Protocol, Version: "x", Session: strings.Repeat("0e", 16), Secret: make([]byte, 16), Incarnation: "x", Launcher: "l1", LeaseMs: 60_000})
			told += fmt.Sprint(opened, err)
			page, err := exec.Command("curl", "-s", "http://"+http+"/metrics").CombinedOutput()
			if err != nil || !strings.Contains(string(page), "mpiup_") {
				t.Errorf("the metrics are %.200s, %v", page, err)
			}
			told += string(page) + mpiup(t, "peers", "--json", "--discover", "--host", at.Addr, "--tls-dir", tls).Stdout
			if i := strings.Index(told, "hidden-program"); i >= 0 {
				t.Errorf("it is told of the program: %.300s", told[max(0, i-150):])
			}
			if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if r := run.Wait(t); r.Code != 0 || strings.Contains(r.Stdout, "got it") {
				t.Errorf("the run ends with %d and %q:\n%s", r.Code, r.Stdout, r.Stderr)
			}
		})
	}
}

// An agent that is root looks into ranks: of another user, of root, and of one that crashes. Tools that a rank, or one of a job before, could have
// put into a directory of PATH are not run, and none runs as root for another's rank or has root's environment.
func TestToolsThatRanksPlant(t *testing.T) {
	need.Root(t)
	need.Program(t, "setpriv", "util-linux")
	top, err := os.MkdirTemp("/opt", "mpiup-attack-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })

	theirs, roots, says := filepath.Join(top, "theirs"), filepath.Join(top, "roots"), filepath.Join(top, "says")
	anybodys := t.TempDir() // root's own, and nowhere below where images have programs
	if err := errors.Join(os.Chmod(top, 0o755), os.Mkdir(theirs, 0o755), os.Mkdir(roots, 0o755), os.Chmod(anybodys, 0o777)); err != nil {
		t.Fatal(err)
	}
	tool := "#!/bin/sh\n{ echo $0 by $(id -u) in $(pwd) of $MPIUP_KEY$SECRET; } >>" + says + "\necho '#0  0x1 planted'\n"
	for _, dir := range []string{theirs, anybodys, roots} {
		for _, name := range []string{"eu-stack", "gdb", "py-spy", "nvidia-smi"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(tool), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chown(theirs, 65533, 65533); err != nil {
		t.Fatal(err)
	}

	s := newSite(t)
	at := startAgent(t, []string{"PATH=" + theirs + ":" + anybodys + ":" + roots + ":/usr/bin:/bin", "SECRET=of-the-agent"},
		"--http", "off", "--tls-dir", s.files("mpiup://g/agent/w"))
	tls := "--tls-dir=" + s.files("mpiup://g/launcher/l0")
	start := func(dir string, rank ...string) *lab.Process {
		t.Helper()
		c := exec.Command(bin, append([]string{"run", tls, "--host", at.Addr + ":1", "-n", "1", "--stdin", "none", "--"}, rank...)...)
		c.Dir, c.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=/"}
		run, err := lab.StartHere(c)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	emptied := func(t *testing.T) {
		t.Helper()
		if err := errors.Join(os.WriteFile(says, nil, 0o666), os.Chmod(says, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	judge := func(t *testing.T, ran string) {
		t.Helper()
		if strings.Contains(ran, theirs) || strings.Contains(ran, anybodys) {
			t.Errorf("what somebody planted has run:\n%s", ran)
		}
	}
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	looks := err != nil || strings.TrimSpace(string(scope)) == "0"

	for _, c := range []struct {
		name string
		as   []string // before the rank's program
		uid  string
	}{
		{"another user's rank", []string{"/usr/bin/setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups"}, "65533"},
		{"root's rank", nil, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			emptied(t)
			run := start("/", append(c.as, "/bin/sh", "-c", "echo runs; exec sleep 600")...)
			lab.Eventually(t, "the rank runs", func() bool { return strings.Contains(run.Stdout.String(), "runs") })
			e := mpiup(t, "stacks", "--host", at.Addr, tls)
			ran := file(t, says)
			judge(t, ran)
			if c.uid != "0" && (strings.Contains(ran, " by 0 ") || strings.Contains(ran, "of-the-agent")) {
				t.Errorf("a tool has run as root, or has what root has:\n%s\n%s%s", ran, e.Stdout, e.Stderr)
			}
			if looks && !strings.Contains(ran, roots+"/eu-stack by "+c.uid) {
				t.Errorf("root's own tool has not run as uid %s:\n%s\n%s%s", c.uid, ran, e.Stdout, e.Stderr)
			}
			run.Signal(t, syscall.SIGTERM)
			run.Signal(t, syscall.SIGTERM)
			<-run.Done
		})
	}

	t.Run("a rank that crashes", func(t *testing.T) {
		need.Core(t)
		emptied(t)
		dir := t.TempDir()
		r := start(dir, "/bin/sh", "-c", "ulimit -c unlimited; kill -SEGV $$").Wait(t)
		ran := file(t, says)
		judge(t, ran)
		if r.Code == 0 || !strings.Contains(ran, roots+"/eu-stack by 0") {
			t.Errorf("it ends with %d, and root's own tool has not looked at its core:\n%s\n%s", r.Code, ran, r.Stderr)
		}
	})
}

// A worker makes up where its ranks are when a run's time is up: megabytes, escapes, lines like mpiup's own, and ranks that are others'.
// What the verdict and the report have of it is short, is seen for what it is, and blames nobody.
func TestStacksThatAWorkerMakesUp(t *testing.T) {
	s := newSite(t)
	evil := strings.Repeat(forged, 10)
	w := &apiv1.Waits{Notes: slices.Repeat([]string{evil}, 100)}
	for id := range uint32(100) {
		w.Stacks = append(w.Stacks, &apiv1.ProcStack{Id: id % 3, Pid: -7, Means: evil, Frames: slices.Repeat([]string{evil}, 100)})
	}
	w.Stacks[1].Id = 1<<32 - 1
	is := &teller{host: &apiv1.HelloReply{Incarnation: strings.Repeat("0f", 16), Slots: 2, Cpus: 2}, waits: w, tells: []*apiv1.Frame{
		(&apiv1.Chosen{Pmi: apiv1.Pmi_PMI_NONE}).Frame(), (&apiv1.Started{Pid: 7}).Frame(), (&apiv1.Started{Rank: 1, Pid: 8}).Frame()}}
	for rank := range uint32(2) {
		is.stopped = append(is.stopped, (&apiv1.Exited{Rank: rank, Signal: 15, StoppedByUs: true}).Frame(), (&apiv1.OutputEnd{Rank: rank}).Frame())
	}
	dir := t.TempDir()
	e := mpiup(t, "run", "--tls-dir="+s.files("mpiup://g/launcher/l"), "--wait", "1", "--host", tell(t, s.files("mpiup://g/agent/x"), is), "-n", "2", "--timeout", "1",
		"--output", "json", "--report", dir, "--", "true")
	if e.Code != 110 || !strings.Contains(e.Stderr, "mpiup: stack of rank") || strings.Contains(e.Stdout, `"confidence"`) {
		t.Errorf("it ends with %d:\n%s%s", e.Code, e.Stdout, e.Stderr)
	}
	for what, text := range map[string]string{"standard error": e.Stderr, "standard output": e.Stdout, "report.json": file(t, filepath.Join(dir, "report.json"))} {
		if visible.Text(text) != text || strings.Contains("\n"+text, "\n"+forgedLine) || len(text) > 64<<10 {
			t.Errorf("%s: %d bytes, %.2000q", what, len(text), text)
		}
	}
}
