package verdict

// Kind is a kind of failure. Its text is for machines, and the name of its section in the page troubleshooting; it does not change.
type Kind string

// The kinds, from what is surely a failure's own reason to what is only said by those that lost another.
const (
	ProgramNotFound    Kind = "program-not-found"
	NotAllowed         Kind = "not-allowed"
	MissingLibrary     Kind = "missing-library"
	WrongArchitecture  Kind = "wrong-architecture"
	OutOfMemory        Kind = "out-of-memory"
	SharedMemory       Kind = "shm-too-small"
	DiskFull           Kind = "disk-full"
	Limits             Kind = "limit-reached"
	LockedMemory       Kind = "locked-memory"
	GPUMemory          Kind = "gpu-out-of-memory"
	GPUFault           Kind = "gpu-fault"
	GPUError           Kind = "gpu-error"
	FabricDown         Kind = "fabric-down"
	StuckIO            Kind = "stuck-io"
	Segfault           Kind = "segfault"
	Crash              Kind = "crash"
	Mismatch           Kind = "mpi-mismatch"
	NoInit             Kind = "no-mpi-init"
	Slots              Kind = "not-enough-slots"
	Usage              Kind = "usage"
	HostsMissing       Kind = "hosts-missing"
	OtherVersion       Kind = "version-mismatch"
	DNS                Kind = "dns"
	NotRunning         Kind = "pod-not-running"
	Identity           Kind = "identity"
	PortInUse          Kind = "port-in-use"
	Network            Kind = "network"
	Terminated         Kind = "pod-terminated"
	AgentLost          Kind = "agent-lost"
	Interrupted        Kind = "interrupted"
	TimeOut            Kind = "time-out"
	Stalled            Kind = "stalled"
	WatchFailed        Kind = "watch-fail"
	OutputLost         Kind = "output-lost"
	Broken             Kind = "internal"
	Python             Kind = "python-exception" // any that no sign knows
	MPIError           Kind = "mpi-error"
	InitFailed         Kind = "mpi-init-failed"
	NCCL               Kind = "nccl-error"
	NoFinalize         Kind = "no-mpi-finalize"
	Abort              Kind = "mpi-abort"
	Killed             Kind = "killed"
	ExitCode           Kind = "exit-code"
	StuckInit          Kind = "stuck-in-init"
	StuckFinalize      Kind = "stuck-in-finalize"
	Rendezvous         Kind = "rendezvous-timeout" // ranks waited for others that never came to where they meet
	CollectiveMismatch Kind = "collective-mismatch"
	Collective         Kind = "collective-timeout" // ranks waited for others in a collective operation
	FabricError        Kind = "fabric-error"
	PeerLost           Kind = "peer-lost" // the connection to another rank ended
)

// Weight is how much a kind explains. Of what is known of a run, the heaviest counts, and of one weight the first.
type Weight uint8

// The weights.
const (
	Echo    Weight = iota // ranks say so that lost another one
	Wait                  // ranks say so that waited for another one
	Ending                // how something ended, and not why
	Program               // the program's own words
	Cause                 // nothing else explains it
)

// About is what there is to say of a kind, whatever the case.
type About struct {
	Kind   Kind
	Weight Weight
	Title  string
	Means  string   // what it means
	Tell   []string // how to tell
	Do     []string // what to do, the likeliest to help first
}

// Of is what there is to say of a kind; the zero value where it is none.
func Of(k Kind) About {
	for _, a := range Kinds {
		if a.Kind == k {
			return a
		}
	}
	return About{}
}

const (
	adviceGPUMemory  = "its GPU has no memory left: make the batch or the model's part on a GPU smaller; nvidia-smi on its host shows who else uses that GPU"
	adviceRendezvous = "another rank never came: see what it did instead, and whether the ranks' hosts reach each other at MASTER_ADDR and MASTER_PORT"
	adviceCollective = "another rank did not take part in the operation: see which one was elsewhere (py-spy dump), or ended"
	advicePeerLost   = "another rank ended, or the network between them broke: what that one wrote, and its host, tell why"
	noteSpawn        = "MPICH 4.0 and 4.1 over UCX, as Debian has it, cannot spawn under any launcher: use MPICH 4.2, one over libfabric, or Open MPI"
	adviceNoneLost   = "no other rank had failed: what it lost may be no rank, and it may have gone on after that line"
)

// Kinds is what there is to say of each kind. The page troubleshooting is made of it.
var Kinds = []About{
	{ProgramNotFound, Cause, "Program not found or not executable", "A host has no such program, or may not execute it. Nothing ran there.",
		[]string{"`mpiup exec HOST -- ls -l PROGRAM` shows what that host has.", "`command not found` of `orted` or `prted`: an `mpirun` looks for its daemon on another host."},
		[]string{"Use one image on all hosts, and name the program by its path.", "`--preload-binary` copies the program to hosts that lack it.", "`chmod +x`, and a first line `#!` that names an interpreter which the image has."}},
	{NotAllowed, Cause, "Not allowed to start", "An agent's policy refuses this start, or the kernel does not let the agent's user execute the program.",
		[]string{"The line names the policy's rule.", "Without a rule it is the kernel: compare `mpiup exec HOST -- id` with `ls -l PROGRAM` there."},
		[]string{"Have whoever starts the agents allow it: `--allow run,exec`, or a line `allow run launcher` in the policy file.", "`mpiup help security` has the kinds of start and what is allowed without a policy."}},
	{MissingLibrary, Cause, "Shared library missing", "A library that the program needs is missing or of another version.",
		[]string{"The line names the library: `libmpi.so.40: cannot open shared object file`.", "`mpiup exec HOST -- ldd PROGRAM` marks what is `not found`."},
		[]string{"Use the image in which the program was built.", "Pass `LD_LIBRARY_PATH` with `-x LD_LIBRARY_PATH`."}},
	{WrongArchitecture, Cause, "Wrong architecture", "The program or a library is for another processor.",
		[]string{"`mpiup peers` shows each host's architecture; `file PROGRAM` the program's."},
		[]string{"Build the image for all architectures of the cluster.", "Bind pods to one of them: `nodeSelector: {kubernetes.io/arch: amd64}`."}},
	{OutOfMemory, Cause, "Out of memory (OOM kill)",
		"Container or node had no memory left, and the kernel killed a rank, or a worker, a helper or the program of a wrapper that a rank had started. Of several that died at once, each is only probably one.",
		[]string{"mpiup says whom the kernel killed, as far as its container shows that, and what it led to: a code 137, a DataLoader's or a pool's exception.", "`kubectl describe pod POD` says `OOMKilled`.", "`dmesg` on the node names the process.", "Files in /dev/shm count as memory."},
		[]string{"Raise `resources.limits.memory`.", "Put fewer ranks on a host (`--ppn`), or load data with fewer workers.", "Memory that rises until the end is a leak."}},
	{SharedMemory, Cause, "/dev/shm too small",
		"/dev/shm had no room for a rank's shared memory, and the kernel sent SIGBUS. Containers have 64 MiB there by default.",
		[]string{"`mpiup doctor` shows size and need.", "`Bus error`, `insufficient shared memory` or `Error while creating shared memory segment`."},
		[]string{"Mount a memory volume: `emptyDir: {medium: Memory, sizeLimit: 8Gi}` at /dev/shm.", "Make room there."}},
	{DiskFull, Cause, "Disk full", "A file system or quota is full.",
		[]string{"`mpiup exec HOST -- df -h` shows which one.", "`kubectl describe node` says `DiskPressure` where it is the node's."},
		[]string{"Make room, or write elsewhere.", "Raise the volume's size or `ephemeral-storage`."}},
	{Limits, Cause, "Process, thread or descriptor limit", "The container may have no more processes, threads or open files.",
		[]string{"`mpiup exec HOST -- cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current`.", "`ulimit -n` and `ulimit -u` in the container."},
		[]string{"Set `OMP_NUM_THREADS`: libraries start a thread a CPU of the node otherwise.", "Raise the kubelet's `podPidsLimit`, or the soft limit of open files.", "Close files: a number that grows is a leak."}},
	{LockedMemory, Cause, "Locked memory limited", "A network library could not register memory with the adapter: the container may lock too little.",
		[]string{"`mpiup exec HOST -- sh -c 'ulimit -l'` should say `unlimited`."},
		[]string{"Set `LimitMEMLOCK=infinity` for the container runtime.", "Give the container `IPC_LOCK`.", "Set `ulimit -l unlimited` where ranks start."}},
	{GPUMemory, Cause, "GPU out of memory", "A rank asked its GPU for more memory than was free.",
		[]string{"The line says how much was asked for and how much the GPU has.", "Often two ranks share a GPU: see `nvidia-smi`."},
		[]string{adviceGPUMemory, "see that each rank has a GPU of its own: `mpiup run --gpus-per-rank 1`"}},
	{GPUFault, Cause, "GPU fault (Xid, ECC, off the bus)",
		"The GPU itself failed: an uncorrectable memory error, or it no longer answers. It will fail again.",
		[]string{"`NVRM: Xid` and a PCI address in the node's kernel log. An agent that may read /dev/kmsg looks there for a failed rank's GPUs.", "`nvidia-smi -q -d ECC,ROW_REMAPPER` on the node."},
		[]string{"Keep jobs off the node: the next attempt goes elsewhere then.", "Reset the GPU or reboot the node; replace the GPU where it comes back.", "Report Xid 48, 63, 64, 74, 79, 94 and 95 to the cluster's owner."}},
	{GPUError, Cause, "CUDA error", "A kernel did something wrong, or driver, CUDA and GPU do not fit. The Python line that fails is often a later one.",
		[]string{"`CUDA_LAUNCH_BLOCKING=1` makes the failing call the one that is named."},
		[]string{"See on the rank's host which GPUs and which driver are there, and who uses them: `nvidia-smi`, `rocm-smi`, `npu-smi info`."}},
	{FabricDown, Cause, "HCA, NVLink or fabric down",
		"A network adapter, its port or the link between GPUs failed. Jobs on that node fail until it is repaired.",
		[]string{"`mpiup doctor` and `ibstat` show the ports.", "Link errors in the node's kernel log: `Port: 1 Link DOWN`.", "`nvidia-smi nvlink -s` shows links between GPUs; NVSwitch machines need the fabric manager."},
		[]string{"Keep jobs off the node; run this one again.", "Check cable and switch port."}},
	{StuckIO, Cause, "File system does not answer", "A file system does not answer (state D), or the mount is lost. Nothing can kill who waits for it.",
		[]string{"`mpiup ps` shows `in I/O on` the mount.", "`mpiup exec HOST -- ps -eo pid,stat,wchan:30,args` shows state D.", "`Stale file handle`, `not responding`, `Transport endpoint is not connected` in the log."},
		[]string{"See to the storage: server and network.", "See to the CSI driver's pod there; delete the pod, so that it is mounted anew."}},
	{Segfault, Cause, "Segmentation fault", "A process used memory that is not its own: a bug, or two libraries that do not fit.",
		[]string{"`it crashed in` names the innermost functions, with lines of a program built with `-g`, where the rank wrote them " +
			"(Open MPI, UCX, gfortran, Python's `-X faulthandler`) or left a core file: `ulimit -c unlimited`, a plain `core_pattern`."},
		[]string{"`PYTHONFAULTHANDLER=1` prints where Python was.", "See that all libraries are of one build: MPI, CUDA, NCCL, libfabric and UCX.", "Try one transport less: `UCX_TLS=tcp`, `OMPI_MCA_pml=ob1`."}},
	{Crash, Cause, "Crash",
		"An assertion, an uncaught C++ exception, a run-time error of Fortran, an illegal instruction or a division by zero ended a process.",
		[]string{"Illegal instruction: it was built for a newer CPU (AVX-512)."},
		[]string{"Read what the rank wrote just before."}},
	{Mismatch, Cause, "MPI library mismatch", "Ranks' MPI libraries, or a library and its launcher, differ in kind or version.",
		[]string{"`mpiup run` names the library of each host before it starts anything.", "`ldd PROGRAM | grep mpi` on each host.",
			"Ranks that were each alone, as rank 0 of 1: the library did not take the protocol that it was offered, or a wrapper took `PMI_*` or `PMIX_*` away (`mpiup help environment`)."},
		[]string{"Use one image on all hosts.", "Build all programs, mpi4py too, with the MPI that is in that image.", "`--mpi` chooses another protocol where a library is built for one only."}},
	{CollectiveMismatch, Cause, "Collective operations differ", "Ranks called different collective operations, or one with different shapes or datatypes.",
		[]string{"The line names what one rank was doing, and another.", "`TORCH_DISTRIBUTED_DEBUG=DETAIL` makes torch say so where it hangs otherwise."},
		[]string{"Let all ranks call the same operations in one order: look for a condition on the rank, or a parameter that some ranks do not use.", "Pad what has another shape on some ranks."}},
	{NoInit, Cause, "MPI_Init not called", "A rank ended, or called MPI, without MPI_Init, in which others wait.",
		[]string{"That rank's own output says where it went instead."},
		[]string{"See that each rank takes the same way to MPI_Init, and that none returns early.", "A shell script as program must `exec` or call the MPI program on every way."}},
	{Slots, Cause, "More ranks than slots", "You asked for more ranks than the hosts have slots.",
		[]string{"The hostfile's `slots=`, or the CPUs and GPUs that `mpiup peers` shows."},
		[]string{"Ask for fewer ranks, or for more workers.", "`--oversubscribe` where that is meant."}},
	{Usage, Cause, "Wrong command line", "The launcher, or the program itself, did not understand or refused what it was told, or a host cannot use a directory named there.",
		[]string{"The line names the option.", "`NAME.py: error:` is the program's own word (Python's argparse)."},
		[]string{"`mpiup run --help`; `mpiup help mpirun` for options of Open MPI, MPICH and Intel MPI."}},
	{HostsMissing, Cause, "Hosts missing", "Fewer hosts came than the job needs, or a list names one twice.",
		[]string{"mpiup shows each missing host and what it knows of it."},
		[]string{"See why a pod does not run: `kubectl describe pod POD`.", "Wait longer (`--wait`)."}},
	{OtherVersion, Cause, "Another version of mpiup", "A host runs an mpiup that speaks another protocol than the launcher's.",
		[]string{"`mpiup version` in both images."},
		[]string{"Use one version of mpiup in the launcher's and the workers' images."}},
	{DNS, Cause, "Host name not resolved",
		"A host's name has no address. Pods get records once they are scheduled, and name servers remember for a while that there was none.",
		[]string{"`mpiup exec -- getent hosts NAME`.", "Does the pod run? Does the headless service select it?"},
		[]string{"Let mpiup wait (`--wait`): it asks again, past caches.", "`publishNotReadyAddresses: true` on the service."}},
	{NotRunning, Cause, "A worker's pod does not run",
		"A pod of the job has no name in DNS, or nothing listens in it: it is not scheduled, its image is not there or has no mpiup, or its command is another.",
		[]string{"`kubectl describe pod POD`: its events say `FailedScheduling`, `ImagePullBackOff`, `Failed` (\"mpiup\": executable file not found).",
			"`kubectl logs POD`, where it has begun. `Running` and not ready: does the headless service select it?"},
		[]string{"Pending: ask for what nodes have (GPUs, memory, tolerations), or wait longer (`--wait`) where nodes are still to come.",
			"ImagePullBackOff: the image's name, and `imagePullSecrets`.", "The worker's command is `mpiup agent`, and the image has mpiup (`mpiup check-image`)."}},
	{Identity, Cause, "TLS, key or identity refused",
		"One side refused the other's key or certificate. With ssh: no host key, no authorised key, or a key file's mode.",
		[]string{"`mpiup doctor` checks the secret."},
		[]string{"Give all pods of the job the same secret.", "Let mpiup take ssh's place: it needs no keys of ssh and reads its own whatever its mode.", "Set clocks right: certificates are valid for a time."}},
	{PortInUse, Cause, "Port in use", "Another process has the port: one left behind, or a second job with this MASTER_PORT on the host's network.",
		[]string{"`mpiup exec HOST -- ss -ltnp` shows who listens."},
		[]string{"Leave MASTER_PORT to mpiup, which takes a free one.", "End the process that was left behind."}},
	{Network, Cause, "Network does not connect", "Hosts cannot reach each other: no route, a firewall, a network policy, or the wrong interface.",
		[]string{"`mpiup doctor --fabric` tries each pair.", "`kubectl get networkpolicy`."},
		[]string{"Allow traffic between the job's pods on all ports.", "Choose the interface: `--net`, `NCCL_SOCKET_IFNAME`, `OMPI_MCA_btl_tcp_if_include`."}},
	{Terminated, Ending, "Pod terminated (preempted, drained, evicted)", "Kubernetes or the batch system took a host away.",
		[]string{"`kubectl describe pod POD`: condition `DisruptionTarget`, reason `Evicted`, `Preempted` or `TerminationByKubelet`.", "Exit code 249 of mpiup."},
		[]string{"Run the job again: exit code 249 can be ignored by a pod failure policy (`mpiup help exit-codes`).", "Save checkpoints on the signal, and resume (`mpiup help preemption`); raise `terminationGracePeriodSeconds`."}},
	{AgentLost, Program, "Host or its agent lost", "The launcher lost a host on which ranks ran: pod, node or agent died.",
		[]string{"`kubectl describe pod POD` and `kubectl get events`.", "`mpiup peers` shows who still answers.",
			"`probably the container's memory`: its last look was near the limit, and the kernel may end all of a container at once (`memory.oom.group`, as Kubernetes has it with cgroup v2)."},
		[]string{"See why the pod or its agent ended.",
			"Where its kernel still acknowledges, its agent is stopped or gets no CPU: raise its CPU limit, or allow it `CAP_SYS_NICE`.",
			"Run the job again: exit code 248.", "`--node-timeout` where hosts may be silent for longer."}},
	{Interrupted, Ending, "Interrupted", "Ctrl-C, a signal, `mpiup shutdown` or a cancelled batch job ended it.",
		[]string{"The launcher pod's events, or the batch system's log, say who."},
		[]string{"Run it again."}},
	{TimeOut, Ending, "Time limit", "The job ran longer than its limit (`--timeout`, `activeDeadlineSeconds`, the batch system's).",
		[]string{"mpiup says who waited for whom at that moment."},
		[]string{"Give it more time (`--timeout`), or look where its ranks are: `mpiup stacks`."}},
	{Stalled, Ending, "Run that hung", "No rank did anything for `--stall-timeout`, or a step in `--watch-stall`.",
		[]string{"The rank that others wait for is named, with stacks."},
		[]string{"See why the awaited rank does not go on.", "Look while it hangs: `--on-stall notice`, then `mpiup stacks`.",
			"Raise the limit where healthy runs are as silent."}},
	{WatchFailed, Ending, "A value that was not to be", "A rank's output broke a rule of `--watch-fail`.",
		[]string{"The line names rule, rank and value."}, []string{"`mpiup report --html FILE` draws how it came to that.", "Go on from a checkpoint before."}},
	{OutputLost, Cause, "Output could not be written", "Nobody reads the launcher's standard output, or something could not be written.",
		[]string{"`mpiup run … | head` ends the reader first."},
		[]string{"Make room, or choose a place that can be written."}},
	{Broken, Cause, "Fault of mpiup", "A launcher or an agent of mpiup did what it must not.",
		[]string{"The line says what was wrong."},
		[]string{"Please report it with the lines above."}},
	{Python, Program, "Python exception", "A rank's Python program ended with an exception that it did not catch.",
		[]string{"Of exceptions that came of each other the root is named, with the program's own line; `it led to` is the one in which they ended.",
			"`it came while this was handled` is a look-up that may fail, as of a cache or of a module that is not needed."},
		[]string{"Mend what the exception says.", "Run the one rank's part alone: `mpiup run -n 1`."}},
	{MPIError, Program, "MPI error", "An MPI call failed and MPI ended the job: a message longer than its buffer, a wrong rank, communicator or datatype.",
		[]string{"The line names the MPI function and the error class."},
		[]string{"Compare counts and datatypes of sender and receiver.", "See that all ranks call collectives in one order."}},
	{InitFailed, Program, "MPI_Init failed", "MPI could not be set up. Lines before often name the reason: shared memory, network, adapter, library.",
		[]string{"What the rank wrote just before."},
		[]string{"`mpiup doctor` checks what MPI needs on each host.",
			"A program that a rank starts (`system`, `subprocess`, `multiprocessing`) is no rank: it may call MPI_Init only when that rank has not, or without the rank's `PMI_*`, `PMIX_*` and `OMPI_*` variables.",
			"Try plain TCP: `OMPI_MCA_btl=self,tcp OMPI_MCA_pml=ob1`, `UCX_TLS=tcp,self`, `FI_PROVIDER=tcp`."}},
	{NCCL, Program, "NCCL error", "NCCL failed for a reason that only its own log names.",
		[]string{"`unhandled system error` is the network or shared memory, `unhandled cuda error` a GPU or its driver."},
		[]string{"Run again with `NCCL_DEBUG=INFO` and read the first `NCCL WARN`.", "Choose the network: `NCCL_SOCKET_IFNAME`, `NCCL_IB_HCA`; `NCCL_IB_DISABLE=1` tries without InfiniBand.", "Use one version of NCCL in all pods."}},
	{NoFinalize, Program, "Exit before MPI_Finalize", "A rank called MPI_Init and exited without MPI_Finalize: a failure even with exit code 0.",
		[]string{"mpiup names the rank."},
		[]string{"Call MPI_Finalize on every way out; a bare `exit` or `sys.exit` skips it."}},
	{Abort, Ending, "MPI_Abort", "The program ended the job itself, with MPI_Abort.",
		[]string{"What that rank wrote before says why.", "mpi4py calls it for an exception that nobody caught."},
		[]string{"See what the rank wrote before."}},
	{Killed, Ending, "Killed by a signal", "A signal that mpiup did not send ended a process.",
		[]string{"`kubectl describe pod POD`: SIGKILL is usually memory, else an eviction, SIGTERM a pod that is ended."},
		[]string{"Look for who sent it: kernel (memory; `dmesg`), operator, debugger, another user."}},
	{ExitCode, Ending, "Exit code of the program", "A rank ended with a code other than 0, and nothing in its output says why.",
		[]string{"A shell's 126 and 127: no such command, or not executable."},
		[]string{"See what the rank wrote before.", "Run it alone: `mpiup run -n 1`."}},
	{StuckInit, Wait, "Stuck in MPI_Init", "Ranks wait there for one that has not come.",
		[]string{"mpiup names the rank and who waits for it."},
		[]string{"Look where that rank is: `mpiup stacks`.", "See that all hosts start it with the same number of ranks."}},
	{StuckFinalize, Wait, "Stuck in MPI_Finalize", "Ranks wait there for one that has not come, or it does not end.",
		[]string{"mpiup names the rank that is elsewhere."},
		[]string{"See why that rank does not come.", "Where all are in it: `mpiup doctor` knows libraries that hang there."}},
	{Rendezvous, Wait, "Rendezvous timed out", "Ranks waited for others where they meet (torch's store, JAX's coordinator, Gloo).",
		[]string{"mpiup names the ranks that have not come.", "Their log says what they did instead."},
		[]string{adviceRendezvous}},
	{Collective, Wait, "Collective operation timed out", "Ranks waited in an all-reduce or another collective; the absent one is the reason.",
		[]string{"The rank that does not say so is the one to look at.", "torch's flight recorder names it; mpiup switches it on from torch 2.2."},
		[]string{adviceCollective, "all ranks must do as many steps: uneven data is a usual reason", "a longer time-out helps where one rank saves or evaluates alone"}},
	{FabricError, Echo, "Fabric transfer failed", "An adapter gave a transfer up: the other side no longer answers, or the way there is broken.",
		[]string{"Did a rank on the other host end before? Then that is the reason.", "`ibv_rc_pingpong`, or `mpiup doctor --fabric`, between the two hosts."},
		[]string{"See whether the peer's rank ended first.", "Check the link and the switch."}},
	{PeerLost, Echo, "Connection to another rank lost", "A rank lost another one, which ended first, or the network broke.",
		[]string{"Look for the first rank that ended for a reason of its own; mpiup names it if known."},
		[]string{advicePeerLost}},
}
