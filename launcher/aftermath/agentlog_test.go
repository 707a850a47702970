package aftermath

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// asked is what a desk writes when it is asked of one file.
func asked(t *testing.T, path string, ask func(*Desk) (bool, error)) (out string, found bool) {
	t.Helper()
	var b strings.Builder
	found, err := ask(&Desk{Stdout: &b, Stderr: &b})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return b.String(), found
}

// Whoever is on call has often but one log. One of an agent says that it is one, and what the agent noted last; one without tags shows what stands
// before mpiup's own words; and a report is read as such by verdict, too.
func TestOneLogAlone(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const ready = `time=2026-11-26T20:45:43.850Z level=INFO msg="agent is ready" host=w0` + "\n"
	agent := write("agent.log", `time=2026-11-26T20:00:00.000Z level=WARN msg="a rank failed" rank=7`+"\n"+ready+
		`time=2026-11-26T20:45:53.670Z level=WARN msg="a rank failed" job=0 rank=1 pid=12475 end="signal 11"`+"\n"+
		`time=2026-11-26T20:45:53.770Z level=INFO msg=session session=1`+"\n")
	asJSON := write("agent.json", `{"time":"2026-11-26T20:45:43Z","level":"INFO","msg":"agent is ready","host":"w0"}`+"\n"+
		`{"time":"2026-11-26T20:46:43Z","level":"INFO","msg":"agent ends","why":"it was told to","code":143}`+"\n")
	good := write("ok.log", "step 1\nstep 2\n")
	for path, want := range map[string]string{
		agent:  "this is an agent's log: the verdict on a run stands in its launcher's\nwhat the agent noted last:\n  time=2026-11-26T20:45:53.670Z level=WARN msg=\"a rank failed\" job=0 rank=1",
		asJSON: "what the agent noted last:\n  {\"time\":\"2026-11-26T20:46:43Z\",\"level\":\"INFO\",\"msg\":\"agent ends\"",
		write("tail.log", `time=2026-11-26T20:46:43Z level=WARN msg="launcher lost" session=1 cause="it did not come back"`+"\n"): "msg=\"launcher lost\"",
		good: "no failure that mpiup knows is in these lines",
	} {
		for _, ask := range []func(*Desk) (bool, error){
			func(d *Desk) (bool, error) { return d.Why(path) },
			func(d *Desk) (bool, error) { return d.Verdict([]string{path}, false) },
		} {
			if out, found := asked(t, path, ask); found || !strings.Contains(out, want) || strings.Contains(out, "rank=7") || strings.Contains(out, "msg=session") {
				t.Errorf("%s: %v\n%s\nwant %q", path, found, out, want)
			}
		}
	}

	plain := write("plain.log", "reading deck\ncannot open input deck\n\nmpiup: rank 3 on w1 exited with code 3\nmpiup: exit-code; more: mpiup help exit-code\n")
	out, found := asked(t, plain, func(d *Desk) (bool, error) { return d.Why(plain) })
	if !found || !strings.Contains(out, "before mpiup's own, of whatever rank:\n  reading deck\n  cannot open input deck\n") || strings.Contains(out, "--rank 3") {
		t.Errorf("%v\n%s", found, out)
	}

	// bash's <(kubectl logs POD) is a pipe, which can be read but once.
	r0, w0, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r0.Close()
	if _, err := w0.WriteString("mpiup: rank 3 on w1 exited with code 3\nmpiup: exit-code; more: mpiup help exit-code\n"); err != nil {
		t.Fatal(err)
	}
	w0.Close()
	pipe := fmt.Sprint("/dev/fd/", r0.Fd())
	if out, found := asked(t, pipe, func(d *Desk) (bool, error) { return d.Verdict([]string{pipe}, false) }); !found || !strings.Contains(out, "rank:  3 on w1") {
		t.Errorf("by a pipe: %v\n%s", found, out)
	}

	rank := 2
	r := report.Report{Mark: report.Mark, Version: report.Version, Job: "j", Verdict: &verdict.Verdict{Kind: verdict.Killed, Rank: &rank, Host: "w2", Evidence: []string{"rank 2 was killed"}}}
	text, err := visible.JSONLine(r)
	if err != nil {
		t.Fatal(err)
	}
	file := write(report.FileName, string(text))
	for _, path := range []string{file, dir} {
		if out, found := asked(t, path, func(d *Desk) (bool, error) { return d.Verdict([]string{path}, false) }); !found || !strings.Contains(out, "kind:  killed\nrank:  2 on w2") {
			t.Errorf("%s: %v\n%s", path, found, out)
		}
	}
}
