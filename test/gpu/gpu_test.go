// Package gpu tests mpiup and mpiup-nvml, as programs, in a container whose GPUs are none: device files that lead nowhere, a
// script called nvidia-smi, and a library in NVML's place (testdata/nvml.c). It shows which source of GPUs is
// taken, what ranks are told, and what an agent's metrics say.
//
//	go test ./test/gpu
//
// It needs root, for a mount namespace, and gcc; one test needs a machine without NVIDIA's library. What a real GPU and driver do
// it does not show: docs/tested.md says where that was run.
package gpu

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// world is a directory with mpiup and whatever a test puts beside it.
type world struct{ dir string }

func newWorld(t *testing.T) world {
	t.Helper()
	need.Root(t)
	dir, err := os.MkdirTemp("/opt", "mpiup-gpu-*") // where an image has programs: a process that is root takes tools from nowhere else
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w := world{dir}
	if _, err := lab.BinaryIn(w.dir); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// build builds a command as the Makefile does.
func (w world) build(t *testing.T, name, cgo string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -extldflags=-Wl,-z,lazy",
		"-o", filepath.Join(w.dir, name), "github.com/mpiup/mpiup/cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
}

// nvml puts mpiup-nvml and the library into the world.
func (w world) nvml(t *testing.T) {
	t.Helper()
	need.Program(t, "gcc", "gcc and libc6-dev")
	w.build(t, "mpiup-nvml", "1")
	out, err := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-Wall", "-o", filepath.Join(w.dir, "libnvidia-ml.so.1"), "testdata/nvml.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
}

// container is the beginning of a shell's script in a mount namespace: /dev has what a container's
// has, and two GPUs.
const container = `set -e
mkdir -p "$1/old" && mount --rbind /dev "$1/old" && mount -t tmpfs -o mode=755 none /dev
for f in null zero full random urandom tty; do : >/dev/$f; mount --bind "$1/old/$f" /dev/$f; done
mkdir /dev/shm && ln -s /proc/self/fd /dev/fd
: >/dev/nvidia0; : >/dev/nvidia1; : >/dev/nvidiactl
export PATH="$1:/usr/local/bin:/usr/bin:/bin" LD_LIBRARY_PATH="$1"
`

// in runs a script in the container, and returns the lines of its output, sorted, and its standard
// error.
func (w world) in(t *testing.T, script string) (lines []string, stderr string) {
	t.Helper()
	need.Root(t)
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", container+script, "sh", w.dir)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/"}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, said.String())
	}
	lines = strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	return lines, said.String()
}

const ranks = ` sh -c 'echo "$MPIUP_LOCAL_RANK ${CUDA_VISIBLE_DEVICES-all} ${CUDA_DEVICE_ORDER-}"'`

func expect(t *testing.T, lines []string, want ...string) {
	t.Helper()
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
}

// GPUs are the slots, ranks see all of them, and those that are asked for are named as the best
// source that is there names them.
func TestRanksOfAContainerWithGPUs(t *testing.T) {
	w := newWorld(t)
	t.Run("files alone", func(t *testing.T) {
		lines, _ := w.in(t, "mpiup run"+ranks)
		expect(t, lines, "0 all", "1 all")
		lines, _ = w.in(t, "mpiup run --gpus-per-rank 1"+ranks)
		expect(t, lines, "0 0 PCI_BUS_ID", "1 1 PCI_BUS_ID")
		lines, _ = w.in(t, "NVIDIA_VISIBLE_DEVICES=void mpiup run"+ranks)
		expect(t, lines, "0 all", "1 all")
		lines, stderr := w.in(t, "CUDA_VISIBLE_DEVICES=1 mpiup run --gpu-bind map:0"+ranks)
		expect(t, lines, "0 1", "1 1")
		if !strings.Contains(stderr, "CUDA_VISIBLE_DEVICES is set for sh and stays") {
			t.Error(stderr)
		}
	})
	t.Run("nvidia-smi", func(t *testing.T) {
		w.write(t, "nvidia-smi", `#!/bin/sh
[ "$*" = "-q -x" ] || exit 2
cat <<X
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log><driver_version>550.54.15</driver_version>
<gpu id="00000000:65:00.0"><uuid>GPU-0000000d</uuid><minor_number>0</minor_number></gpu>
<gpu id="00000000:17:00.0"><uuid>GPU-0000000c</uuid><minor_number>1</minor_number></gpu>
</nvidia_smi_log>
X
`)
		lines, _ := w.in(t, "mpiup run --gpus-per-rank 1"+ranks)
		expect(t, lines, "0 GPU-0000000c", "1 GPU-0000000d")
		w.topo(t, "nvidia-smi 550.54.15 GPU-0000000c NODE GPU-0000000d")
	})
	w.nvml(t)
	t.Run("mpiup-nvml with an old driver", w.oldDriver)
	t.Run("mpiup-nvml", func(t *testing.T) {
		lines, _ := w.in(t, "mpiup run --gpus-per-rank 1"+ranks)
		expect(t, lines, "0 GPU-0000000a", "1 GPU-0000000b")
		lines, _ = w.in(t, "mpiup run -n 4 --oversubscribe --gpu-bind map:1,0,0"+ranks)
		expect(t, lines, "0 GPU-0000000b", "1 GPU-0000000a", "2 GPU-0000000a", "3 GPU-0000000b")
		lines, _ = w.in(t, "mpiup run -n 1 --gpus-per-rank 2"+ranks)
		expect(t, lines, "0 GPU-0000000a,GPU-0000000b")
		w.topo(t, "mpiup-nvml 418.226.00 GPU-0000000a NV4 GPU-0000000b")
	})
	t.Run("memory errors of a rank that fails", w.memoryErrors)
	t.Run("metrics", w.metrics)
	t.Run("mpiup-nvml without a driver", w.noDriver)
}

// topo compares what mpiup topo says of the container's two GPUs: who told of them, their driver, their
// names and the link between them.
func (w world) topo(t *testing.T, want string) {
	t.Helper()
	need.Root(t)
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", container+"mpiup topo --json", "sh", w.dir)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var doc struct {
		Summary struct{ GPUs int }
		GPUs    []struct{ ID, UUID string }
		Links   struct{ Rows [][]string }
		Driver  struct{ Source, Version string } `json:"gpu_driver"`
	}
	if err := json.Unmarshal(out, &doc); err != nil || doc.Summary.GPUs != 2 || len(doc.GPUs) != 2 || len(doc.Links.Rows) < 2 {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Join([]string{doc.Driver.Source, doc.Driver.Version, doc.GPUs[0].UUID, doc.Links.Rows[0][1], doc.GPUs[1].UUID}, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The program as it is shipped, with a library that lacks what newer ones have.
func (w world) oldDriver(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), filepath.Join(w.dir, "mpiup-nvml"))
	cmd.Env = []string{"LD_LIBRARY_PATH=" + w.dir}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got gpu.Report
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	one := func(pci, uuid string, minor int, peer string) gpu.ReportGPU {
		return gpu.ReportGPU{PCI: pci, UUID: uuid, Minor: &minor, Model: "Tesla V100-SXM2-32GB", Memory: 32 << 30,
			Peers: []gpu.PeerLinks{{PCI: peer, Links: 4}}, Health: &gpu.Health{Persistence: true, ECC: true}}
	}
	want := gpu.Report{Version: gpu.ReportVersion, Driver: "418.226.00", CUDA: "10.1", GPUs: []gpu.ReportGPU{
		one("0000:17:00.0", "GPU-0000000a", 0, "0000:65:00.0"), one("0000:65:00.0", "GPU-0000000b", 1, "0000:17:00.0")}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Errors that came to the GPU of a rank since its start are told of when it fails, and those of another rank's GPU, or from before, are not.
func (w world) memoryErrors(t *testing.T) {
	const told = `while [ $(wc -c </dev/shm/told) -lt 4 ]; do :; done; ` // the launch asks of both, and the start does
	for _, tt := range []struct{ name, script, want string }{
		{"they came", told + `[ $MPIUP_RANK = 1 ] && echo 5 >/dev/shm/ecc1 && exit 3; sleep 100`, "its GPU at PCI 0000:65:00 had 3 uncorrectable ECC errors since the rank started"},
		{"to another's", told + `[ $MPIUP_RANK = 1 ] && echo 5 >/dev/shm/ecc0 && exit 3; sleep 100`, ""},
		{"before", told + `[ $MPIUP_RANK = 1 ] && exit 3; sleep 100`, ""},
	} {
		_, stderr := w.in(t, "echo 2 >/dev/shm/ecc1; : >/dev/shm/told; mpiup run -n 2 --timeout 30s --gpus-per-rank 1 sh -c '"+tt.script+"' || [ $? = 3 ]; rm /dev/shm/*")
		if tt.want != "" && !strings.Contains(stderr, tt.want) || tt.want == "" && strings.Contains(stderr, "ECC") || !strings.Contains(stderr, "rank 1 on ") {
			t.Errorf("%s: %s", tt.name, stderr)
		}
	}
}

func (w world) noDriver(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), filepath.Join(w.dir, "mpiup-nvml"))
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	if err := os.Remove(filepath.Join(w.dir, "libnvidia-ml.so.1")); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		need.Done(t, "nonvidia", errors.New("this machine has NVIDIA's library"), "run where there is none")
	}
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "libnvidia-ml.so.1 is not there") {
		t.Errorf("%v: %s", err, out)
	}
}
