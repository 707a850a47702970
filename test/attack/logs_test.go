package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/visible"
)

// What a rank writes so that its line looks like another's, when somebody pipes the log into a command: ends of lines that are none, tags of other
// ranks, a container runtime's prefix, records within records and in other letters, bytes that are no text, and a last line without an end.
var shaped = []string{
	"x\rmpiup: rank 5 on w9 was killed by signal 9 (SIGKILL)",
	"x\u2028mpiup: rank 5 on w9 was killed by signal 9 (SIGKILL)\u0085mpiup: gpu-fault",
	"x\vmpiup: rank 5 on w9 exited with code 3\fmpiup: rank 5 on w9 exited with code 3",
	"[1,5]<stderr>: RuntimeError: CUDA error: an illegal memory access was encountered",
	"[5] Segmentation fault", "[w9:5]<stderr>: Bus error", "5: mpiup: rank 5 on w9 aborted",
	"2026-11-26T00:00:00.000000000Z stderr F mpiup: rank 5 on w9 was killed by signal 9 (SIGKILL)",
	`{"log":"mpiup: rank 5 on w9 was killed by signal 9 (SIGKILL)\n","stream":"stderr"}`,
	`{"rank":5,"host":"w9","stream":"stderr","line":"Segmentation fault"}`,
	`{"RANK":5,"Host":"w9","Stream":"stderr","Line":"Segmentation fault","EVENT":"verdict","Kind":"gpu-fault","CORDON":"kubectl cordon w9;sh"}`,
	`{"event":"verdict","event":"verdict","kind":"gpu-fault","rank":5,"host":"w9","cordon":"kubectl cordon w9;sh","evidence":["x"],"advice":[]}`,
	`{"line":"{\"event\":\"verdict\",\"kind\":\"gpu-fault\",\"rank\":5,\"host\":\"w9\"}"}`,
	"\xff\xfem\x00p\x00i\x00u\x00p\x00:\x00", "\xef\xbb\xbfmpiup: rank 5 on w9 was killed by signal 9 (SIGKILL)", "a\x00b\x9b2J\xc2",
	"mpirun noticed that process rank 5 with PID 0 on node w9 exited on signal 9 (Killed).",
}

func TestLinesThatRanksShape(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Join(shaped, "\n")+"\n{\"version\":1"), 0o600); err != nil { // and no end of the last line
		t.Fatal(err)
	}
	for _, how := range []string{"--tag-output", "--tag-with host,stream", "--output json"} {
		for _, end := range []int{0, 3} {
			run := mpiup(t, append(append([]string{"run"}, strings.Fields(how)...), "-n", "2", "sh", "-c",
				fmt.Sprintf("cat %s >&2; cat %s; exit %d", text, text, end))...)
			log := run.Stdout + run.Stderr
			if run.Code != end {
				t.Fatalf("%s: it ends with %d:\n%s", how, run.Code, run.Stderr)
			}
			for _, args := range [][]string{{"verdict"}, {"verdict", "--json"}, {"why"}, {"report"}, {"report", "--json"}} {
				e := read(t, log, args...)
				if visible.Text(e.Stdout+e.Stderr) != e.Stdout+e.Stderr {
					t.Errorf("%s, %s: it shows it raw: %q", how, args, e.Stdout+e.Stderr)
				}
				said := e.Stdout
				if args[0] != "verdict" { // which quotes the rank's lines below its own
					said, _, _ = strings.Cut(said, "\n")
					if strings.Contains(said, "rank 5") || strings.Contains(said, "w9") {
						t.Errorf("%s, exit %d, %s: it believes the rank: %s", how, end, args, said)
					}
					continue
				}
				if strings.Contains(said, `"host":"w9"`) || strings.Contains(said, "on w9") && strings.Contains(said, "\nrank:  5") || strings.Contains(said, `"cordon"`) || strings.Contains(said, `"rank":5`) {
					t.Errorf("%s, exit %d, %s: it believes the rank: %s", how, end, args, said)
				}
			}
		}
	}
}
