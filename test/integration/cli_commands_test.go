package integration

import (
	"encoding/json"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.mpiup(t, "peers", "--key", l.key, "--host", "w0,w1,w2").OK(t)
	for _, h := range []string{"w0", "w1", "w2"} {
		row := regexp.MustCompile(`(?m)^` + h + ` +` + regexp.QuoteMeta(l.cluster.Addr(h).String()) + `:\d+ +alive +\d+/\d+ +\S+/\d+ +[\d.]+.?s$`)
		if !row.MatchString(r.Stdout) {
			t.Errorf("no row of %s in\n%s", h, r.Stdout)
		}
	}
	if !strings.HasPrefix(r.Stdout, "scope default, ") {
		t.Errorf("the scope is not told:\n%s", r.Stdout)
	}
	var view struct {
		Scope string
		Peers []struct {
			Host, Address, Incarnation, State, Version string
			Slots, Used                                int
			RTT                                        float64 `json:"rtt_ms"`
		}
	}
	r = l.mpiup(t, "peers", "--key", l.key, "--host", "w0,w2", "--json").OK(t)
	if err := json.Unmarshal([]byte(r.Stdout), &view); err != nil {
		t.Fatal(err)
	}
	if len(view.Peers) < 2 || view.Scope != "default" {
		t.Fatalf("%+v", view)
	}
	for _, p := range view.Peers {
		if p.State != "alive" || len(p.Incarnation) != 32 || p.Slots < 1 || p.RTT <= 0 || p.Version == "" ||
			!strings.HasPrefix(p.Address, l.cluster.Addr(p.Host).String()+":") {
			t.Errorf("%+v", p)
		}
	}
	// Who runs what since when, and how many slots that takes.
	run := l.start(t, job{hosts: "w0:2,w1:1", args: []string{"-n", "3", "sh", "-c", "echo ready; exec sleep 1000"}})
	run.Says(t, "ready\nready\nready\n")
	r = l.mpiup(t, "peers", "--key", l.key, "--host", "w0,w1").OK(t)
	for _, want := range []string{`(?m)^w0 runs 2 ranks of sh, by \S+, since 20\d\d-\S+Z$`, `(?m)^w1 runs 1 rank of sh, by `, `(?m)^w0 +\S+ +alive +([2-9]|\d\d)/\d+ `} {
		if !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("nothing like %s in\n%s", want, r.Stdout)
		}
	}
	run.Signal(t, syscall.SIGTERM)
	run.Wait(t)
	l.mpiup(t, "peers", "--key", l.key, "--host", "w0,nobody", "--wait", "1").Fails(t, 242)
	r = l.mpiup(t, "peers", "--key", l.key, "--host", "w1:3,nobody:2,w0:1", "--discover").OK(t)
	if r.Stdout != "w1:3\nw0:1\n" {
		t.Errorf("discovered %q", r.Stdout)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.mpiup(t, "version").OK(t)
	if !regexp.MustCompile(`^mpiup \S+ \(protocol \d+, go\S+, linux/\w+(, FIPS 140-3.*)?\)\n$`).MatchString(r.Stdout) {
		t.Errorf("printed %q", r.Stdout)
	}
}

func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range [][]string{nil, {"run"}, {"agent"}, {"exec"}, {"peers"}, {"shutdown"}, {"topo"}, {"keygen"}, {"version"}} {
		if r := l.mpiup(t, append(c, "--help")...).OK(t); !strings.Contains(r.Stdout, "Examples:\n  mpiup ") {
			t.Errorf("mpiup %v --help has no example:\n%s", c, r.Stdout)
		}
	}
}

// bash asks the completion script as it does after a TAB.
func TestCompletion(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "bash", "bash")
	script := l.mpiup(t, "completion", "bash").OK(t).Stdout
	ask := func(line string) []string { return append([]string{"__complete"}, strings.Split(line, " ")...) }
	for line, want := range map[string]string{"": "run", "pe": "peers", "run --map-by ": "node", "run --output ": "json", "run --host": "--hostfile"} {
		r := l.mpiup(t, ask(line)...)
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("after %q: %q, not %s", line, r.Stdout, want)
		}
	}
	check := l.command(t, job{stdin: strings.NewReader(script + "\ncomplete -p mpiup\n")}, "bash", "-u", "-s").Wait(t)
	if check.Code != 0 || !strings.Contains(check.Stdout, "mpiup") {
		t.Errorf("bash: %d %s %s", check.Code, check.Stdout, check.Stderr)
	}
}
