package session

import (
	"os"
	"strconv"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// hinted is what a rank that was launched with l says of its hint: the path and the file's size.
func hinted(t *testing.T, c *client, l *apiv1.Launch) (path string, size string) {
	t.Helper()
	l.Apps[0].Argv = []string{"sh", "-c", `echo "file=$HWLOC_XMLFILE" "$(wc -c <"${HWLOC_XMLFILE:-/dev/null}")"`}
	c.start(l)
	path, size, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(stdout(c.until(outputEnd))), "file="), " ")
	if !ok {
		t.Fatalf("the rank said %q", path)
	}
	return path, size
}

func TestRanksAreHandedTheTopology(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	path, size := hinted(t, c, jobLaunch(0, 0, 1, ""))
	text, err := os.ReadFile(path)
	if err != nil || strconv.Itoa(len(text)) != size || !strings.Contains(string(text), `type="PU"`) || c.session().jobs.Number(0).MachineXML() != string(text) {
		t.Fatalf("%s of %s bytes holds %d: %v", path, size, len(text), err)
	}
	if err := os.WriteFile(path, nil, 0); err == nil {
		t.Error("a rank can change the file")
	}
	if again, _ := hinted(t, c, jobLaunch(1, 1, 1, "")); again != path {
		t.Errorf("the next job got %s, want %s", again, path)
	}
	c.send((&apiv1.Bye{}).Frame())
	c.until(isClosed)
	if target, err := os.Readlink(path); strings.Contains(target, "topology") {
		t.Errorf("after the session: %s, %v", target, err)
	}
}

func TestWhoIsNotHandedTheTopology(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*apiv1.Launch)
		want string
	}{
		{"a command", func(l *apiv1.Launch) { l.Exec = &apiv1.Exec{} }, ""},
		{"a job that asks for none", func(l *apiv1.Launch) { l.Job.NoTopologyHint = true }, ""},
		{"a job with its own", func(l *apiv1.Launch) { l.Apps[0].Env = []string{"HWLOC_XMLFILE=/dev/null"} }, "/dev/null"},
		{"a job of another machine", func(l *apiv1.Launch) { l.Apps[0].Env = []string{"HWLOC_FSROOT=/x"} }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, newTable(t), '1', "life-1")
			c.dial(false)
			l := jobLaunch(0, 0, 1, "")
			tt.set(l)
			if path, _ := hinted(t, c, l); path != tt.want {
				t.Errorf("got %q, want %q", path, tt.want)
			}
			if c.session().jobs.Number(0).MachineXML() != "" {
				t.Error("PMI and PMIx are told of a machine")
			}
		})
	}
}
