package monitoring

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
)

const examples = "../../examples/monitoring/"

var bin, key string

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, func(dir string) (err error) {
		if bin, err = lab.Binary(dir); err != nil {
			return err
		}
		key = filepath.Join(dir, "key")
		return lab.Keygen(bin, key, 0o600)
	}, nil))
}

// job is a run of three ranks on two agents, which goes on until its rank 0 is told to fail.
type job struct {
	agents   [2]string // addresses of their metrics
	launcher string
	process  *lab.Process
	fail     io.Closer
}

func start(t *testing.T) *job {
	t.Helper()
	j := &job{launcher: free(t)}
	var hosts []string
	for i := range j.agents {
		a := lab.NewLoopback(t, bin, []string{"MPIUP_KEY=" + key})
		hosts = append(hosts, a.Addr+":2")
		j.agents[i] = a.Addr + ":7612"
	}
	cmd := exec.Command(bin, "run", "--key", key, "--host", strings.Join(hosts, ","), "--metrics", j.launcher, "-n", "3",
		"sh", "-c", `echo up; [ $MPIUP_RANK = 0 ] || exec sleep 1000; read x; exit 3`)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "MPIUP_REPORTS=" + t.TempDir()}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	j.fail = in
	if j.process, err = lab.StartHere(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-j.process.Done
	})
	j.process.Says(t, "up\nup\nup\n")
	return j
}

// scrape is what /metrics of an address shows, "" where nobody answers.
func scrape(addr string) string {
	r, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

// free is an address that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", lab.Address()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(examples + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Agents and launchers have all metrics that the board and the rules name, the page lists all that they have, and the end
// of a run is there to be read after it. GPUs' metrics are compared by test/gpu.
func TestNamesAreScraped(t *testing.T) {
	j := start(t)
	agent := scrape(j.agents[0])
	lab.Eventually(t, "the ranks show", func() bool {
		agent = scrape(j.agents[0])
		return strings.Contains(agent, `mpiup_ranks{state="no-mpi"} 2`)
	})
	var run string
	lab.Eventually(t, "all ranks have started", func() bool {
		run = scrape(j.launcher)
		return strings.Contains(run, `mpiup_run_phase{phase="running"} 1`) && strings.Contains(run, `mpiup_run_ranks{state="running"} 3`)
	})
	families := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (mpiup_\w+)`).FindAllStringSubmatch(agent+run, -1) {
		families[m[1]] = true
	}
	if len(families) < 15 {
		t.Fatalf("only %v", families)
	}
	name := regexp.MustCompile(`\bmpiup_[a-z_]+\b`)
	for _, file := range []string{"board.json", "alerts.yaml"} {
		for _, m := range name.FindAllString(read(t, file), -1) {
			if !families[m] && !strings.HasPrefix(m, "mpiup_gpu_") {
				t.Errorf("%s names %s, which nobody shows", file, m)
			}
		}
	}
	page, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range families {
		if !strings.Contains(string(page), "| `"+f+"`") && !strings.Contains(string(page), "| `"+f+"{") {
			t.Errorf("docs/monitoring.md has no row for %s", f)
		}
	}
	asked := []string{"mpiup_gpu_", "mpiup_run_waited_for_ratio", "mpiup_run_step_seconds", "mpiup_run_progress"} // with GPUs, --watch-ranks and --watch alone
	for _, m := range regexp.MustCompile(`(?m)^\| .(mpiup_[a-z_]+)[{.\x60]`).FindAllStringSubmatch(string(page), -1) {
		if !families[m[1]] && !slices.Contains(asked, m[1]) {
			t.Errorf("docs/monitoring.md has a row for %s, which nobody shows", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(read(t, "alerts.yaml"), -1) {
		if !strings.Contains(string(page), "| `"+m[1]+"` |") {
			t.Errorf("docs/monitoring.md has no row for %s", m[1])
		}
	}
	if n := strings.Count(run, "\nmpiup_"); n > 100 {
		t.Errorf("a launcher has %d series", n)
	}

	if err := j.fail.Close(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, "the end is there to be read", func() bool {
		run = scrape(j.launcher)
		return strings.Contains(run, `mpiup_run_verdicts_total{kind="exit-code"} 1`)
	})
	if !strings.Contains(run, `mpiup_run_phase{phase="done"} 1`) {
		t.Errorf("no end in\n%s", run)
	}
	j.process.Wait(t).Fails(t, 3, "exited with code 3")
	agent = scrape(j.agents[0])
	for _, want := range []string{`mpiup_processes_failed_total{how="code"} 1`, `mpiup_processes_failed_total{how="stopped"} 1`, "mpiup_jobs_started_total 1"} {
		if !strings.Contains(agent, want+"\n") {
			t.Errorf("no %s in\n%s", want, agent)
		}
	}
}

// A port that is taken ends the run before it begins.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", lab.Address()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(bin, "run", "--local", "--metrics", l.Addr().String(), "echo", "ran")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	r := lab.Run(t, lab.Bound, cmd)
	r.Fails(t, 240, "--metrics "+l.Addr().String(), "free port")
	if r.Stdout != "" {
		t.Errorf("it wrote %q", r.Stdout)
	}
}

// fill gives the board's variables values.
var fill = strings.NewReplacer("$namespace", ".*", "$mpijob", ".*", "$__rate_interval", "4s")

// queries are those of the board, with its variables filled in.
func queries(t *testing.T) []string {
	t.Helper()
	var board struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "board.json")), &board); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			list = append(list, fill.Replace(q.Expr))
		}
	}
	if len(list) < 15 {
		t.Fatalf("only %d queries", len(list))
	}
	return list
}
