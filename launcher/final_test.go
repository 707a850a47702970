package launcher

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// The verdict goes to people, to whoever reads JSON, and to a file that is made; it names what the run knows of the process.
func TestTheVerdictIsTold(t *testing.T) {
	var stdout, stderr strings.Builder
	r := aboutToLaunch(t, nil)
	r.cfg.Stdout, r.cfg.Stderr, r.cfg.Output.Mode = &stdout, &stderr, iof.JSON
	r.cfg.TerminationLog, r.cfg.TerminationBy = filepath.Join(t.TempDir(), "verdict"), "--termination-log"
	r.places.hosts()[1].First.Opened = &apiv1.Opened{Host: &apiv1.HelloReply{Node: "node-7", GpuUnits: []*apiv1.GpuUnit{{Uuid: "GPU-0"}, {Uuid: "GPU-1", Pci: "0000:3b:00.0"}}}}
	r.cfg.GPUs.PerRank = 1
	var err error
	if r.sink, err = iof.New(iof.Config{Ranks: 4}); err != nil {
		t.Fatal(err)
	}
	r.sink.Write(0, job.Stderr, []byte("all is well\n"), false, time.Time{})
	r.sink.Write(3, job.Stderr, []byte("loading\nCUDA error: uncorrectable ECC error encountered\n"), false, time.Time{})
	r.step(run.Frame{Host: 1, Frame: &apiv1.Frame{Body: &apiv1.Frame_Started{Started: &apiv1.Started{Rank: 3, Pid: 77}}}})
	r.step(run.Frame{Host: 1, Frame: &apiv1.Frame{Body: &apiv1.Frame_Exited{Exited: &apiv1.Exited{Rank: 3, Code: 1, Pmi: apiv1.PmiState_PMI_FINALIZED}}}})
	r.hear()
	f, _ := r.run.Verdict().Cause()
	if code := r.final(f, []string{"loading", "the end"}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"mpiup: rank 3 on w1 exited with code 1: CUDA error: uncorrectable ECC error encountered\n",
		"mpiup: node node-7, GPU GPU-1, PCI 0000:3b:00.0\n", "mpiup: to keep other jobs from that node: kubectl cordon node-7\n",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q lacks %q", stderr.String(), want)
		}
	}
	if !strings.HasSuffix(stderr.String(), "\nmpiup: gpu-fault; more: mpiup help gpu-fault\n") {
		t.Errorf("%q does not end with the kind", stderr.String())
	}
	var got struct {
		Event string
		verdict.Verdict
	}
	if err := json.Unmarshal([]byte(stdout.String()), &got); err != nil || got.Event != "verdict" || got.Kind != verdict.GPUFault || got.Rank == nil || *got.Rank != 3 ||
		got.Phase != "launching" || got.ExitCode != 1 || len(got.Stderr) != 2 {
		t.Errorf("%v: %s", err, stdout.String())
	}
	text, err := os.ReadFile(r.cfg.TerminationLog)
	if err != nil || !strings.Contains(string(text), "exit code 1\nits first lines:\nloading\n") || !strings.HasSuffix(string(text), "its last lines:\nthe end\n") {
		t.Errorf("%v: %q", err, text)
	}
}

// A run that ends before it has ranks has a verdict too, by its exit code.
func TestAnEarlyVerdict(t *testing.T) {
	for code, want := range map[int]string{242: "dns", 244: "identity", 241: "hosts-missing", 130: "interrupted", 248: "agent-lost"} {
		var stderr strings.Builder
		r := newDriver(Config{Reach: reach.Reach{Stderr: &stderr}})
		if got := r.early(reach.Failf(code, "host w1: x")); got != code || stderr.String() != "mpiup: host w1: x\nmpiup: "+want+"; more: mpiup help "+want+"\n" {
			t.Errorf("%d: %d, %q", code, got, stderr.String())
		}
	}
}
