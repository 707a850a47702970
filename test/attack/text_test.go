package attack

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
)

// forged has what a terminal obeys, each kind of it, and what looks like a line of mpiup's own.
const forged = "x\u009b2J\u202ey\x1b]0;z\x07\rq\u2028r\n" + forgedLine + "\n"

const forgedLine = "mpiup: all is well"

// talker is a worker that puts forged into each text that it can send.
func talker(refuses bool) *teller {
	host := &apiv1.HelloReply{Incarnation: strings.Repeat("0f", 16), Slots: 1, Cpus: 1, Node: "node-7", Version: forged, Arch: forged, Scope: forged, Digest: forged,
		Uses: []*apiv1.Use{{Launcher: forged, Program: forged}}, GpuUnits: []*apiv1.GpuUnit{{Uuid: forged, Pci: forged, Vendor: forged, Model: forged}}}
	a := &teller{host: host, tells: fallen(forged),
		ranks: &apiv1.RanksReply{Error: forged, Ranks: []*apiv1.RankState{{Launcher: forged, Job: forged, Program: forged, State: forged, Syscall: forged, Wchan: forged, Mount: forged,
			Stack: &apiv1.ProcStack{Means: forged, Frames: []string{forged, forged}}}}, Notes: []string{forged, forged},
			Flights: []*apiv1.RunFlight{{Launcher: forged, Job: forged, Flights: []*apiv1.Flight{{Groups: []*apiv1.FlightGroup{{Name: forged, What: forged, Ranks: "0-1", Ops: []*apiv1.FlightOp{{Name: forged, Shape: forged, Where: forged}}}}}}}},
			Waits:   []*apiv1.RunWaits{{Launcher: forged, Job: forged, Size: 2, Placed: forged}}},
		peers: &apiv1.PeersReply{Self: host, Peers: []*apiv1.Peer{{Name: forged, Address: "127.0.0.1:1", Incarnation: forged, State: forged, Version: forged}}},
		checkup: &apiv1.CheckupReply{Host: host, Findings: []*apiv1.Finding{{Name: forged, Verdict: apiv1.Verdict_FAIL, Text: forged, Fix: forged}},
			Facts: []*apiv1.Fact{{Name: forged, Value: forged}}, Addresses: []string{forged}, Programs: []*apiv1.ProgramFile{{Name: forged, Path: forged}}, Rdma: []*apiv1.RdmaPort{{Device: forged}}},
	}
	if refuses {
		a.refuses = status.Error(codes.Internal, forged)
	}
	return a
}

// Text of others passes through every command that shows any. No control character, no change of direction and no line that looks
// like mpiup's own gets to a terminal, a file or a program that reads JSON.
func TestTextOfOthersInEachCommand(t *testing.T) {
	s := newSite(t)
	tls := "--tls-dir=" + s.files("mpiup://g/launcher/l")
	held := func(t *testing.T, what, text string) {
		t.Helper()
		if shown := visible.Text(text); shown != text || strings.Contains("\n"+text, "\n"+forgedLine) {
			t.Errorf("%s shows it raw:\n%q", what, text)
		}
	}
	for _, tt := range []struct {
		name    string
		refuses bool
	}{{"in what it answers", false}, {"in why it answers nothing", true}} {
		t.Run(tt.name, func(t *testing.T) {
			at := tell(t, s.files("mpiup://g/agent/x"), talker(tt.refuses))
			host := []string{tls, "--host", at}
			for _, args := range [][]string{{"ps"}, {"ps", "--json"}, {"stacks"}, {"stacks", "--json"}, {"peers"}, {"peers", "--json"}, {"peers", "--discover"},
				{"doctor", "--wait", "1"}, {"doctor", "--wait", "1", "--json"}, {"shutdown"}} {
				e := mpiup(t, append(args, host...)...)
				held(t, strings.Join(args, " "), e.Stdout)
				held(t, strings.Join(args, " ")+" on standard error", e.Stderr)
				if args[len(args)-1] == "--json" && !json.Valid([]byte(e.Stdout)) {
					t.Errorf("%s is no JSON: %q", args, e.Stdout)
				}
			}
			held(t, "exec", ours(mpiup(t, "exec", tls, "--wait", "1", at, "--", "true").Stderr))
			for _, output := range []string{"json", ""} {
				dir := t.TempDir()
				args := []string{"run", tls, "--wait", "1", "--host", at, "-n", "1", "--report", filepath.Join(dir, "report"), "--termination-log", filepath.Join(dir, "log")}
				if output != "" {
					args = append(args, "--output", output)
				}
				e := mpiup(t, append(args, "--", "true")...)
				if e.Code == 0 {
					t.Errorf("it ends with 0:\n%s", e.Stderr)
				}
				if output == "json" {
					held(t, "run --output json", e.Stdout)
					held(t, "run's standard error", e.Stderr)
				}
				held(t, "run", ours(e.Stderr))
				held(t, "the termination log", file(t, filepath.Join(dir, "log")))
				for _, name := range []string{"report.json", "events.jsonl"} {
					held(t, name, file(t, filepath.Join(dir, "report", name)))
				}
				log := filepath.Join(dir, "log.txt")
				if err := os.WriteFile(log, []byte(e.Stdout+e.Stderr), 0o600); err != nil {
					t.Fatal(err)
				}
				for _, argv := range [][]string{{"report", filepath.Join(dir, "report")}, {"report", "--json", filepath.Join(dir, "report")}, {"report", log}, {"report", "--json", log},
					{"verdict", log}, {"verdict", "--json", log}} {
					e := mpiup(t, argv...)
					held(t, strings.Join(argv[:len(argv)-1], " "), e.Stdout)
					held(t, argv[0]+"'s standard error", e.Stderr)
				}
			}
		})
	}
}

// ours are mpiup's own lines of a standard error, beside what the rank wrote.
func ours(stderr string) string {
	var b strings.Builder
	for l := range strings.Lines(stderr) {
		if strings.HasPrefix(l, "mpiup: ") {
			b.WriteString(l)
		}
	}
	return b.String()
}
