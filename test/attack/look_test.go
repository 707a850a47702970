package attack

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
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
