package outfit

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/mpiup/mpiup/agent/host"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/test/fields"
	"google.golang.org/protobuf/proto"
)

// filledHost is one on which every field of a launch makes a difference.
func filledHost() described {
	return described{GPUs: []string{"GPU-a", "GPU-b", "GPU-c"}, Protocols: []string{"PMIX"}, NoFabric: true, Torch: true, OpenMPI: true, Hint: "/h",
		Links: []host.Link{{Name: "eth0", Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}}, Env: []string{"PATH=/bin"}}
}

// meant gives fields that are read as text a value that can be read, unless they are empty.
func meant(j *apiv1.Job) {
	set := func(field *string, value string) {
		if *field != "" {
			*field = value
		}
	}
	set(&j.Net, "eth0")
	set(&j.MpiPorts, "18000-18009")
	set(&j.GpuBind, "closest")
	set(&j.CheckpointDir, "/checkpoints")
	set(&j.Trace, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if j.Fabric != nil {
		set(&j.Fabric.Use, "tcp")
		set(&j.Fabric.Nccl, "ib=off")
	}
	if j.Meeting != nil {
		j.Meeting.Frameworks, j.Meeting.Host = 15, "10.0.0.1"
	}
}

// What a rank is started with loses no field of a job, but for those that others see to.
func TestJobLosesNothing(t *testing.T) {
	lost := fields.Lost(func(j *apiv1.Job) any {
		j = proto.CloneOf(j)
		meant(j)
		l := &apiv1.Launch{Job: j, Apps: []*apiv1.App{{Argv: []string{"a"}, Env: []string{"A=$MPIUP_RANK"}}, {Argv: []string{"b"}}}, Procs: []*apiv1.Proc{{}, {App: 1, LocalRank: 1}}}
		asked := outcome(t, l, filledHost())
		if j.Meeting != nil {
			j.Meeting.Frameworks |= uint32(frameworks.Torchrun) // in the place of what it gives otherwise
			asked += outcome(t, l, filledHost())
		}
		j.Net, j.GpusPerRank, j.Hosts = "", 0, 2*j.Hosts // what makes others needless
		parsed, err := Parse(l)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(asked, outcome(t, l, filledHost()), parsed.Needs())
	})
	const ids, pmi, pmix, choose, process = "agent/ranks/jobs.go", "agent/ranks/pmi.go", "agent/ranks/pmixjob.go", "agent/ranks/protocol.go", "agent/ranks/child.go"
	compare(t, lost, map[string]string{
		"Base": ids, "Parent": ids, "Spawned": pmi, "PmiUniverse": pmi, "Mapping": pmi, "Namespace": pmix, "Layout": pmix,
		"Pmi": choose, "Await": choose, "Window": process, "Pty": process, "PtyRows": process, "PtyColumns": process, "ShellTexts": process,
		"Guess": choose, "TellUse": choose, "AloneOk": "agent/ranks/start.go",
		"WorkerLogs": "agent/session/launch.go", "ActivityMs": "agent/ranks/activity.go", "WatchMs": "agent/ranks/facts.go", "MemoryMs": "agent/ranks/memory.go", "Progress": "agent/ranks/facts.go", "Seats": "agent/ranks/facts.go", "Flight": "agent/ranks/files.go", "GraceMs": "agent/session/session.go", "NoTopologyHint": "agent/ranks/facts.go",
	})
}

func TestAppLosesNothing(t *testing.T) {
	lost := fields.Lost(func(a *apiv1.App) any {
		if a = proto.CloneOf(a); len(a.Tools) > 0 {
			a.Tools[0].Ranks = "1"
		}
		if a.Argv = append(a.Argv, "-v"); len(a.Env) > 0 {
			a.Env[0] = "A=1"
		}
		l := &apiv1.Launch{Job: &apiv1.Job{Size: 1, Hosts: 1}, Apps: []*apiv1.App{a}, Procs: []*apiv1.Proc{{}, {Rank: 1}}}
		return outcome(t, l, filledHost())
	})
	const before, start = "agent/ranks/files.go", "agent/ranks/child.go"
	compare(t, lost, map[string]string{
		"Copied": before, "SessionDir": before, "WdirExplicit": "agent/ranks/start.go", "Path": start, "AlsoWdir": start,
	})
}

// compare holds what is lost to what is seen to elsewhere, with where.
func compare(t *testing.T, lost []string, elsewhere map[string]string) {
	t.Helper()
	for _, name := range lost {
		if elsewhere[name] == "" {
			t.Errorf("%s is lost: where is it seen to?", name)
		}
	}
	for name := range elsewhere {
		if !slices.Contains(lost, name) {
			t.Errorf("%s is seen to here", name)
		}
	}
}
