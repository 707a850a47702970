package frameworks

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Rank is one process of a job, as frameworks count. All numbers begin at 0.
type Rank struct {
	Rank, Size       int
	Torchrun         Group  // zero: all hosts have as many ranks, and all ranks one role
	Local, LocalSize int    // among the job's ranks of its host
	Node             int    // index of its host among the job's hosts
	OnePerHost       bool   // every host of the job has one rank
	Cross, CrossSize int    // its host among those that have a rank of its local rank, and how many those are
	Host             string // name of its host
	OldTorchrun      bool   // its torchrun ends at once unless it is told of output (torch 1.13 on Python 3.11, Debian 12's)
	GPUs             int    // that it sees; 0: none, or unknown
	Narrowed         bool   // it sees some of its host's GPUs only
	Restarts         int    // how often the job has been started again after failures
	MaxRestarts      int    // and may be
	Torch            string // version of its torch; "": none was found
	Recorder         Recorder
}

// Group is what torchrun counts where each host's may start another number of ranks, of another role.
type Group struct {
	Hosts    int // how many there are
	RoleRank int // among the ranks of its role
	RoleSize int // how many these are
}

// Recorder is where torch's flight recorder writes to; the zero value: nowhere.
type Recorder struct {
	Prefix string // of a dump's path; torch adds its rank
	Pipe   string // of the path of a pipe by which a dump is asked for; torch adds its rank and ".pipe"
}

// Meeting is where the ranks of a job meet. Ports that are 0 could not be had.
type Meeting struct {
	Host  netip.Addr // of rank 0's host, as the other hosts reach it
	Torch uint16     // rank 0 listens there
	JAX   uint16     // likewise
	Gloo  uint16     // Horovod's store on this rank's own loopback
	TF    []string   // address and port of each rank; empty: none were reserved
}

// Variable is one of a rank's.
type Variable struct{ Name, Value, Why string }

// Given says whether a variable was given already: by the user for this run, or by the container that
// the rank runs in.
type Given struct{ User, Container func(name string) bool }

// Variables are what a rank gets. What the user gave stays. What the container has stays where it tells of a place to
// meet, unless it also says who the process is. Then an operator wrote it for the pod's one process, and a rank of
// ours is another.
func Variables(s Set, r Rank, m Meeting, g Given) (list []Variable) {
	operator := g.Container("RANK") || g.Container("WORLD_SIZE")
	add := func(readBy string, place bool, pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			name := pairs[i]
			if g.User(name) || place && g.Container(name) && !operator {
				continue
			}
			list = append(list, Variable{name, pairs[i+1], readBy})
		}
	}
	if s&Torch != 0 {
		r.torch(add)
		if m.Host.IsValid() && m.Torch != 0 {
			m.torch(add)
		}
		list = append(list, r.recorder(g)...)
		if s&Torchrun != 0 {
			r.torchelastic(add)
		} else if m.Host.IsValid() && m.Torch != 0 {
			r.torchrun(add, m, g)
		}
	}
	if s&JAX != 0 && m.Host.IsValid() && m.JAX != 0 {
		r.jax(add, m)
	}
	if s&Horovod != 0 && m.Gloo != 0 {
		r.horovod(add, s, m)
	}
	if s&TensorFlow != 0 && r.Rank < len(m.TF) {
		add("TensorFlow's MultiWorkerMirroredStrategy", false, "TF_CONFIG", tfConfig(r.Rank, m.TF))
	}
	return list
}

type adder func(readBy string, place bool, pairs ...string)

// torch is who a process is, by torch/distributed/rendezvous.py (env://), which Lightning, Accelerate and
// DeepSpeed read too.
func (r Rank) torch(add adder) {
	add("torch.distributed's env://, and Lightning, Accelerate and DeepSpeed with it: who this rank is", false,
		"RANK", strconv.Itoa(r.Rank), "WORLD_SIZE", strconv.Itoa(r.Size),
		"LOCAL_RANK", strconv.Itoa(r.Local), "LOCAL_WORLD_SIZE", strconv.Itoa(r.LocalSize))
	add("Lightning: the host's index", false, "NODE_RANK", strconv.Itoa(r.Node))
}

func (m Meeting) torch(add adder) {
	add("torch.distributed's env://: where rank 0 listens", true,
		"MASTER_ADDR", m.Host.String(), "MASTER_PORT", port(m.Torch))
}

// torchrun is its options by their environment names (torch/distributed/run.py, PET_), so that a bare torchrun
// on each host makes one job of them. A pod whose operator set any of them has its own.
func (r Rank) torchrun(add adder, m Meeting, g Given) {
	if !r.OnePerHost {
		return
	}
	for _, name := range []string{"PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", "PET_STANDALONE"} {
		if g.User(name) || g.Container(name) {
			return
		}
	}
	const why = "torchrun, one on each host: its options of this name"
	add(why, true, "PET_NNODES", strconv.Itoa(r.Size), "PET_NODE_RANK", strconv.Itoa(r.Rank),
		"PET_MASTER_ADDR", m.Host.String(), "PET_MASTER_PORT", port(m.Torch))
	if r.OldTorchrun { // Std.from_str("0") is None there; nothing is redirected of a local rank that few hosts have
		add("torchrun of torch 1.13, which fails on Python 3.11 without", true, "PET_REDIRECTS", "9:1", "PET_TEE", "9:1")
	}
	if r.GPUs > 0 {
		add(why, true, "PET_NPROC_PER_NODE", strconv.Itoa(r.GPUs))
	}
}

// recorder switches torch's flight recorder on, which notes the collectives of NCCL. torch has it since 2.2 under the first names, and
// since 2.9 under the second; from then on the first ones bring a warning in each rank (getCvarString). A variable stays as the user or the
// container has it, under either name. Without a torch that is known to have it nothing is set.
func (r Rank) recorder(g Given) (list []Variable) {
	var major, minor int
	if n, _ := fmt.Sscanf(r.Torch, "%d.%d", &major, &minor); n < 2 || major < 2 || major == 2 && minor < 2 || r.Recorder == (Recorder{}) {
		return nil
	}
	renamed := major > 2 || minor >= 9
	given := func(name string) bool { return g.User(name) || g.Container(name) }
	ours := !given("TORCH_NCCL_DEBUG_INFO_TEMP_FILE") && !given("TORCH_FR_DUMP_TEMP_FILE") // else what is asked for comes elsewhere
	for _, v := range []struct{ old, now, value, why string }{
		{"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", "2000", "torch's flight recorder: how many collectives it keeps"},
		{"TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "torch's flight recorder: written when NCCL times out"},
		{"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE", r.Recorder.Prefix, "torch's flight recorder: to " +
			"where, so that mpiup can name the absent rank"},
		{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", r.Recorder.Pipe, "torch's flight recorder: " +
			"the pipe by which mpiup asks for it when a run hangs"},
	} {
		name := v.old
		if renamed {
			name = v.now
		}
		if !given(v.old) && !given(v.now) && (v.value != r.Recorder.Pipe || ours) {
			list = append(list, Variable{name, v.value, v.why})
		}
	}
	return list
}

// torchelastic is what torchrun's agents give their processes (torch/distributed/elastic/agent/server/local_elastic_agent.py),
// where rank 0 itself listens at MASTER_PORT.
func (r Rank) torchelastic(add adder) {
	const why = "torch.distributed.elastic, and Lightning with it: that torchrun started this rank"
	g := r.Torchrun
	if g == (Group{}) {
		g = Group{Hosts: r.Size / r.LocalSize, RoleRank: r.Rank, RoleSize: r.Size}
	}
	add(why, false, "GROUP_RANK", strconv.Itoa(r.Node), "GROUP_WORLD_SIZE", strconv.Itoa(g.Hosts),
		"ROLE_RANK", strconv.Itoa(g.RoleRank), "ROLE_WORLD_SIZE", strconv.Itoa(g.RoleSize), "ROLE_NAME", "default",
		"TORCHELASTIC_RUN_ID", "none", "TORCHELASTIC_RESTART_COUNT", strconv.Itoa(r.Restarts), "TORCHELASTIC_MAX_RESTARTS", strconv.Itoa(r.MaxRestarts),
		"TORCHELASTIC_USE_AGENT_STORE", "False")
	add("NCCL in torch: errors end the rank, as under torchrun", true, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
	if r.LocalSize > 1 {
		add("OpenMP: one thread, as under torchrun with several ranks on a host", true, "OMP_NUM_THREADS", "1")
	}
}

// jax is what its detection of Open MPI reads (jax/_src/clusters/ompi_cluster.py): the coordinator's address out of
// the URI of a launcher, whose other parts it does not use. Rank and size it takes from OMPI_COMM_WORLD_*.
func (r Rank) jax(add adder, m Meeting) {
	scheme, host := "tcp", m.Host.String()
	if m.Host.Is6() {
		scheme, host = "tcp6", "["+host+"]"
	}
	add("jax.distributed.initialize(): where rank 0 listens", false,
		"OMPI_MCA_orte_hnp_uri", fmt.Sprintf("0.0;%s://%s:%d", scheme, host, m.JAX))
	add("jax.distributed.initialize(): the port there", true, "JAX_COORDINATOR_PORT", port(m.JAX))
	switch { // by itself it takes the one GPU that has the local rank's number
	case r.GPUs > 0 && (r.Narrowed || r.LocalSize == 1):
		add("jax.distributed.initialize(): which of the GPUs that the rank sees it uses", true, "JAX_LOCAL_DEVICE_IDS", upTo(r.GPUs))
	}
}

// horovod is what horovodrun gives ranks that meet by Gloo (horovod 0.28, runner/gloo_run.py). Without the last two
// Horovod takes MPI where it was built with it, and the others are not read.
func (r Rank) horovod(add adder, s Set, m Meeting) {
	add("Horovod that meets by Gloo: who this rank is", false,
		"HOROVOD_RANK", strconv.Itoa(r.Rank), "HOROVOD_SIZE", strconv.Itoa(r.Size),
		"HOROVOD_LOCAL_RANK", strconv.Itoa(r.Local), "HOROVOD_LOCAL_SIZE", strconv.Itoa(r.LocalSize),
		"HOROVOD_CROSS_RANK", strconv.Itoa(r.Cross), "HOROVOD_CROSS_SIZE", strconv.Itoa(r.CrossSize),
		"HOROVOD_HOSTNAME", fmt.Sprintf("%s-%d", strings.NewReplacer(":", "-", "/", "-").Replace(r.Host), r.Node))
	add("Horovod that meets by Gloo: the agent's key-value server", false,
		"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT", port(m.Gloo))
	if s&HorovodGloo != 0 {
		add("Horovod: that it meets by Gloo, as --env horovod asks", true, "HOROVOD_CONTROLLER", "gloo", "HOROVOD_CPU_OPERATIONS", "gloo")
	}
}

func upTo(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i))
	}
	return b.String()
}

// tfConfig is TensorFlow's description of a cluster of workers.
func tfConfig(rank int, workers []string) string {
	type task struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	text, err := json.Marshal(struct {
		Cluster map[string][]string `json:"cluster"`
		Task    task                `json:"task"`
	}{map[string][]string{"worker": workers}, task{"worker", rank}})
	if err != nil { // strings and numbers cannot fail
		return "{}"
	}
	return string(text)
}

func port(p uint16) string { return strconv.Itoa(int(p)) }
