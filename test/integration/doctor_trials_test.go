package integration

import (
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/netns"
)

// TestDoctorTrials tries a directory that all hosts see and one that each has for itself, the processors, and commands of the
// site's own, of which one fails on one host.
func TestDoctorTrials(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1", "w2"}})
	for _, h := range l.cluster.Workers() {
		l.agent(t, h, container{})
	}
	dir := l.folder(t)
	doctor := func(args ...string) result {
		return l.mpiup(t, append([]string{"doctor", "--key", l.key, "--host", "w0:1,w1:1,w2:1"}, args...)...)
	}
	says := func(r result, code int, patterns ...string) {
		t.Helper()
		if r.Code != code {
			t.Errorf("ended with %d, want %d:\n%s%s", r.Code, code, r.Stdout, r.Stderr)
		}
		for _, p := range patterns {
			if !regexp.MustCompile(`(?m)` + p).MatchString(r.Stdout) {
				t.Errorf("no line says %s:\n%s", p, r.Stdout)
			}
		}
	}
	says(doctor("--shared", dir, "--shared-size", "2", "--check", "echo fine"), 0,
		`^ok +locks +all 3 +.*: a lock kept every other host out; a counter was raised 60 times under one, and none was lost$`,
		`^ok +storage speed +.*2 MiB by each host at once: written at \d`,
		`^ok +check echo fine +all 3 +code 0: fine$`)
	if left, err := filepath.Glob(filepath.Join(dir, ".mpiup*")); err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	says(doctor("--shared", "/tmp", "--shared-size", "1", "--check", `[ $(hostname) != w1 ] || { echo it is w1 >&2; exit 7; }`), 1,
		`^FAIL +shared directory +w0 +/tmp: what w1,w2 wrote is not there: it is another directory$`,
		`^FAIL +shared directory +w1 +/tmp: what w0,w2 wrote`,
		`^FAIL +check .* w1 +code 7: it is w1$`, `^ok +check .* w0,w2 +code 0$`)
	for _, h := range l.cluster.Workers() {
		out, err := l.cluster.Command(t.Context(), h, "find", "/tmp", "-name", ".mpiup-doctor*").CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("left on %s: %s, %v", h, out, err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	says(doctor("--shared", filepath.Join(dir, "none")), 1, `^FAIL +shared directory +all 3 +.*/none: no such file or directory$`)
}

// An agent that may not start ranks is not looked at, and nothing is started there.
func TestDoctorTrialsAreRefused(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0"}})
	l.agent(t, "w0", container{flags: []string{"--deny", "run"}})
	r := l.mpiup(t, "doctor", "--key", l.key, "--host", "w0", "--check", "touch /tmp/started", "--shared", "/tmp")
	if r.Code != 1 || !strings.Contains(r.Stdout, "policy refuses run") {
		t.Errorf("ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if out, err := l.cluster.Command(t.Context(), "w0", "ls", "/tmp/started").CombinedOutput(); err == nil {
		t.Errorf("it was started: %s", out)
	}
}

// A signal ends what doctor started on the hosts, and what that wrote is removed; doctor says both and has the signal's code.
func TestDoctorTrialsEndBySignal(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	agents := map[string]*running{"w0": l.agent(t, "w0", container{}), "w1": l.agent(t, "w1", container{})}
	dir := l.folder(t)
	for _, tt := range []struct {
		name  string
		args  []string
		begun string // in each agent's log
		sig   syscall.Signal
		says  string
	}{
		{"writes", []string{"--shared", dir, "--shared-size", "256", "--check", "exec sleep 1001"}, "trial shared write " + dir, syscall.SIGINT, "what it wrote in " + dir + " has been removed"},
		{"locks", []string{"--shared", dir, "--shared-size", "1", "--check", "exec sleep 1002"}, "trial shared lock " + dir, syscall.SIGTERM, "what it wrote in " + dir + " has been removed"},
		{"checks", []string{"--check", "exec sleep 1003"}, "sleep 1003", syscall.SIGHUP, "there is no report"},
	} {
		if signal.Ignored(tt.sig) { // by nohup or a shell before this test, whose wish mpiup heeds
			tt.sig = syscall.SIGTERM
		}
		r := l.command(t, job{}, append([]string{l.bin, "doctor", "--key", l.key, "--host", "w0:1,w1:1"}, tt.args...)...)
		for h, a := range agents {
			if err := a.Until(a.Stderr, tt.begun); err != nil {
				t.Fatalf("%s on %s: %v", tt.name, h, err)
			}
		}
		r.Signal(t, tt.sig)
		if got := r.Wait(t).Fails(t, 128+int(tt.sig), "mpiup doctor was ended before it was done", tt.says); got.Stdout != "" {
			t.Errorf("%s: a report of what was not done:\n%s", tt.name, got.Stdout)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", tt.name, left, err)
		}
		for h := range agents {
			if out, err := l.cluster.Command(t.Context(), h, "pgrep", "-fa", "^/proc/self/exe trial|sleep 100").Output(); err == nil {
				t.Errorf("%s: still runs on %s: %s", tt.name, h, out)
			}
		}
	}
}
