package verdict

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
)

// when is advice for one of a kind's failures: it is given only where what is known of that has one of the words.
type when struct {
	words []string
	do    string
	last  bool // what helps in all failures of the kind is likelier to help
}

// whens are those, by kind; About.Do is what helps in all of its failures.
var whens = map[Kind][]when{
	GPUError: {
		{words: []string{"device-side assert", "native/cuda/"}, do: "Device-side assert: an index or label is out of range; run the batch on the CPU once to see which."},
		{words: []string{"illegal memory access", "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress", "misaligned address", "illegal instruction"}, do: "Illegal access: `CUDA_LAUNCH_BLOCKING=1` makes the failing call the one that is named, and `compute-sanitizer` names the access."},
		{words: []string{"Memory access fault by GPU", "HSA_STATUS_ERROR"}, do: "Illegal access on an AMD GPU: `AMD_SERIALIZE_KERNEL=3` makes the failing call the one that is named."},
		{words: []string{"unspecified launch failure", "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFail"}, do: "Launch failure: a kernel crashed; `CUDA_LAUNCH_BLOCKING=1` names the call, `compute-sanitizer` the access, and an Xid in the node's kernel log says whether it was the GPU."},
		{words: []string{"launch timed out"}, do: "A kernel ran for longer than the GPU of a display allows: use another GPU, or smaller kernels."},
		{words: []string{"no kernel image", "NoBinaryForGpu"}, do: "No kernel image: use a build for this GPU's architecture (`torch.cuda.get_arch_list()` has those of torch, `nvidia-smi --query-gpu=compute_cap --format=csv` the GPU's)."},
		{words: []string{"invalid device ordinal"}, do: "Invalid ordinal: choose the GPU by the local rank, and device 0 where `--gpus-per-rank` shows each rank its own only."},
		{words: []string{"driver version is insufficient", "cudaErrorInsufficientDriver", "PTX was compiled with an unsupported toolchain", "driver on your system is too old"}, do: "Old driver: use an image for an older CUDA, or a node with a newer driver; the first lines of `nvidia-smi` say which CUDA it has."},
		{words: []string{"Driver/library version mismatch"}, do: "The driver's kernel module is older than its libraries: reboot the node, or load the module anew."},
		{words: []string{"no CUDA-capable device", "no GPU that can be used", "CUDA_ERROR_NO_DEVICE", "No CUDA GPUs are available", "Found no NVIDIA driver"}, do: "No device: ask for one (`resources.limits.nvidia.com/gpu`), and see what `nvidia-smi` and `CUDA_VISIBLE_DEVICES` show there."},
		{words: []string{"busy or unavailable"}, do: "Busy: another process has the GPU for itself; `nvidia-smi` shows who, and the compute mode. Give each rank its own: `mpiup run --gpus-per-rank 1`."},
		{words: []string{"not compiled with CUDA"}, do: "Install a torch that was built for CUDA."},
		{words: []string{"CUDNN_STATUS"}, do: "cuDNN: see that it is of the build that torch or TensorFlow was made for, and try a smaller batch; `torch.backends.cudnn.enabled = False` tells whether it is cuDNN."},
		{words: []string{"CUBLAS_STATUS"}, do: "cuBLAS: an earlier kernel failed, or shapes and types do not fit; `CUDA_LAUNCH_BLOCKING=1` makes the failing call the one that is named."},
		{words: []string{"nvidia-container-cli"}, do: "The container runtime could not hand the GPU over: see the driver and the NVIDIA container toolkit on the node."},
	},
	Crash: {
		{words: []string{"Illegal instruction", "SIGILL", "signal 4"}, do: "Illegal instruction: build for the oldest CPU of the cluster, or select nodes by their CPU."},
		{words: []string{"terminate called", "what():"}, do: "Read the exception's `what()`."},
		{words: []string{"ssert"}, do: "Read the line of the assertion."},
	},
	MissingLibrary: {
		{words: []string{"GLIBC_", "GLIBCXX_", "CXXABI_"}, do: "`GLIBC_… not found`: the program was built on a newer system than the image."},
	},
	SharedMemory: {
		{words: []string{"NCCL", "nccl"}, do: "NCCL alone: `NCCL_SHM_DISABLE=1` does without, and is slower."},
	},
	FabricDown: {
		{words: []string{"system not yet initialized"}, do: "CUDA says `system not yet initialized`: restart nvidia-fabricmanager."},
	},
	Terminated: {
		{words: []string{"Evicted", "evicted", "low on resource"}, do: "Evicted for memory or disk: set requests to what is used."},
	},
	FabricError: {
		{words: []string{"RoCE", "roce", "Ethernet", "GID"}, do: "RoCE: the GID index, PFC and ECN (`NCCL_IB_GID_INDEX`, `NCCL_IB_TIMEOUT`)."},
	},
	NoFinalize: {
		{words: []string{"mpi4py"}, do: "mpi4py: let it finalise by itself."},
	},
	GPUMemory: {
		{words: []string{"PyTorch", "torch"}, do: "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` helps where much is reserved and little allocated", last: true},
	},
}

// Do is what to do about a kind, by what is known of the failure, the likeliest to help first. bare says that no host is a pod.
func Do(k Kind, evidence string, bare bool) (list []string) {
	lower := strings.ToLower(evidence)
	var last []string
	for _, w := range whens[k] {
		switch {
		case !slices.ContainsFunc(w.words, func(word string) bool { return strings.Contains(lower, strings.ToLower(word)) }):
		case w.last:
			last = append(last, w.do)
		default:
			list = append(list, w.do)
		}
	}
	list = slices.Concat(list, Of(k).Do, last)
	if bare {
		list = slices.DeleteFunc(list, ForPods)
	}
	return list
}

// ForPods says that advice is for who runs in Kubernetes or in a container.
func ForPods(do string) bool {
	return slices.ContainsFunc([]string{"kubectl", "kubelet", "resources.limits", "emptyDir", "nodeSelector", "ephemeral-storage", "podPidsLimit", "IPC_LOCK", "pod ", "pods", "Pod", "publishNotReady",
		"terminationGrace", "container", "Kubernetes"}, func(w string) bool { return strings.Contains(do, w) })
}

// Advice is Do as a run says it.
func Advice(k Kind, evidence string, bare bool) (list []string) {
	for _, do := range Do(k, evidence, bare) {
		list = append(list, plain(do))
	}
	return list
}

// Advises says that a line of a run's verdict (Lines) is about what to do.
func Advises(line string) bool {
	is := func(do string) bool { return line == plain(do) }
	for _, a := range Kinds {
		if slices.ContainsFunc(a.Do, is) || slices.ContainsFunc(whens[a.Kind], func(w when) bool { return is(w.do) }) {
			return true
		}
	}
	return advising().MatchString(line) || line == WriteHint || line == crashHint || line == crashedHint
}

// advising is how hints begin (Fault.hint, rankHint), and what they have.
var advising = pattern.Of(`^(?:see |give |look |run |let |call |nothing was started: build |set |use |raise |this is a fault of mpiup|this launcher was replaced|` +
	`the code is the program's own: |the program ended the job itself|its MPI library ended the job, |raise |the signal did not come from mpiup: |something on \S+ killed it; |` +
	`if the program is a shell script, |its library must |lines that it had not flushed |its agent got SIGTERM|to keep other jobs |MPI ends by |the ranks of an MPI program start together: )|^kubectl describe pod `)
