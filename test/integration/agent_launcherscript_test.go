package integration

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/netns"
)

// The agents of a job end well when the launcher's script does, and stay when it fails; then only
// what its commands left behind is ended.
func TestLauncherScript(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"a", "b"}})
	agents := []*running{l.agent(t, "a", container{}), l.agent(t, "b", container{})}
	l.ssh(t, job{}, "-V").Wait(t) // makes the link
	script := func(text string) result {
		return l.command(t, job{env: []string{"MPIUP_KEY=" + l.key}}, l.bin, "launcher", "--host", "a,b", "--",
			"sh", "-c", strings.ReplaceAll(text, "RUN", l.bin+" run --host a:1,b:1 -n 2")).Wait(t)
	}
	ssh := strings.TrimSuffix(l.key, "key") + "ssh"

	r := script(ssh + ` b 'sleep 1077 >/dev/null 2>&1 &'; RUN true; exit 3`)
	if r.Code != 3 {
		t.Errorf("ended with %d: %s", r.Code, r.Stderr)
	}
	if left := l.matching(t, "b", "sleep 1077"); len(left) > 0 {
		t.Errorf("what a failed script left on b lives on: %v", left)
	}
	r = script(`sleep 1078 & RUN true && RUN hostname`)
	if r.Code != 0 {
		t.Errorf("ended with %d: %s", r.Code, r.Stderr)
	}
	for i, name := range []string{"a", "b"} {
		if !strings.Contains(r.Stdout, name+"\n") {
			t.Errorf("no rank on %s: %q", name, r.Stdout)
		}
		if end := agents[i].Wait(t); end.Code != 0 {
			t.Errorf("the agent of %s ended with %d", name, end.Code)
		}
	}
	if left := l.matching(t, netns.Launcher, "sleep 1078"); len(left) > 0 {
		t.Errorf("what the script left here lives on: %v", left)
	}
}

// An agent that was told so ends by itself when its job is over, not before the first.
func TestIdleExit(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"a"}})
	a := l.agent(t, "a", container{flags: []string{"--idle-exit", "1"}})
	for range 2 {
		l.run(t, job{hosts: "a:1", args: []string{"sh", "-c", "sleep 1.5"}}).OK(t)
	}
	if end := a.Wait(t); end.Code != 0 || !strings.Contains(end.Stderr, "--idle-exit") {
		t.Errorf("ended with %d: %s", end.Code, end.Stderr)
	}
}
