package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/netns"
)

// looked is what mpiup doctor --json says, as far as these tests read it.
type looked struct {
	Verdict string
	Rows    []struct {
		Check, Verdict, Text string
		Hosts                []string
	}
}

// says looks for a row of a check on exactly these hosts.
func (d looked) says(check, verdict, text string, hosts ...string) bool {
	for _, r := range d.Rows {
		if r.Check == check && r.Verdict == verdict && strings.Contains(r.Text, text) && slices.Equal(r.Hosts, hosts) {
			return true
		}
	}
	return false
}

func (l *lab) looks(t *testing.T, args ...string) (d looked, r result) {
	t.Helper()
	r = l.mpiup(t, append([]string{"doctor", "--key", l.key, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil {
		t.Fatalf("%v in\n%s%s", err, r.Stdout, r.Stderr)
	}
	return d, r
}

// A range with a port for each rank is all that the job gets, and it gets all of it: nothing that looked before it
// holds one, however many looked.
func TestPreflightLeavesThePortsToTheJob(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	for _, h := range l.cluster.Workers() {
		l.agent(t, h, container{})
	}
	const ports = "18000-18001"
	for i := range 6 {
		d, r := l.looks(t, "--host", "w0:2,w1:2", "--mpi-ports", ports)
		if r.Code != 0 || !d.says("reachable", "pass", "2 ways", "w0", "w1") {
			t.Fatalf("look %d ended with %d:\n%s%s", i+1, r.Code, r.Stdout, r.Stderr)
		}
	}
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"--preflight", "--mpi-ports", ports, "-n", "4", l.program(t, "ring")}})
	if r.Code != 0 {
		t.Fatalf("the job ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// A look that was not possible is a failure with its reason.
func TestPreflightThatCannotLook(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	for _, h := range l.cluster.Workers() {
		l.agent(t, h, container{})
	}
	const listener = `python3 -c 'import socket,time
s=socket.socket(); s.bind(("",18000)); s.listen(); print("up",flush=True); time.sleep(60)'`
	other := l.start(t, job{hosts: "w1:1", args: []string{"--mpi", "none", "-n", "1", "sh", "-c", listener}})
	other.Says(t, "up")
	r := l.run(t, job{hosts: "w0:1,w1:1", args: []string{"--preflight", "--mpi-ports", "18000-18000", "-n", "2", "echo", "started"}})
	if r.Code != 1 || strings.Contains(r.Stdout, "started") ||
		!strings.Contains(r.Stderr, "it cannot answer: no port of 18000-18000 is free") || !strings.Contains(r.Stderr, "address already in use") {
		t.Errorf("ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	r = l.run(t, job{hosts: "w0:1,w1:1", args: []string{"--preflight", "--net", "nope", "-n", "2", "echo", "started"}})
	if r.Code != 240 || strings.Contains(r.Stdout, "started") || !strings.Contains(r.Stderr, "no such interface") {
		t.Errorf("a wrong interface: ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	d, r := l.looks(t, "--host", "w0,w1", "--interface", "nope")
	if r.Code != 240 || !d.says("command line", "fail", "--interface nope: there is no such interface", "w1") {
		t.Errorf("doctor of a wrong interface ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// Slots of a hostfile, -n and -N are the plan that is judged, as in the run.
func TestDoctorJudgesThePlan(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	for _, h := range l.cluster.Workers() {
		l.agent(t, h, container{flags: []string{"--slots", "1"}})
	}
	const many = 500 // more than this machine has CPUs
	hostfile := l.file(t, fmt.Sprintf("w0 slots=%d\nw1 slots=1\n", many))
	d, r := l.looks(t, "--hostfile", hostfile)
	if r.Code != 0 || !d.says("plan", "pass", "500 ranks", "w0") || !d.says("slots and CPUs", "warn", "500 ranks on", "w0") ||
		!d.says("slots and CPUs", "pass", "1 rank on", "w1") {
		t.Errorf("slots of a hostfile: ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	d, r = l.looks(t, "--hostfile", hostfile, "-n", "1")
	if r.Code != 0 || !d.says("plan", "pass", "1 rank", "w0") || !d.says("plan", "pass", "no rank", "w1") || !d.says("slots and CPUs", "pass", "1 rank on", "w0") {
		t.Errorf("-n 1: ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r = l.mpiup(t, "doctor", "--key", l.key, "--hostfile", hostfile, "-n", "502"); r.Code != 240 || !strings.Contains(r.Stderr, "502 ranks asked for") {
		t.Errorf("more ranks than slots: ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	r = l.run(t, job{args: []string{"--hostfile", hostfile, "--preflight", "--dry-run", "-n", "500", "true"}})
	if r.Code != 0 || !strings.Contains(r.Stderr, "500 ranks on") {
		t.Errorf("a pre-flight of a dry run ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// The launcher's own host takes part with the agent in its process, and hosts that come late are waited for.
func TestPreflightHereAndLater(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0"}})
	late := l.start(t, job{hosts: "localhost:1,w0:1", args: []string{"--preflight", "--mpi-ports", "18000-18000", "-n", "2", "echo", "started"}})
	if err := late.Until(late.Stderr, "waiting for 1 of 2 hosts"); err != nil {
		t.Fatal(err)
	}
	l.agent(t, "w0", container{})
	if r := late.Wait(t); r.Code != 0 || strings.Count(r.Stdout, "started") != 2 || strings.Contains(r.Stderr, "FAIL") {
		t.Errorf("the run ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	d, r := l.looks(t, "--host", "localhost:1,w0:1")
	if r.Code != 0 || !d.says("reachable", "pass", "2 ways", "localhost", "w0") {
		t.Errorf("doctor ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
