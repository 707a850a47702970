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
	r := l.mpiup(t, "peers", "--key", l.key, "--host", "w0,w1,w2").ok(t)
	for _, h := range []string{"w0", "w1", "w2"} {
		row := regexp.MustCompile(`(?m)^` + h + ` +` + regexp.QuoteMeta(l.cluster.Addr(h).String()) + `:\d+ +[0-9a-f]{8} +alive +\d+/\d+ +\S+/\d+ +[\d.]+.?s$`)
		if !row.MatchString(r.stdout) {
			t.Errorf("no row of %s in\n%s", h, r.stdout)
		}
	}
	if !strings.HasPrefix(r.stdout, "scope default ") {
		t.Errorf("the scope is not told:\n%s", r.stdout)
	}
	var view struct {
		Scope string
		Peers []struct {
			Host, Address, Incarnation, State, Version string
			Slots, Used                                int
			RTT                                        float64 `json:"rtt_ms"`
		}
	}
	r = l.mpiup(t, "peers", "--key", l.key, "--host", "w0,w2", "--json").ok(t)
	if err := json.Unmarshal([]byte(r.stdout), &view); err != nil {
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
	run.says(t, "ready\nready\nready\n")
	r = l.mpiup(t, "peers", "--key", l.key, "--host", "w0,w1").ok(t)
	for _, want := range []string{`(?m)^w0 runs 2 ranks of sh, by \S+, since 20\d\d-\S+Z$`, `(?m)^w1 runs 1 rank of sh, by `, `(?m)^w0 +\S+ +\S+ +alive +([2-9]|\d\d)/\d+ `} {
		if !regexp.MustCompile(want).MatchString(r.stdout) {
			t.Errorf("nothing like %s in\n%s", want, r.stdout)
		}
	}
	run.signal(t, syscall.SIGTERM)
	run.wait(t)
	l.mpiup(t, "peers", "--key", l.key, "--host", "w0,nobody", "--wait", "1").fails(t, 242)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.mpiup(t, "version").ok(t)
	if !regexp.MustCompile(`^mpiup \S+ \(protocol \d+, go\S+, linux/\w+\)\n$`).MatchString(r.stdout) {
		t.Errorf("printed %q", r.stdout)
	}
}

func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range [][]string{nil, {"run"}, {"agent"}, {"exec"}, {"peers"}, {"shutdown"}, {"topo"}, {"keygen"}, {"version"}} {
		if r := l.mpiup(t, append(c, "--help")...).ok(t); !strings.Contains(r.stdout, "Examples:\n  mpiup ") {
			t.Errorf("mpiup %v --help has no example:\n%s", c, r.stdout)
		}
	}
}

// bash asks the completion script as it does after a TAB.
func TestCompletion(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "bash", "bash")
	script := l.mpiup(t, "completion", "bash").ok(t).stdout
	ask := func(line string) []string { return append([]string{"__complete"}, strings.Split(line, " ")...) }
	for line, want := range map[string]string{"": "run", "pe": "peers", "run --map-by ": "node", "run --output ": "json", "run --host": "--hostfile"} {
		r := l.mpiup(t, ask(line)...)
		if !strings.Contains(r.stdout, want) {
			t.Errorf("after %q: %q, not %s", line, r.stdout, want)
		}
	}
	check := l.command(t, job{stdin: strings.NewReader(script + "\ncomplete -p mpiup\n")}, "bash", "-u", "-s").wait(t)
	if check.code != 0 || !strings.Contains(check.stdout, "mpiup") {
		t.Errorf("bash: %d %s %s", check.code, check.stdout, check.stderr)
	}
}
