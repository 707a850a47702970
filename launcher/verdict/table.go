package verdict

import "strings"

// row is one way to say one kind of failure.
type row struct {
	kind   Kind
	says   []string // all of them are in the text, in any order
	advice string
	echo   bool
}

func (r row) knows(text string) bool {
	for _, s := range r.says {
		if !strings.Contains(text, s) {
			return false
		}
	}
	return true
}

const (
	adviceGPUMemory  = "its GPU has no memory left: make the batch or the model's part on a GPU smaller; nvidia-smi on its host shows who else uses that GPU"
	adviceRendezvous = "another rank never came: see what it did instead, and whether the ranks' pods reach each other at MASTER_ADDR and MASTER_PORT"
	adviceCollective = "another rank did not take part in the operation: see which one was elsewhere (py-spy dump), or ended"
	advicePeerLost   = "another rank ended, or the network between them broke: what that one wrote, and its pod, tell why"
)

// table has a row for each text by which a kind is known. The first row that knows a text counts.
var table = []row{
	// torch: c10/cuda/CUDACachingAllocator.cpp, of all versions.
	{GPUMemory, []string{"CUDA out of memory. Tried to allocate"}, adviceGPUMemory, false},
	{GPUMemory, []string{"HIP out of memory. Tried to allocate"}, adviceGPUMemory, false},
	// XLA's status (JAX, TensorFlow's compiled functions).
	{GPUMemory, []string{"RESOURCE_EXHAUSTED: Out of memory while trying to allocate"}, adviceGPUMemory, false},
	// torch: TCPStore, rank 0's side and the others'.
	{Rendezvous, []string{"Timed out after", "seconds waiting for", "joined"}, adviceRendezvous, true},
	{Rendezvous, []string{"client socket has timed out after", "while trying to connect to"}, adviceRendezvous, true},
	// torch: ProcessGroupNCCL's watchdog.
	{Collective, []string{"Watchdog caught collective operation timeout"}, adviceCollective, true},
	// Gloo, in torch, Horovod and JAX: transport/tcp/pair.cc.
	{PeerLost, []string{"gloo/transport/tcp/pair.cc", "Connection closed by peer"}, advicePeerLost, true},
	{PeerLost, []string{"gloo/transport/tcp/pair.cc", "Connection reset by peer"}, advicePeerLost, true},
	// NCCL 2.13 and later: ncclRemoteError.
	{PeerLost, []string{"NCCL error", "remote process exited or there was a network error"}, advicePeerLost, true},
	// Horovod: SHUT_DOWN_ERROR.
	{PeerLost, []string{"Horovod has been shut down", "one of the ranks"}, advicePeerLost, true},
	// JAX: the coordination service's clients abort, whatever their rank was doing (xla/pjrt/distributed/client.h).
	{PeerLost, []string{"Terminating process because the JAX distributed service detected fatal errors", "another task died"}, advicePeerLost, true},
	// TensorFlow: collective operations over gRPC.
	{PeerLost, []string{"UnavailableError", "Collective ops is aborted by"}, advicePeerLost, true},
}
