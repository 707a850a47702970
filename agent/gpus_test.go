package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mpiup/mpiup/gpu"
)

// GPUs are looked at for mpiup ps and stalls by an agent without HTTP port and metrics of them, too.
func TestGPUsAreLookedAtWithoutMetrics(t *testing.T) {
	helper := filepath.Join(t.TempDir(), "helper")
	script := `#!/bin/sh
echo '{"version":1,"gpus":[{"pci":"0000:17:00.0","uuid":"GPU-1","usage":{"memory_used":5}}]}'
exec sleep 1000
`
	if err := os.WriteFile(helper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Name: "w0", Incarnation: "i", Log: slog.New(slog.DiscardHandler), Inside: &Inside{}, Env: []string{"PATH=/usr/bin:/bin"},
		GPUs: gpu.Inventory{Vendor: gpu.NVIDIA, GPUs: []gpu.GPU{{}}}, Helpers: Helpers{GPU: helper}})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, a)
	for begun := time.Now(); a.gpuMemory()["GPU-1"] != 5; {
		if time.Since(begun) > testBound {
			t.Fatalf("%v", a.gpuMemory())
		}
	}
	r.end()
	if code := r.ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
