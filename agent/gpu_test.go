package agent

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/topology"
)

// fourGPUs are what an agent is taken to have found.
func fourGPUs() gpu.Inventory {
	inv := gpu.Inventory{Vendor: gpu.NVIDIA, Source: "a test"}
	for i, name := range []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d"} {
		inv.GPUs = append(inv.GPUs, gpu.GPU{Number: i, UUID: name, At: topology.PCIAddr{Bus: uint8(i + 1)}})
	}
	return inv
}

// sees runs ranks that print their local rank and what they see.
func sees(t *testing.T, change func(*apiv1.Launch), containerEnv ...string) (lines []string, seen []*apiv1.Frame) {
	t.Helper()
	a, err := New(Config{Name: "w0", Version: "test", Incarnation: "agent-life", Embedded: true, Dir: "/",
		Env: append([]string{"PATH=/usr/bin:/bin"}, containerEnv...), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	a.host = host.New(host.Config{Log: a.cfg.Log, Ask: func(context.Context, gpu.Config) (gpu.Inventory, error) { return fourGPUs(), nil }})
	runAgent(t, a)
	client := newClient(t, a, '1', "life-1")
	client.dial(false)
	l := &apiv1.Launch{Job: &apiv1.Job{Id: "job", Size: 2, Universe: 2, Hosts: 1, Window: 64 << 10, Pmi: apiv1.Pmi_PMI_NONE}, Number: 1, Apps: []*apiv1.App{{Argv: []string{"sh", "-c", `echo "$MPIUP_LOCAL_RANK ${CUDA_VISIBLE_DEVICES-all}"`}}}}
	// The ranks' order is not that of their local ranks, which nothing promises.
	l.Procs = []*apiv1.Proc{{Rank: 1, LocalRank: 1}, {Rank: 0, LocalRank: 0}}
	change(l)
	client.send(l.Frame())
	ends := 0
	seen = client.until(func(f *apiv1.Frame) bool {
		if outputEnd(f) {
			ends++
		}
		return ends == 2 || f.GetStartFailed() != nil
	})
	lines = strings.Fields(strings.ReplaceAll(stdout(seen), " ", ":"))
	slices.Sort(lines)
	return lines, seen
}

func TestRanksSeeTheirGPUs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*apiv1.Launch)
		env    []string
		want   string
		notice string
	}{
		{"all, as nothing was asked", func(*apiv1.Launch) {}, nil, "0:all 1:all", ""},
		{"one each", func(l *apiv1.Launch) { l.Job.GpusPerRank = 1 }, nil, "0:GPU-a 1:GPU-b", ""},
		{"two each", func(l *apiv1.Launch) { l.Job.GpusPerRank = 2 }, nil, "0:GPU-a,GPU-b 1:GPU-c,GPU-d", ""},
		{"a map", func(l *apiv1.Launch) { l.Job.GpuBind = "map:3,1" }, nil, "0:GPU-d 1:GPU-b", ""},
		{"a mask", func(l *apiv1.Launch) { l.Job.GpuBind = "mask:0x5" }, nil, "0:GPU-a,GPU-c 1:GPU-a,GPU-c", ""},
		{"the container's own", func(l *apiv1.Launch) { l.Job.GpusPerRank = 1 }, []string{"CUDA_VISIBLE_DEVICES=2"}, "0:2 1:2",
			"CUDA_VISIBLE_DEVICES is set for sh and stays"},
		{"the user's", func(l *apiv1.Launch) { l.Job.GpusPerRank, l.Apps[0].Env = 1, []string{"CUDA_VISIBLE_DEVICES="} }, nil, "0: 1:",
			"CUDA_VISIBLE_DEVICES is set for sh and stays"},
	} {
		lines, seen := sees(t, tt.change, tt.env...)
		if got := strings.Join(lines, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		notices := ""
		for _, f := range seen {
			if n := f.GetNotice(); n != nil && n.Warning {
				notices += n.Text + "\n"
			}
		}
		if (tt.notice == "") != (notices == "") || !strings.HasPrefix(notices, tt.notice) || strings.Count(notices, "\n") > 1 {
			t.Errorf("%s: said %q, want %q", tt.name, notices, tt.notice)
		}
	}
}

func TestAWishThatCannotBeMetIsAnError(t *testing.T) {
	for _, tt := range []struct {
		change func(*apiv1.Launch)
		want   string
	}{
		{func(l *apiv1.Launch) { l.Job.GpusPerRank = 3 }, "2 ranks with 3 GPUs each need 6, and this host has 4"},
		{func(l *apiv1.Launch) { l.Job.GpuBind = "map:0,4" }, "--gpu-bind gives local rank 1 GPU 4, and this host has 4"},
		{func(l *apiv1.Launch) { l.Job.GpuBind = "nonsense" }, `--gpu-bind: "nonsense" is not known`},
		{func(l *apiv1.Launch) { l.Job.GpusPerRank = 1 << 31 }, "--gpus-per-rank: 2147483648 is out of range"},
	} {
		_, seen := sees(t, tt.change)
		if f := seen[len(seen)-1].GetStartFailed(); f == nil || !strings.HasPrefix(f.Text, tt.want) {
			t.Errorf("%v, want %s", seen[len(seen)-1], tt.want)
		}
	}
}
