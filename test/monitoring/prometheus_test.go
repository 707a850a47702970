package monitoring

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// promtool takes the rules, and each fires and does not as their tests say; a rule without a test is none.
func TestRules(t *testing.T) {
	need.Program(t, "promtool", "prometheus")
	for _, argv := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts-test.yaml"}} {
		cmd := exec.Command("promtool", argv...)
		cmd.Dir = examples
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", argv, err, out)
		}
	}
	tests := read(t, "alerts-test.yaml")
	for line := range strings.Lines(read(t, "alerts.yaml")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok && !strings.Contains(tests, "alertname: "+name+"\n") {
			t.Errorf("alerts-test.yaml never expects %s", name)
		}
	}
}

// Prometheus scrapes two agents and a launcher, and each query of the board finds something: those of a failed run after it, for
// which the launcher waits. Queries of GPUs, of which there are none here, are understood.
func TestPrometheus(t *testing.T) {
	need.Program(t, "prometheus", "prometheus")
	j := start(t)
	p := prometheus(t, j)
	found := map[string]bool{}
	all := func(which func(string) bool) func() bool {
		return func() bool {
			missing := 0
			for _, q := range queries(t) {
				if which(q) && !found[q] {
					if found[q] = len(p.query(t, q)) > 0; !found[q] {
						missing++
					}
				}
			}
			return missing == 0
		}
	}
	gpu := func(q string) bool { return strings.Contains(q, "mpiup_gpu_") }
	later := func(q string) bool { return strings.Contains(q, "verdicts") }
	lab.Eventually(t, "the board shows the run", all(func(q string) bool { return !gpu(q) && !later(q) }))
	for _, q := range queries(t) {
		if gpu(q) {
			p.query(t, q)
		}
	}
	if *picture != "" {
		draw(t, p)
	}
	if err := j.fail.Close(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, "the board shows the verdict", all(later))
	lab.Eventually(t, "the alert", func() bool { return len(p.query(t, `ALERTS{alertname="MpiupRunFailed", kind="exit-code"}`)) > 0 })
	j.process.Wait(t).Fails(t, 3)
	for _, job := range []string{"worker", "launcher"} {
		if len(p.query(t, fmt.Sprintf(`mpiup_build_info{namespace="here", mpijob="j", job=%q}[10m]`, job))) == 0 {
			t.Errorf("nothing of %s was scraped", job)
		}
	}
}

type server struct{ url string }

// prometheus runs until the test's end.
func prometheus(t *testing.T, j *job) server {
	t.Helper()
	rules, err := filepath.Abs(examples + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir, at := t.TempDir(), free(t)
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
- {job_name: worker, static_configs: [{targets: [%q, %q], labels: {namespace: here, mpijob: j}}]}
- {job_name: launcher, static_configs: [{targets: [%q], labels: {namespace: here, mpijob: j}}]}
`, rules, j.agents[0], j.agents[1], j.launcher)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("prometheus", "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", at)
	p, err := lab.StartHere(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		p.Wait(t)
	})
	if err := p.Until(p.Stderr, "ready to receive web requests"); err != nil {
		t.Fatal(err)
	}
	return server{"http://" + at}
}

// query is what a query finds now. A query that Prometheus does not understand fails the test.
func (s server) query(t *testing.T, q string) []json.RawMessage {
	t.Helper()
	return s.ask(t, "query", url.Values{"query": {q}})
}

func (s server) ask(t *testing.T, how string, values url.Values) []json.RawMessage {
	t.Helper()
	r, err := http.PostForm(s.url+"/api/v1/"+how, values)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s: %v %s", values.Get("query"), err, answer.Error)
	}
	return answer.Data.Result
}
