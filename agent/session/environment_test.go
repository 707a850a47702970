package session

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
)

// documented is docs/data/environment.tsv: who gets a variable, and whether always.
func documented(t *testing.T) map[string]struct {
	who    string
	always bool
} {
	t.Helper()
	text, err := os.ReadFile("../../docs/data/environment.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]struct {
		who    string
		always bool
	}{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z]\w+)\t([^\t]+)\t`).FindAllStringSubmatch(string(text), -1) {
		who, _, sometimes := strings.Cut(m[2], ",")
		rows[m[1]] = struct {
			who    string
			always bool
		}{who, !sometimes}
	}
	return rows
}

// ownCPUs is the list of those that this process may use.
func ownCPUs(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(list)
}

// Every variable that processes get is in docs/data/environment.tsv, and they get what it says.
func TestEnvironmentIsDocumented(t *testing.T) {
	rows := documented(t)
	theirs := []string{"PATH", "HOST_VAR"} // the container's
	given := map[string]bool{}
	for _, c := range []struct {
		name   string
		launch *apiv1.Launch
		who    []string
		more   frameworks.Set
	}{
		{"a command", &apiv1.Launch{Job: &apiv1.Job{}, Exec: &apiv1.Exec{}}, []string{"every process"}, 0},
		{"none", &apiv1.Launch{Job: &apiv1.Job{Pmi: apiv1.Pmi_PMI_NONE}}, []string{"every process", "every rank"}, 0},
		{"PMI-1", &apiv1.Launch{Job: &apiv1.Job{Pmi: apiv1.Pmi_PMI_FD}}, []string{"every process", "every rank", "ranks with PMI", "ranks with PMI by descriptor"}, 0},
		{"PMI-2", &apiv1.Launch{Job: &apiv1.Job{Pmi: apiv1.Pmi_PMI_2}}, []string{"every process", "every rank", "ranks with PMI", "ranks with PMI by descriptor", "ranks with PMI-2"}, 0},
		{"a port", &apiv1.Launch{Job: &apiv1.Job{Pmi: apiv1.Pmi_PMI_PORT}}, []string{"every process", "every rank", "ranks with PMI", "ranks with PMI over a port"}, 0},
		{"PMIx", &apiv1.Launch{Job: &apiv1.Job{Pmi: apiv1.Pmi_PMI_PMIX, Namespace: "n", Layout: []*apiv1.HostRanks{{Name: "w0", Ranks: "0-2"}}}},
			[]string{"every process", "every rank", "ranks with PMIx"}, 0},
		{"files", &apiv1.Launch{Job: &apiv1.Job{Pmi: apiv1.Pmi_PMI_NONE}, Files: []*apiv1.CopyFile{{Name: "a"}}},
			[]string{"every process", "every rank", "ranks of a job with copied files"}, 0},
		{"the name torchrun", &apiv1.Launch{Job: &apiv1.Job{Pmi: apiv1.Pmi_PMI_NONE}}, []string{"every process", "every rank"}, frameworks.Torchrun},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := newClient(t, newTable(t), '1', "life-1")
			client.dial(false)
			l := c.launch
			l.Number, l.Job.Id, l.Job.Size, l.Job.Universe, l.Job.Hosts, l.Job.Window = 1, "job", 3, 3, 1, 64<<10
			l.Apps = []*apiv1.App{{Argv: []string{"env", "-u", "NONE"}}}
			l.Job.Net, l.Job.MpiPorts, l.Job.CheckpointDir = "lo", "18000-18099", filepath.Join(t.TempDir(), "made")
			l.Job.Meeting = &apiv1.Meeting{Frameworks: uint32(frameworks.Auto | frameworks.TensorFlow | frameworks.Horovod | frameworks.HorovodGloo | c.more), Host: "10.1.2.3",
				Torch: 20001, Jax: 20002, Tf: []string{"10.1.2.3:1", "10.1.2.3:2", "10.1.2.3:3"}, OnePerHost: true}
			l.Job.Trace, l.Job.TraceState = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1"
			l.Job.Fabric = &apiv1.Fabric{Use: "tcp", Nccl: "p2p=off,ib=off,shm=off"}
			for rank := range l.Job.Size {
				l.Procs = append(l.Procs, &apiv1.Proc{Rank: rank, LocalRank: rank, Cpus: ownCPUs(t)})
			}
			client.send(l.Frame())
			ends := 0
			seen := client.until(func(f *apiv1.Frame) bool {
				if outputEnd(f) {
					ends++
				}
				return ends == int(l.Job.Size)
			})
			got := map[string]bool{}
			for line := range strings.Lines(stdout(seen)) {
				name, _, _ := strings.Cut(line, "=")
				if !slices.Contains(theirs, name) {
					got[name], given[name] = true, true
				}
			}
			for name := range got {
				if row, ok := rows[name]; !ok || !slices.Contains(c.who, row.who) {
					t.Errorf("%s is given and not documented for this", name)
				}
			}
			for name, row := range rows {
				if row.always && slices.Contains(c.who, row.who) && !got[name] {
					t.Errorf("%s is documented and not given", name)
				}
			}
		})
	}
	// What only a terminal or a spawning rank brings is tested with those.
	elsewhere := []string{"TERM", "PMI_SPAWNED"}
	// The library for --watch-ranks is made by a C compiler: test/integration has it.
	elsewhere = append(elsewhere, "MPIUP_WATCH_PAGE", "MPIUP_PROGRESS")
	// Whose agents share /dev/shm: pmi/pmix/jobdata and test/integration have those.
	elsewhere = append(elsewhere, "OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_osc_sm_backing_directory", "OMPI_MCA_osc_rdma_backing_directory")
	// Nor is every machine one with RDMA devices: package rdma tests what those bring.
	elsewhere = append(elsewhere, "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX")
	if verbs, _ := filepath.Glob("/dev/infiniband/uverbs*"); len(verbs) > 0 {
		elsewhere = append(elsewhere, "OMPI_MCA_pml", "OMPI_MCA_btl")
	}
	// Those of GPUs are tested with package gpu.
	elsewhere = append(elsewhere, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "ZE_ENABLE_PCI_ID_DEVICE_ORDER")
	// Those of NCCL's Inspector need an agent with an HTTP port: packages outfit and metrics have them.
	elsewhere = append(elsewhere, "NCCL_INSPECTOR_PROM_DUMP", "NCCL_INSPECTOR_DUMP_DIR", "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS")
	// Those of torch's flight recorder need a Python with torch: internal/frameworks tests them.
	elsewhere = append(elsewhere, "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
		"TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
	elsewhere = append(elsewhere, "PET_NPROC_PER_NODE", "PET_REDIRECTS", "PET_TEE", "JAX_LOCAL_DEVICE_IDS")
	if verbs, _ := filepath.Glob("/dev/infiniband/uverbs*"); len(verbs) > 0 {
		elsewhere = append(elsewhere, "UCX_NET_DEVICES")
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if !given[name] && !slices.Contains(elsewhere, name) {
			t.Errorf("nobody got %s", name)
		}
	}
}
