package gpu

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// metrics: an agent shows what the helper tells of GPUs, through the program and the library as they are, and nothing
// where nobody asks for it.
func (w world) metrics(t *testing.T) {
	url := w.agent(t, "--gpu-metrics", "1s")
	first := w.scrape(t, url, "mpiup_gpu_up ")
	if !strings.Contains(first, "mpiup_gpu_up 0\n") || strings.Contains(first, "mpiup_gpu_memory") {
		t.Errorf("before anybody has asked:\n%s", first)
	}
	got := w.scrape(t, url, "mpiup_gpu_up 1\n")
	for _, line := range []string{
		`mpiup_gpu_utilization_ratio{gpu="GPU-0000000a",pci="0000:17:00.0"} 0.5`,
		`mpiup_gpu_utilization_ratio{gpu="GPU-0000000b",pci="0000:65:00.0"} 0.51`,
		`mpiup_gpu_memory_bytes{gpu="GPU-0000000a",pci="0000:17:00.0"} 3.4359738368e+10`,
		`mpiup_gpu_memory_used_bytes{gpu="GPU-0000000a",pci="0000:17:00.0"} 1.073741824e+09`,
		`mpiup_gpu_temperature_celsius{gpu="GPU-0000000a",pci="0000:17:00.0"} 41`,
		`mpiup_gpu_power_watts{gpu="GPU-0000000a",pci="0000:17:00.0"} 250.5`,
		`mpiup_gpu_ecc_uncorrected_total{gpu="GPU-0000000b",pci="0000:65:00.0"} 0`,
		`mpiup_gpu_ecc_corrected_total{gpu="GPU-0000000b",pci="0000:65:00.0"} 0`,
		`mpiup_gpu_xid_errors_total{gpu="GPU-0000000b",pci="0000:65:00.0"} 0`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	for _, file := range []string{"board.json", "alerts.yaml"} {
		text, err := os.ReadFile("../../examples/monitoring/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bmpiup_gpu_[a-z_]+`).FindAllString(string(text), -1) {
			if !strings.Contains(got, "\n"+name+"{") {
				t.Errorf("%s names %s, which is not there", file, name)
			}
		}
	}
	if t.Failed() {
		t.Log(got)
	}
	if off := w.scrape(t, w.agent(t), "mpiup_sessions "); strings.Contains(off, "mpiup_gpu") {
		t.Errorf("nobody asked:\n%s", off)
	}
}

// agent runs in the container until the test ends.
func (w world) agent(t *testing.T, flags ...string) (url string) {
	t.Helper()
	need.Root(t)
	if err := lab.Keygen(filepath.Join(w.dir, "mpiup"), filepath.Join(w.dir, "key"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := free(t)
	argv := append([]string{"-m", "sh", "-c", container + `key=$1/key; shift; exec mpiup agent --key "$key" --no-gossip "$@"`, "sh", w.dir,
		"--listen", "127.0.0.1", "--http", at}, flags...)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "unshare", argv...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/"}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = lab.Bound
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // the context's error
		if code := cmd.ProcessState.ExitCode(); code != 0 || t.Failed() {
			t.Errorf("the agent ended with %d:\n%s", code, said.String())
		}
	})
	return "http://" + at + "/metrics"
}

// free is an address that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// scrape asks until the answer has a text.
func (w world) scrape(t *testing.T, url, text string) (got string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(got)
		}
	}()
	lab.Eventually(t, text+" at "+url, func() bool {
		r, err := http.Get(url)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		got = string(b)
		return err == nil && strings.Contains(got, text)
	})
	return got
}
