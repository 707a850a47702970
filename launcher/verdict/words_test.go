package verdict

import (
	"strings"
	"testing"
)

// logs has a line of a real log for each row of the table, in the table's order, and where it is from.
var logs = []struct {
	line string
	kind Kind
	echo bool
	from string
}{
	{"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 11.06 MiB is free.",
		GPUMemory, false, "pytorch/pytorch#16417, torch 2"},
	{"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 124.00 MiB. GPU 0 has a total capacity of 19.94 GiB of which 554.47 MiB is free.",
		GPUMemory, false, "huggingface/autotrain-advanced#737, ROCm"},
	{"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.",
		GPUMemory, false, "jax-ml/jax#13428"},
	{"torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/3 clients joined.",
		Rendezvous, true, "OpenRLHF/OpenRLHF#1040"},
	{"TimeoutError: The client socket has timed out after 1800s while trying to connect to (127.0.0.1, 48391).",
		Rendezvous, true, "lllyasviel/ControlNet#382"},
	{"[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.",
		Collective, true, "XPixelGroup/BasicSR#737"},
	{"RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:33969",
		PeerLost, true, "a run of test/integration with Debian's torch 1.13.1"},
	{"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [192.168.70.92]:25266: Connection reset by peer",
		PeerLost, true, "RVC-Project/Retrieval-based-Voice-Conversion-WebUI#1882"},
	{"torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, remote process exited or there was a network error, NCCL version 2.21.5",
		PeerLost, true, "NVIDIA/nccl#2076"},
	{"AbortedError (see above for traceback): Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution.",
		PeerLost, true, "horovod/horovod#534"},
	{"F1123 03:45:41.379542   11662 client.h:80] Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died; see the other task logs for more details. Disable Python buffering, i.e. `python -u`, to be sure to see all the previous output. absl::Status: UNAVAILABLE: Failed to send RPC to coordination service.",
		PeerLost, true, "a run with JAX 0.10.2, whose rank 0 was killed"},
	{"tensorflow.python.framework.errors_impl.UnavailableError: {{function_node __inference_<lambda>_33}} Collective ops is aborted by: recvmsg:Connection reset by peer",
		PeerLost, true, "a run with TensorFlow 2.21.0, of which a rank was killed"},
}

func TestEveryRowKnowsALineOfARealLog(t *testing.T) {
	if len(logs) != len(table) {
		t.Fatalf("%d lines for %d rows", len(logs), len(table))
	}
	for i, l := range logs {
		if !table[i].knows(l.line) {
			t.Errorf("row %d does not know %q (%s)", i, l.line, l.from)
		}
		for _, said := range []Said{{Raised: raised(l.line)}, {Last: []string{"a", l.line, "b"}}, {First: []string{l.line}, Last: []string{"c"}}} {
			f, ok := Read(said)
			if !ok || f.Kind != l.kind || f.Echo != l.echo || f.Line != l.line || f.Advice == "" {
				t.Errorf("%q of %s is %+v", l.line, l.from, f)
			}
		}
	}
}

func raised(texts ...string) (list []Exception) {
	for _, text := range texts {
		list = append(list, Exception{Text: text})
	}
	return list
}

func TestRead(t *testing.T) {
	const lost, own = "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:33969", "ValueError: loss is nan at step 200"
	for _, tt := range []struct {
		name string
		said Said
		kind Kind
		line string
		echo bool
	}{
		{"nothing", Said{Last: []string{"epoch 1", "epoch 2"}}, "", "", false},
		{"an exception", Said{Raised: raised(own), Last: []string{"bye"}}, Python, own, false},
		{"its first line", Said{Raised: raised(own + "\nmore\nand more")}, Python, own, false},
		{"the last of two", Said{Raised: raised("KeyError: 'x'", own)}, Python, own, false},
		{"the peer's loss", Said{Raised: raised(lost)}, PeerLost, lost, true},
		{"an own one, and the connections that end with it", Said{Raised: []Exception{{Text: own}, {Text: lost, Chained: true}}}, Python, own, false},
		{"one that was handled long before", Said{Raised: raised(own, lost)}, PeerLost, lost, true},
		{"two losses in a chain", Said{Raised: []Exception{{Text: lost + "1"}, {Text: lost, Chained: true}}}, PeerLost, lost, true},
		{"a message whose second line tells", Said{Raised: raised("torch.distributed.DistBackendError: NCCL error in: x.cpp:1\nremote process exited or there was a network error, NCCL version 2.21.5")},
			PeerLost, "torch.distributed.DistBackendError: NCCL error in: x.cpp:1", true},
		{"torchrun tells of a child's", Said{Raised: raised(own, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")}, Python, own, false},
		{"torchrun alone", Said{Raised: raised("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")}, "", "", false},
		{"an exception counts before lines", Said{Raised: raised(own), Last: []string{lost}}, Python, own, false},
	} {
		f, ok := Read(tt.said)
		if f.Kind != tt.kind || f.Line != tt.line || f.Echo != tt.echo || ok != (tt.kind != "") {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

// A row is a text that nobody writes by chance: none knows another kind's lines.
func TestRowsAreApart(t *testing.T) {
	for _, l := range logs {
		for i, r := range table {
			if r.kind != l.kind && r.knows(l.line) {
				t.Errorf("row %d (%s) knows %q", i, r.kind, l.line)
			}
		}
		if strings.ContainsRune(l.line, '\n') || l.from == "" {
			t.Errorf("%q is no line with a source", l.line)
		}
	}
}
