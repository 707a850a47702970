package session

import (
	"context"
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
	a, _ := tableOf(t, func(c *Config) {
		c.Env = append([]string{"PATH=/usr/bin:/bin"}, containerEnv...)
		c.Host = host.New(host.Config{Log: c.Log, Ask: func(context.Context, gpu.Config) (gpu.Inventory, error) { return fourGPUs(), nil }})
	})
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

// Which GPUs ranks see is decided by agent/outfit, whose scripts have the rows; here it reaches them, and what users are
// told reaches the launcher.
func TestRanksSeeTheirGPUs(t *testing.T) {
	lines, _ := sees(t, func(l *apiv1.Launch) { l.Job.GpusPerRank = 1 })
	if got := strings.Join(lines, " "); got != "0:GPU-a 1:GPU-b" {
		t.Errorf("ranks see %s", got)
	}
	lines, seen := sees(t, func(l *apiv1.Launch) { l.Job.GpusPerRank = 1 }, "CUDA_VISIBLE_DEVICES=2")
	warned := slices.ContainsFunc(seen, func(f *apiv1.Frame) bool { return f.GetNotice().GetWarning() })
	if got := strings.Join(lines, " "); got != "0:2 1:2" || !warned {
		t.Errorf("ranks see %s in place of what the container says; warned: %v", got, warned)
	}
	_, seen = sees(t, func(l *apiv1.Launch) { l.Job.GpusPerRank = 3 })
	if f := seen[len(seen)-1].GetStartFailed(); f == nil || !strings.HasPrefix(f.Text, "2 ranks with 3 GPUs each need 6") {
		t.Errorf("%v", seen[len(seen)-1])
	}
}
