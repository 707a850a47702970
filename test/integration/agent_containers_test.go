package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// container is how an agent is run.
type container struct {
	beside bool // not as PID 1
	uid    int
	bare   bool     // no capabilities, no writable directory for records
	flags  []string // of mpiup agent
	env    []string // besides what every one has
}

func (l *lab) agent(t *testing.T, host string, c container) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	argv := append([]string{l.bin, "agent", "--key", l.key}, c.flags...)
	make := l.cluster.RunInit
	if c.beside {
		make = l.cluster.Command
	}
	cmd := make(ctx, host, argv...)
	c.dress(cmd)
	r, err := testlab.Start(cmd)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-r.Done })
	if err := r.Until(r.Stderr, "agent is ready"); err != nil {
		t.Fatal(err)
	}
	return r
}

// dress makes cmd what a container of c would run.
func (c container) dress(cmd *netns.Cmd) {
	cmd.UID, cmd.NoCaps = c.uid, c.bare
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/"}, c.env...)
	if c.bare {
		cmd.Env = append(cmd.Env, "TMPDIR=/proc/nowhere")
	}
}

func (l *lab) check(t *testing.T, host string, c container) result {
	t.Helper()
	cmd := l.cluster.Command(t.Context(), host, l.bin, "agent", "--check", "--key", l.key)
	c.dress(cmd)
	r, err := testlab.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return r.Wait(t)
}

// In containers as clusters have them, an agent serves, reaps and ends as told.
func TestAgentInContainers(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	hello := l.program(t, "hello")
	kinds := map[string]container{
		"root":          {},
		"uid":           {uid: 12345},
		"restricted":    {uid: 12345, bare: true},
		"beside":        {beside: true},
		"beside-as-uid": {beside: true, uid: 54321, bare: true},
	}
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	l = l.apart(t, netns.Config{Hosts: names, ReadOnlyRoot: true})
	for name, c := range kinds {
		t.Run(name, func(t *testing.T) {
			if r := l.check(t, name, c); r.Code == 0 {
				t.Errorf("--check without an agent ended with 0: %s", r.Stdout)
			}
			a := l.agent(t, name, c)
			l.check(t, name, c).OK(t)
			r := l.run(t, job{hosts: name + ":2", args: []string{"-n", "2", "sh", "-c", "id -u; grep CapEff /proc/self/status"}}).OK(t)
			if strings.Count(r.Stdout, fmt.Sprintf("%d\n", c.uid)) != 2 {
				t.Errorf("ranks of uid %d print %q", c.uid, r.Stdout)
			}
			if c.bare && strings.Count(r.Stdout, "0000000000000000") != 2 {
				t.Errorf("ranks have capabilities: %q", r.Stdout)
			}
			if r := l.run(t, job{hosts: name + ":2", args: []string{"-n", "2", hello}}).OK(t); strings.Count(r.Stdout, "of 2 on "+name) != 2 {
				t.Errorf("printed %q", r.Stdout)
			}
			l.reaps(t, name)
			l.terminates(t, name, a, c)
		})
	}
}

// reaps checks that orphans of a rank leave no zombies and outlive no run.
func (l *lab) reaps(t *testing.T, host string) {
	t.Helper()
	l.run(t, job{hosts: host + ":1", args: []string{"sh", "-c",
		"for i in 1 2 3 4 5; do (setsid sh -c 'exit 3' & setsid sleep 0.1 &) ; done >/dev/null 2>&1; setsid sleep 1000 >/dev/null 2>&1 & exit 0"}}).Fails(t, 0, "ranks left processes behind, which end with the job: sleep")
	testlab.Eventually(t, "no zombies and no grandchildren on "+host, func() bool {
		all, err := l.cluster.Processes(host)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if state(p.Pid) == "Z" || strings.Contains(p.Argv, "sleep 1000") {
				return false
			}
		}
		return true
	})
}

// terminates ends the agent by SIGTERM, idle and then with a job.
func (l *lab) terminates(t *testing.T, host string, a *running, c container) {
	t.Helper()
	a.Signal(t, syscall.SIGTERM)
	if r := a.Wait(t); r.Code != 0 {
		t.Errorf("an idle agent ended with %d on SIGTERM\n%s", r.Code, r.Stderr)
	}
	if c.beside {
		if r := l.check(t, host, c); r.Code == 0 {
			t.Errorf("--check after the agent's end ended with 0: %s", r.Stdout)
		}
	}
	a = l.agent(t, host, c)
	r := l.start(t, job{hosts: host, args: []string{"-n", "1", "sh", "-c", "trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.05; done"}})
	r.Says(t, "ready\n")
	a.Signal(t, syscall.SIGTERM)
	r.Says(t, "got TERM")
	r.Wait(t).Fails(t, 249, "host "+host+" with rank 0 is being taken away", "SIGTERM")
	if r := a.Wait(t); r.Code != 143 {
		t.Errorf("an agent with a job ended with %d on SIGTERM\n%s", r.Code, r.Stderr)
	}
}

func TestAgentEndsAsTold(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	a := l.agent(t, "w0", container{flags: []string{"--term-exit", "7"}})
	a.Signal(t, syscall.SIGTERM)
	if r := a.Wait(t); r.Code != 7 {
		t.Errorf("--term-exit 7: ended with %d", r.Code)
	}
	agents := []*running{l.agent(t, "w0", container{}), l.agent(t, "w1", container{})}
	run := l.start(t, job{hosts: "w1", args: []string{"-n", "1", "sh", "-c", "echo ready; exec sleep 1000"}})
	run.Says(t, "ready")
	l.mpiup(t, "shutdown", "--key", l.key, "--host", "w0,w1").Fails(t, 0)
	for i, a := range agents {
		if r := a.Wait(t); r.Code != 0 {
			t.Errorf("w%d ended with %d after shutdown\n%s", i, r.Code, r.Stderr)
		}
	}
	run.Wait(t).Fails(t, 249, "shut down")
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	l.agent(t, "w0", container{})
	addr := l.cluster.Addr("w0").String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		return l.cluster.Dial(ctx, netns.Launcher, network, to)
	}}}
	get := func(path string) (int, string) {
		t.Helper()
		r, err := client.Get("http://" + net.JoinHostPort(addr, "7612") + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	l.run(t, job{hosts: "w0:2", args: []string{"true"}}).OK(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := get(path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	testlab.Eventually(t, "the session is over in /metrics", func() bool {
		_, text := get("/metrics")
		return strings.Contains(text, "mpiup_sessions 0\n")
	})
	code, text := get("/metrics")
	for _, want := range []string{"mpiup_processes_started_total 2\n", "go_goroutines "} {
		if code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("/metrics: %d, no %q in\n%s", code, want, text)
		}
	}
	if code, body := get("/"); code != http.StatusOK || body != "mpiup: /metrics /healthz /readyz\n" {
		t.Errorf("GET /: %d, %q", code, body)
	}
	if code, _ := get("/other"); code != http.StatusNotFound {
		t.Errorf("/: %d", code)
	}

	// A second agent in one network namespace, as under hostNetwork: both ports are taken.
	second := l.agent(t, "w0", container{beside: true, flags: []string{"--name", "sibling"}})
	if !strings.Contains(second.Stderr.String(), "no HTTP port") {
		t.Errorf("the taken HTTP port is not told:\n%s", second.Stderr)
	}
	l.agent(t, "w1", container{flags: []string{"--http", "off"}})
	sockets := l.cluster.Command(t.Context(), "w1", "ss", "-Hltun")
	if out, err := sockets.Output(); err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("--http off: %v, one port is wanted:\n%s", err, out)
	}
	l.run(t, job{hosts: "w1:1", args: []string{"true"}}).OK(t)
}
