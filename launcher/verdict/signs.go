package verdict

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Sign is one way to say one kind of failure.
type Sign struct {
	Kind   Kind // "": what looks like a failure and is none
	Text   string
	Likely bool // it is probably this kind, and may be another
	weight *Weight
	parts  []string
	grams  []uint16 // of the longest part: texts without them are passed over
}

// Weight is how much it explains: its kind's, unless the sign is a lesser one.
func (s Sign) Weight() Weight {
	if s.weight != nil {
		return *s.weight
	}
	return Of(s.Kind).Weight
}

// knows says that all parts are in a text in lower case, in their order. A number in a sign is a whole one: signal 1 is not signal 11.
func (s *Sign) knows(lower string) bool {
	for _, part := range s.parts {
		for {
			_, after, ok := strings.Cut(lower, part)
			if !ok {
				return false
			}
			lower = after
			if !digit(part[max(len(part)-1, 0):]) || !digit(lower[:min(len(lower), 1)]) {
				break
			}
		}
	}
	return true
}

func digit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// Recognise is the first sign that knows a text.
func Recognise(text string) (*Sign, bool) {
	lower := strings.ToLower(text)
	var in [grams / 64]uint64
	for i := range len(lower) - 2 {
		g := gram(lower[i:])
		in[g/64] |= 1 << (g % 64)
	}
	all := Signs()
	for i := range all {
		s := &all[i]
		there := true
		for _, g := range s.grams {
			there = there && in[g/64]&(1<<(g%64)) != 0
		}
		if there && s.knows(lower) {
			return s, s.Kind != ""
		}
	}
	return nil, false
}

// grams is how many sets of three bytes are told apart: most lines have none of most signs' bytes, and logs are long.
const grams = 1 << 12

func gram(s string) uint16 { return (uint16(s[0])*961 + uint16(s[1])*31 + uint16(s[2])) % grams }

// gramsOf is three of the longest part's.
func gramsOf(parts []string) (list []uint16) {
	longest := slices.MaxFunc(parts, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	if last := len(longest) - 3; last >= 0 {
		list = []uint16{gram(longest), gram(longest[last/2:]), gram(longest[last:])}
	}
	return list
}

// is is signs of a kind. A text stands for itself, whatever its case; * is anything between two parts. One that begins with ? is probably
// of this kind: nobody has shown a line of a real log that has it.
func is(k Kind, texts ...string) (list []Sign) {
	for _, t := range texts {
		t, guess := strings.CutPrefix(t, "?")
		parts := strings.Split(strings.ToLower(t), "*")
		list = append(list, Sign{Kind: k, Text: t, Likely: guess, parts: parts, grams: gramsOf(parts)})
	}
	return list
}

// likely is signs of a kind that may be another.
func likely(k Kind, texts ...string) []Sign {
	list := is(k, texts...)
	for i := range list {
		list[i].Likely = true
	}
	return list
}

// weighing is signs of a kind of another weight than the kind's.
func weighing(w Weight, k Kind, texts ...string) []Sign {
	list := is(k, texts...)
	for i := range list {
		list[i].weight = &w
	}
	return list
}

// likelyAs is signs of a kind that may be another, of another weight than the kind's.
func likelyAs(w Weight, k Kind, texts ...string) []Sign {
	list := weighing(w, k, texts...)
	for i := range list {
		list[i].Likely = true
	}
	return list
}

// Signs is the table. The first sign that knows a line counts, so that special ones stand above general ones.
var Signs = sync.OnceValue(func() []Sign {
	return join(
		// Looked for and done without: components of Open MPI, NCCL's plugins, TensorFlow's optional libraries, retries.
		is("", "mca_base_component_repository_open", "component_find: unable to open", "NET/Plugin", "TUNER/Plugin",
			"Could not load dynamic library", "failed call to cuInit", "cannot be preloaded", "TF-TRT Warning", "Unable to register cu", ", retrying",
			"NCCL INFO", "Set MCA parameter \"", "more process has sent help message", "more processes have sent help message",
			"FutureWarning", "UserWarning", "This usually is caused by", "did not call \"init\" before exiting, but", "otherwise exiting without calling MPI_FINALIZE", "errno: 97", "not finding the required libraries",
			"unable to find any relevant network interfaces", "unable to find reachable pairing", "NCCL WARN Failed to open lib", "NCCL WARN [Service thread]", "NCCL WARN [Proxy Service",
			"gds_ds12_lock_pthread.c", "libibverbs: Warning:", "Exception ignored in", "spank: ", "floating-point exceptions are signal", "xcgroup_instantiate: ", "memory limit at some point", "failed to handshake with a connecting peer", "Message:    did not receive entire connect ACK"),
		// Ray's guesses where it does not know why a worker ended.
		weighing(Echo, PeerLost, "There are some potential root causes", "crashed unexpectedly due to SIGSEGV", "?process is killed by SIGKILL by OOM killer due to", "?A worker died or was killed while executing a task by an unexpected system error"),
		is(Limits, "thread: Resource temporarily unavailable"),

		likely(GPUMemory, "RayTaskError(OutOfMemoryError)"),
		// Batch systems' ends of a whole job: PBS, Moab, LSF, Grid Engine, Slurm, ALPS, Flux, Cobalt.
		is(OutOfMemory, "PBS: job killed: mem*exceeded limit", "PBS: job killed: vmem*exceeded limit", "?PBS: job killed: pmem*exceeded limit", "?PBS: job killed: pvmem*exceeded limit", "?TERM_MEMLIMIT", "?TERM_SWAP",
			"?LSF memory usage limit", "?job*exceeded hard limit*h_vmem", "?OOM killer terminated this process", "?job exceeded memory usage limit", "?has exceeded memory allocation", "?exceeded its memory limit"),
		is(TimeOut, "?PBS: job killed: walltime*exceeded limit", "?PBS: job killed: cput*exceeded limit", "?TERM_RUNLIMIT", "?TERM_CPULIMIT", "?LSF run time limit", "?exceeded its walltime",
			"?walltime limit exceeded", "?job.exception type=timeout", "?exception: type=timeout", "?job exceeded hard wallclock time", "?cpu time limit exceeded"),
		weighing(Program, TimeOut, "job exceeded wallclock limit"),
		is(Interrupted, "?TERM_OWNER", "?TERM_ADMIN", "?killed by owner", "?exception: type=cancel", "?deleted by user"),
		is(Slots, "Unable to create step for job*Memory required by task is not available", "?Unable to create step for job", "?Unable to allocate resources", "?TERM_PROCESSLIMIT", "?PBS: job killed: ncpus"),
		is(InitFailed, "no active messages transport to", "?no remote registered memory access transport to", "?no send-after-connect"),
		is(PeerLost, "tried to connect with a different incarnation"),
		weighing(Ending, Killed, "Exited with signal termination: "),
		weighing(Ending, Crash, "srun: error:*: Aborted", "*** FATAL ERROR(Node "),
		is(Slots, "Unable to satisfy cpu bind request"),
		is(PeerLost, "GASNET ERROR(Node*connection closed on recv()"),
		is(AgentLost, "execution daemon on host*didn't accept task"),
		// Ascend.
		weighing(Program, Collective, "OPS function error: Hccl"),
		is(Collective, "Remote Rank did not send the data in time", "hccl fftsplus task timeout occurred", "?HCCL*timeout"),
		likelyAs(Program, Collective, "ACL stream synchronize failed"),
		is(GPUError, "Failed to initialize the HCCP process", "?NPU error", "?rtDeviceSynchronize execute failed"),
		likelyAs(Echo, NCCL, "HCCL error in: ", "?DIST call hccl api failed"),
		is(FabricError, "Call to ibv_modify_qp failed"),
		is(Network, "gloo*connect [*Connection refused"),
		is(HostsMissing, "is waiting to start: "),
		likelyAs(Ending, ExitCode, "---- FATAL CALLED ----"), // WRF
		is(Network, "unable to connect to rank*using business card", "no endpoint matches the netmask"),
		// What other programs say when they give up: OpenFOAM, GROMACS, CP2K, Quantum ESPRESSO, ORCA, Charm++, AMReX, Kokkos, Julia, R, Rust, Go.
		likelyAs(Ending, ExitCode, "FOAM FATAL ERROR", "?FOAM FATAL IO ERROR", "?Halting parallel program", "?%%*Error in routine", "?error termination in", "Called CmiAbort", "?amrex::Abort::", "?amrex::Error::", "?Kokkos::abort", "?ERROR: LoadError:",
			"?Execution halted", "?' panicked at", "?FATAL CALLED FROM FILE", "?Stopping Program from Node", "?MFEM abort:", "?ARMCI DASSERT fail", "?Received an Error in Communication", "?error: halt reached", "?terminated with error code"),
		weighing(Program, Crash, "?Exception EXC_", "?goroutine*[running]", "?fatal error: unexpected signal"),
		weighing(Program, Abort, "Error occurred on rank "),
		likely(NotAllowed, "/sys/fs/cgroup*No space left on device", "Slurmd could not execve job"), // a control group without CPUs, no disk
		likely(Limits, "unable to open shared memory object"),

		// GPUs: torch's c10/cuda/CUDACachingAllocator.cpp, XLA's status, TensorFlow's allocator, NCCL's include/alloc.h, cuBLAS, DeepSpeed.
		is(GPUMemory, "CUDA out of memory", "HIP out of memory", "RESOURCE_EXHAUSTED: Out of memory", "CUDA error: out of memory", "Cuda failure*out of memory",
			"CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "OOM when allocating tensor", "?CUBLAS_STATUS_ALLOC_FAILED", "?XPU out of memory", "?hipErrorOutOfMemory",
			"?CUDA runtime error*out of memory", "?cudaMalloc*out of memory", "Insufficient memory on accelerator", "?cuMemAlloc*out of memory", "?not enough GPU memory", "?hipMalloc*out of memory", "?NPU out of memory", "?Failed to allocate device memory", "?torch.OutOfMemoryError",
			"?OutOfMemoryError: CUDA", "?cudaErrorMemoryValueTooLarge", "?out of GPU memory", "?CUDA_ERROR_MEMORY_ALLOCATION", "?Out of memory allocating*bytes on device", "?OUT_OF_DEVICE_MEMORY", "?Out of memory while trying to allocate", "?OrtArena*Failed to allocate memory", "?CUFFT_ALLOC_FAILED"),
		is(FabricDown, "?uncorrectable NVLink error", "?NVRM: Xid*: 74,", "?NVLink: fatal error", "?system not yet initialized", "Got async event : port error", "Got async event : local catastrophic error",
			"?Got async event : device fatal", "?Port: 1 Link DOWN", "?Port: 2 Link DOWN", "?link_layer*PORT_DOWN", "?Call to ibv_*failed with error No such device", "?Call to ibv_*failed with error Input/output error",
			"?no active IB ports", "PSM2 was unable to open an endpoint", "PSM3 can't open nic unit", "PSM2 can't open hfi unit", "hfi_userinit: ", "?No active port found", "?is not active on device", "?SXid"),
		is(GPUFault, "RmInitAdapter failed", "NVRM: Xid", "fallen off the bus", "uncorrectable ECC error", "?cudaErrorECCUncorrectable", "?double bit ECC error", "?DOUBLE BIT ECC",
			"?GPU is lost", "NV_ERR_RESET_REQUIRED", "?Unable to determine the device handle for GPU", "?CUDA_ERROR_ECC_UNCORRECTABLE",
			"?HW exception by GPU node"),
		is(GPUError, "native/cuda/*Assertion", "device-side assert triggered", "?nvidia-container-cli", "PTX was compiled with an unsupported toolchain", "?Accelerator Fatal Error", "?named symbol not found", "?peer access is not supported", "?cudaErrorInsufficientDriver", "?hipErrorInvalidDevice", "?cudaErrorSystemDriverMismatch", "?unknown error*cuda", "?cudaErrorIllegalAddress", "?cudaErrorLaunchFailure", "?GPU Hang", "?hipErrorLaunchFailure", "?cudaErrorNoDevice", "?cudaErrorDevicesUnavailable", "?No CUDA GPUs are available", "Failed to initialize NVML", "Driver/library version mismatch", "?hipErrorNoBinaryForGpu", "?CUDA_ERROR_NOT_INITIALIZED", "illegal memory access was encountered", "?CUDA driver version is insufficient", "?no kernel image is available for execution",
			"invalid device ordinal", "?driver on your system is too old", "?no CUDA-capable device", "?Found no NVIDIA driver", "busy or unavailable", "CUDA error: unspecified launch failure", "?misaligned address",
			"?CUDA error: an illegal instruction", "Memory access fault by GPU", "HSA_STATUS_ERROR", "CUDNN_STATUS_EXECUTION_FAILED", "CUBLAS_STATUS_EXECUTION_FAILED",
			"?CUDA initialization: ", "?CUDA_ERROR_NO_DEVICE", "?CUDA_ERROR_ILLEGAL_ADDRESS", "?CUDA_ERROR_LAUNCH_FAILED", "?CUDA unknown error",
			"?Torch not compiled with CUDA enabled", "?CUDA error: the launch timed out"),

		// Memory of the host: the kernel's log, Kubernetes' reasons, Slurm, Python, C++, torch.
		is(SharedMemory, "insufficient shared memory", "Error while creating shared memory segment", "failed to extend /dev/shm", "?not enough space for /dev/shm", "?/dev/shm*No space left on device",
			"?No space left on device*/dev/shm", "posix_fallocate failed : No space left", "?unable to allocate shared memory(shm) for file",
			"?not enough space*shared memory backing file", "?shared memory backing file*not enough", "?unable to write to file </torch_", "killed by signal: Bus error",
			"?unable to mmap*bytes from file </torch_"),
		likely(SharedMemory, "Signal: Bus error", "Program received signal SIGBUS", "Caught signal number 7 BUS", "killed by signal 7", "srun: error:*Bus error", "exited on signal 7 ", "KILLED BY SIGNAL: 7", "Bus error (signal 7)", "exitcode: -7", "exitcode  : -7", "Signal 7 (SIGBUS)", "Caught signal 7 (Bus error",
			"Fatal Python error: Bus error", "Bus error (core dumped)", "died with <Signals.SIGBUS", "exit code 135", "signal 7 (SIGBUS)", "return code = -7", "EXIT CODE: 135", "EXIT CODE: 7", "exited with code 135"),
		is(OutOfMemory, "OOMKilled", "oom-kill", "oom_kill", "Memory cgroup out of memory", "srun: error:*Out Of Memory", "?Out of memory: Kill", "?OUT_OF_MEMORY", "memory limit*was hit", "?invoked oom-killer", "?Killed by the OOM",
			"std::bad_alloc", "?DefaultCPUAllocator: can't allocate memory", "?Unable to allocate*for an array", "?slurmstepd: error: Exceeded",
			"MemoryError", "?hit by the OOM killer", "?killed due to the node running low on memory", "?Killed due to memory usage", "?due to memory pressure",
			"?not enough memory: you tried to allocate", "?insufficient virtual memory"),
		is(LockedMemory, "?RLIMIT_MEMLOCK", "Please set max locked memory", "ibv_reg_mr*Cannot allocate memory", "?ibv_reg_mr_iova2*Cannot allocate memory", "?reg_mr*failed*Cannot allocate memory",
			"?ibv_create_cq*Cannot allocate memory", "?Check the amount of registered memory*ulimit", "?ibv_open_device*Cannot allocate memory"),
		likely(OutOfMemory, "exited on signal 9", "killed by signal 9", "ended by signal 9", "died from signal 9", " Killed   ", "KILLED BY SIGNAL: 9", "Killed (signal 9)", "exitcode: -9)", "exitcode  : -9", "Signal 9 (SIGKILL)", "killed by signal: Killed", "died with <Signals.SIGKILL", "terminated with signal SIGKILL",
			"exit code 137", "exit status 137", "exited with code 137", "return code = -9", "EXIT CODE: 137", "EXIT CODE: 9", "signal 9 (SIGKILL)", "exit code: -9", "exitCode: 137", "code=137", "exit code=137", "Exit 137", "Exit Code:    137", "exit code (137)", "\"exitCode\": 137", "exited with exit code -9",
			"terminated by signal 9", "signal 9 (Killed)", "Cannot allocate memory"),
		is(DiskFull, "killed due to exceeding jobfs quota", "?killed due to exceeding*quota", "No space left on device", "Disk quota exceeded", "?condition: [DiskPressure", "?NodeHasDiskPressure", "?KubeletHasDiskPressure", "?disk-pressure:NoExecute", "?exceeds the total limit of containers"),
		is(Limits, "Too many open files", "?can't start new thread", "pthread_create*Resource temporarily unavailable", "?pthread_create failed", "?fork*Resource temporarily unavailable", "?Cannot fork", "?fork: retry",
			"?received 0 items of ancdata"),

		// Starting: ld.so, execve(2), shells, Open MPI's help-orte-odls and help-plm texts, Hydra.
		is(WrongArchitecture, "Exec format error", "?wrong ELF class", "?cannot execute binary file", "?invalid ELF header", "?incompatible architecture"),
		is(Mismatch, "undefined symbol*MPI", "?undefined symbol*pmix", "undefined symbol*opal_", "?undefined symbol: ucp_", "?undefined symbol: nccl", "?symbol lookup error*libmpi", "cannot talk to each other", "?Data unpack had inadequate space",
			"Data unpack would read past end of buffer", "but OMPI was not built with", "?was not compiled with SLURM's PMI", "?PMI version mismatch", "UNPACK-PMIX", "PMIX ERROR: UNPACK", "PMIX ERROR: OUT-OF-RESOURCE*bfrop_base_unpack",
			"?NCCL version mismatch", "?mismatched NCCL", "?has not been built*MPI", "?extension for*has not been built",
			"?different version of*mpi"),
		is(MissingLibrary, "error while loading shared libraries", "cannot open shared object file", "?Library not loaded", "?symbol lookup error", "undefined symbol", "GLIBC_*not found", "GLIBCXX_*not found", "CXXABI_*not found",
			"?Cannot load libmpi", "?libcuda.so.1: file not found"),
		is(ProgramNotFound, "?tried to fork a new process via the \"execve\" system call but failed", "Error:  *Permission denied", "unable to find the specified executable", "?could not access or execute an executable", "?could not access*or execute an executable", "?executable file not found", "execvp error on file", "command not found",
			"?can't open file*No such file", "?could not find executable", "bin/python*: No module named", "?was set to a path that could not be found", "\"plm_rsh_agent\" was set to a path", "?plm_rsh_agent*not found", "?exec /*no such file or directory", "?exec:*not found", "could not be started", "?bad interpreter", "?No such file or directory*orted", "unable to launch the specified application", "A system-required executable",
			"?hydra_pmi_proxy: No such file", "?hydra_pmi_proxy: not found", "sh: 1: *: not found", "?exec user process*no such file", "?slurmstepd: error: execve", "?error: No such file or directory: '",
			"?StartError", "?RunContainerError", "?fork/exec*permission denied", "?fork/exec*no such file", "?sh:*: Permission denied", "?execve()*No such file", "?execve()*Permission denied", "?cannot execute:"),
		is(Slots, "not enough slots available", "?nodes which are allocated for this job are already filled", "?would result in binding more", "?more ranks than slots", "?more processes than*slots",
			"?There are no allocated resources", "Unable to layout tasks", "?More processors requested than permitted", "?Requested node configuration is not available"),
		is(Usage, "?attempt to run as root", "unrecognized argument", "error parsing parameters", "?error: unrecognized arguments", "?no executable was specified", "?unable to parse user arguments", "?did not find an executable"),

		// Pods that do not come.
		is(HostsMissing, "ErrImagePull", "unable to upgrade connection: container not found", "?error: pods \"*\" not found", "?Error from server (NotFound)", "tasks in gang unschedulable", "ImagePullBackOff", "FailedScheduling", "nodes are available:", "type: Unschedulable", "?MountVolume.SetUp failed", "?CreateContainerConfigError"),

		// The way to a host.
		is(DNS, "Could not resolve hostname", "Temporary failure in name resolution", "Name or service not known", "?no such host", "?nodename nor servname", "?has no address", "Unable to find address for", "?unable to resolve host", "?failed to resolve host", "?failed to resolve address", "?getaddrinfo*failed", "?could not resolve host",
			"?Name does not resolve", "gethostbyname*fail", "?No address associated with hostname", "unable to get host address", "?NXDOMAIN"),
		is(Identity, "Host key verification failed", "Permission denied (publickey", "Permission denied, please try again", "UNPROTECTED PRIVATE KEY FILE", "bad permissions", "?Bad owner or permissions", "?certificate verify failed", "?x509: ", "?TLS handshake",
			"?certificate has expired", "(Unauthorized)", "?must be logged in to the server", "?Error from server (Forbidden)", "?remote error: tls", "?tls: failed to verify", "?tls: bad certificate", "?certificate required", "?cannot create resource \"pods/exec\"", "bad ownership or modes", "?Too many authentication failures", "?refused our identity", "Unable to load host key", "no hostkeys available", "?SSL_ERROR", "?Authentication failed", "does not accept our", "?REMOTE HOST IDENTIFICATION HAS CHANGED",
			"?certificate signed by unknown authority", "?ssl*handshake failed", "?authentication handshake failed", "?munge*credential", "credential expired", "?Invalid job credential", "?Load key*:", "secret of another job"),
		is(PortInUse, "Address already in use", "?EADDRINUSE", "?errno: 98", "server socket has failed to listen"),
		is(Network, "No route to host", "?Network is unreachable", "unable to complete a TCP connection", "?are unable to reach each other for MPI communications", "ssh: connect to host", "Destination is unreachable", "?port 22: Broken pipe", "?kex_exchange_identification", "ssh_exchange_identification", "Software caused connection abort", "?unable to create a connection back to mpirun due to a failure", "?Destination Host Unreachable", "?ENETUNREACH", "?EHOSTUNREACH",
			"?failed: No route", "?There are no common network interfaces", "?no common network interface", "?Unable to find a common network", "?No socket interface found", "?port 22: Connection"),

		// The batch system's and Kubernetes' end of a pod, and of a host.
		is(TimeOut, "DUE TO TIME LIMIT", "?DeadlineExceeded", "?longer than specified deadline", "?time limit for job execution has been reached", "?APPLICATION TIMED OUT", "ran longer than --timeout", "?activeDeadlineSeconds"),
		is(PeerLost, "Terminating process because the*distributed service detected", "?JAX distributed service detected fatal errors", "?Either the leader task was preempted"),
		weighing(Cause, Terminated, "workers are evicted", "?reason: Evicted", "Status: Evicted", "pod*evicted", "?was evicted", "DUE TO PREEMPTION", "DUE TO JOB REQUEUE", "?DUE TO NODE FAILURE", "?DisruptionTarget", "?TaintManagerEviction", "?imminent node shutdown",
			"?NodeNotReady", "?NodeLost", "?node is draining", "?Spot Instance interruption", "?spot interruption", "?TerminationByKubelet", "?NodeShutdown", "?deletion by TaintManager", "?Marking for deletion Pod", "?preempted to", "?Preempted in order to admit",
			"?by preemption", "was preempted", "job preempted", "?due to preemption", "?The node was low on resource", "? Evicted ", "?was low on resource"),
		weighing(Ending, ExitCode, "DUE TO TASK FAILURE"),
		likelyAs(Echo, ExitCode, "Error executing job with overrides"), // Hydra, of configurations
		weighing(Ending, InitFailed, "srun: error:*launch failed"),
		is(Interrupted, "?KeyboardInterrupt", "srun: interrupt (one more", "Received 1 death signal", "Received 2 death signal", "?Ctrl-C caught", "?mpirun: killing job", "?killing job...", "mpiup got SIGINT", "CANCELLED AT", "?got signal: 2", "?got signal: 1 ", "?interrupted by user", "?exited on signal 2 ", "?Keyboard interrupt"),
		is(Interrupted, "Job deleted at request"),
		is(Terminated, "is being taken away", "?got signal: 15", "death signal, shutting down workers", "Received SIGTERM", "?received signal 15", "?pod*was terminated"),
		is(AgentLost, "Raylet failed. Shutting down", "has lost communication with a remote daemon", "has lost communication with its daemon", "daemon has unexpectedly failed", "control_cb*assert (!closed) failed", "?lost connection to*daemon", "Node failure on", "?unable to write data to proxy",
			"?daemon did not report back", "agent ended the session", "nothing was heard from it", "?the raylet died", "?raylet process died"),
		weighing(Echo, AgentLost, "unable to reliably start one or more daemons", "process manager error waiting for completion", "?launcher returned error waiting for completion", "?One or more daemons", "?unable to start the daemon process"),

		// What UCX cannot open or reach.
		is(InitFailed, "UCX*iface_open*failed", "?UCX*md_open*failed", "Open MPI failed an OFI Libfabric library call"),
		is(FabricError, "UCX*ERROR*ibv_*failed", "UCX*ERROR*Input/output error", "UCX*transport error", "?UCX*Endpoint timeout", "Fatal*failed to get peer address", "UCX*ERROR*Remote I/O error", "?UCX*ERROR*failed to create*qp", "?mlx5dv_devx_obj_create", "?ucp_ep_create(",
			"?ibv_*Input/output error", "?mlx5*Input/output error"),
		likelyAs(Program, FabricError, "OFI poll failed", "Error returned from fi_cq_readerr", "handle_cq_error"),
		// MPICH's stack of a call that lost another rank.
		likelyAs(Program, Network, "Communication error with rank*Connection refused"),
		likelyAs(Program, PeerLost, "Communication error with rank", "_connpoll*Communication error", "): connection failure", "Check_for_failed_procs"),
		// The end of such a stack where ranks of a collective pass on that one of them saw an error (MPICH, errnames.txt: **coll_fail).
		likelyAs(Echo, PeerLost, "Failure during collective"),
		is(Network, "failed to TCP connect to a peer"),
		weighing(Echo, PeerLost, "PMIX ERROR: UNREACHABLE", "?PMIX ERROR: LOST-CONNECTION", "mpi/pmix*Error handler invoked"),

		// Storage.
		is(StuckIO, "Stale NFS file handle", "waits in * on /* (nfs", "?waits in * on /* (fuse", "?waits in * on /* (cifs", "?waits in * on /* (ceph", "?waits in * on /* (lustre", "?for a device or file system; process", "Stale file handle", "not responding, still trying", "?not responding, timed out", "blocked for more than", "?Transport endpoint is not connected", "?mount does not answer", "?[Errno 5] Input/output error", "?Input/output error: '", "?Remote I/O error",
			"?Input/output error", "?server*not responding", "?Cannot send after transport endpoint shutdown"),

		is(OutputLost, "nobody reads standard output any more", "output could not be written"),

		// Those that lost another one, or waited for it. NCCL, Gloo, Horovod, torch, JAX, Open MPI, MPICH, UCX, libfabric.
		is(FabricError, "Got completion from peer*status=12", "Got completion*error 12", "Got completion from peer", "Transport retry count exceeded", "?transport retry counter exceeded", "?Request completed with error. RC", "completed with error. RC:", "?retry count exceeded", "?UNDELIVERABLE",
			"?RETRY EXCEEDED ERROR", "?RDMA_CM_EVENT_UNREACHABLE", "?Local QP operation", "?ibv_modify_qp failed", "Call to ibv_"),
		is(Collective, "Watchdog caught collective operation timeout"),
		is(PeerLost, "remote process exited or there was a network error", "ncclRemoteError", "Connection closed by remote peer", "?NCCL communicator was aborted", "Horovod has been shut down", "?HorovodInternalError", "gloo*Connection closed by peer", "gloo*Connection reset by peer",
			"peer process has unexpectedly disconnected", "?UNAVAILABLE: Socket closed", "Collective ops is aborted by", "Connection reset by peer", "?Connection closed by peer", "Broken pipe", "RendezvousClosedError",
			"ActorDiedError", "?RayActorError", "?WorkerCrashedError", "?OwnerDiedError", "?RendezvousGracefulExitError", "?failed to recv, got 0 bytes", "?socketProgress", "?Endpoint is not connected", "?MPI_ERR_PROC_FAILED", "?to recv from*failed",
			"?NCCL Error 6", "?unhandled remote error", "Socket recv failed", "?communication with*failed since the process"),
		is(Rendezvous, "has not come to where", "have not come to where"),
		is(StuckInit, "has not called MPI_Init", "have not called MPI_Init", "?has not entered the barrier", "?have waited for it", "?stuck in MPI_Init"),
		is(Rendezvous, "seconds waiting for*joined", "client socket has timed out after", "DistStoreError: Socket Timeout", "?RendezvousTimeoutError", "store based barrier", "connectFullMesh failed", "PjRT_Client_Connect", "Barrier timed out", "?failed to connect to all addresses", "?Timed out initializing process group",
			"DEADLINE_EXCEEDED", "?Horovod has timed out", "?Timed out waiting for*hosts", "?wait timeout after", "clients joined", "RendezvousConnectionError", "?Horovod timed out", "The client socket has failed to connect",
			"?GetKeyValue() timed out"),
		is(Collective, "before timing out", "monitoredBarrier", "submitted to be reduced, gathered or broadcasted by subset of ranks", "missing ranks", "?Timed out waiting*operation to complete", "Timeout at NCCL work", "?collectives are stalled",
			"Stalled ranks", "?Stalled ops", "?Stall inspector", "?passed*barrier in time", "?Ranks*failed to pass monitoredBarrier", "heartbeat timeout", "Some NCCL operations have failed or timed out", "?Collective operation timed out", "?watchdog got stuck"),
		weighing(Echo, Rendezvous, "threads to join the rendezvous"),
		weighing(Wait, Network, "Connection refused", "Connection timed out", "?i/o timeout"),

		// Crashes: Open MPI's and UCX's handlers, launchers' last words, glibc, the kernel's log.
		is(Segfault, "Segmentation fault", "Caught signal number 11 SEGV", "?terminated with signal 11", "exited on signal 11", "killed by signal 11", "died from signal 11", "?KILLED BY SIGNAL: 11", "exitcode: -11", "exitcode  : -11", "SIGSEGV", "EXIT CODE: 139", "EXIT CODE: 11", "exit code 139", "?exit status 139", "return code = -11", "?segfault at", "?Exit Code:    139", "?exit code (139)", "?\"exitCode\": 139", "?general protection fault", "Address not mapped", "exited with code 139", "?Invalid permissions for mapped object"),
		likelyAs(Ending, Segfault, "Backtrace for this error:"),
		weighing(Echo, Killed, "forrtl: error (78): process killed", "?forrtl: error (69): process interrupted"),
		weighing(Program, Crash, "Fortran runtime error", "forrtl: severe (", "?forrtl: error ("),
		is(Crash, "?Caught signal number 8 FPE", "?Caught signal number 4 Illegal", "?exit signals: Floating", "?task(s) Aborted", "?exit signals: Aborted", "Illegal instruction", "?exited on signal 4 ", "Floating point exception", "?exited on signal 8 ", "Floating-point exception", "?KILLED BY SIGNAL: 4", "?KILLED BY SIGNAL: 8", "?exitcode: -4)", "?exitcode: -8)", "?SIGILL", "?SIGFPE", "?EXIT CODE: 132", "?EXIT CODE: 4", "?EXIT CODE: 8", "?EXIT CODE: 136", "Assertion*failed", "?double free or corruption",
			"free(): invalid", "corrupted size vs. prev_size", "?stack smashing detected", "?malloc(): ", "?munmap_chunk(): invalid", "?assertion failed", "Check failed: ", "?realloc(): invalid", "?corrupted double-linked list", "?free(): double free"),
		weighing(Ending, Crash, "signal 6 (Aborted)", "terminated with signal 6", "terminate called", "?exited on signal 6", "killed by signal 6", "died from signal 6", "?KILLED BY SIGNAL: 6", "exitcode: -6)", "?exitcode  : -6", "SIGABRT", "Aborted (core dumped)", "EXIT CODE: 134", "?EXIT CODE: 6", "Aborted (signal 6)", "?return code = -6", "Signal: Aborted", "?Fatal Python error"),

		// MPI and NCCL.
		is(CollectiveMismatch, "Detected mismatch between collectives", "DDP expects same model across all ranks", "Mismatched collective", "?collective mismatch error", "?mismatched data types", "?Mismatched allreduce", "?Mismatched MPI operations", "?Mismatched data types", "?Mismatched ALLREDUCE", "?but rank*is running collective"),
		is(NoInit, "was called before MPI_INIT was invoked", "?before initializing or after finalizing", "was called after MPI_FINALIZE was invoked", "?did not call \"init\" before exiting", "?without having called MPI_Init", "?never spoke to mpiup"),
		likelyAs(Ending, NoFinalize, "exiting improperly"),
		is(NoFinalize, "without calling \"finalize\"", "without MPI_Finalize", "without calling MPI_Finalize", "?before calling MPI_Finalize"),
		is(InitFailed, "An error occurred in MPI_Init", "MPI runtime init failed", "MPI_INIT failed", "MPI_INIT has failed because", "selected pml*but peer", "?MPI_Init failed", "Fatal error in*MPI_Init", "PML add procs failed", "Fatal error in*_Init", "OPAL ERROR: ", "PMIX ERROR: ", "no usable transports", "Failed to create UCP worker", "?Failed to init UCX", "?No endpoint ", "?PMIx_Init failed", "?PMI2_Init failed", "?PMI_Init failed", "?Other MPI error*MPIR_Init", "MPIR_Init_thread", "MPID_Init", "MPIDI_*init*failed", "MPII_Init_thread", "orte_init failed",
			"?opal_init failed", "?pmix_init failed", "?orte_ess_init failed", "?prte_init failed", "?opal_shmem_base_select failed", "PML*cannot be selected", "A requested component was not found", "No components were able to be opened in the pml framework", "?open_fabric*failed", "?OFI call*failed"),
		// The head of an error stack, which names the reason below.
		weighing(Ending, MPIError, "Fatal error in*: Other MPI error", "Fatal error in*: Unknown error", "?MPI_ERR_UNKNOWN", "?MPI_ERR_OTHER"),
		likely(MPIError, "pml_ob1_sendreq.c:"),
		is(MPIError, "MPI traceback error handler called by rank", "An error occurred in MPI_", "MPI_ERR_", "Fatal error in*MPI_", "?Fatal error in internal_", "Message truncated", "MPI_ERRORS_ARE_FATAL", "?mpi4py.MPI.Exception"),
		is(GPUError, "CUDA error: ", "?CUDA runtime error", "?CUDA driver error", "?HIP error: ", "Cuda failure", "?Got CUDA error", "?cudaErrorUnknown", "?hipErrorUnknown", "?CUDA_ERROR_UNKNOWN", "?CUDNN_STATUS_", "?CUBLAS_STATUS_", "?CUFFT_", "?CUSPARSE_STATUS_", "?CUSOLVER_STATUS_"),
		is(NCCL, "NCCL error", "?ncclInternalError", "ncclSystemError", "ncclUnhandledCudaError", "?unhandled system error", "?unhandled cuda error", "?ncclInvalidUsage", "?NCCL failure", "?Test NCCL failure", "?ncclCommInitRank failed", "?DistBackendError"),
		is(NCCL, "NCCL WARN Duplicate GPU detected", "?NCCL WARN Invalid", "?NCCL WARN Wrong", "?NCCL WARN Mismatch"),
		weighing(Echo, NCCL, "NCCL WARN*failed", "NCCL WARN*error", "?NCCL WARN*Couldn't", "NCCL WARN*has already checked in", "?NCCL WARN*unable to"),
		is(Abort, "MPT ERROR: Rank*is aborting with error code", "aborting MPI_COMM_WORLD*comm rank", "?[ABORT]", "MPI processes was aborted.(rank=", "MPI_ABORT was invoked", "application called MPI_Abort", "called MPI_Abort"),
		is(Killed, "Caught signal number 15 Terminate", "Process terminated by User defined signal", "?task(s) Terminated", "?task(s) Killed", "?exit signals: Killed", "?exit signals: Terminated", "exited on signal", "KILLED BY SIGNAL", "srun: error:*Terminated", "srun: error:*Killed", "?exitcode: -15", "?exitcode  : -15", "?SIGTERM) received", "?was killed by signal", "Terminated (signal", "terminated by signal", "?return code = -15", "?EXIT CODE: 143", "EXIT CODE: 15", "?exited with code 143", "exit code 143"),
		weighing(Ending, MPIError, "MPICH ERROR [Rank"),
		is(ExitCode, "exited with non-zero status", "Exit code:  ", "EXIT CODE: ", "failed (exitcode: ", "exitcode  : ", "exits with return code", "Exited with exit code", "?exited with exit code", "exited with code ", "non-zero exit status", "exit with status code", "exited with status ", "torchelastic.worker.status.FAILED"),
	)
})

func join(lists ...[]Sign) (all []Sign) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
