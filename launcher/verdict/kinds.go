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
	Identity           Kind = "identity"
	PortInUse          Kind = "port-in-use"
	Network            Kind = "network"
	Terminated         Kind = "pod-terminated"
	AgentLost          Kind = "agent-lost"
	Interrupted        Kind = "interrupted"
	TimeOut            Kind = "time-out"
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
	adviceRendezvous = "another rank never came: see what it did instead, and whether the ranks' pods reach each other at MASTER_ADDR and MASTER_PORT"
	adviceCollective = "another rank did not take part in the operation: see which one was elsewhere (py-spy dump), or ended"
	advicePeerLost   = "another rank ended, or the network between them broke: what that one wrote, and its pod, tell why"
)

// Kinds is what there is to say of each kind. The page troubleshooting is made of it.
var Kinds = []About{
	{ProgramNotFound, Cause, "Program not found or not executable",
		"A host has no such program, or may not execute it. Nothing ran there.",
		[]string{"`mpiup exec HOST -- ls -l PROGRAM` shows what that host has.", "`command not found` of `orted` or `prted` means that an `mpirun` on one host looks for its daemon on another."},
		[]string{"Use one image on all hosts, and name the program by its path.", "`--preload-binary` copies the program to hosts that lack it.", "`chmod +x`, and a first line `#!` that names an interpreter which the image has."}},
	{NotAllowed, Cause, "Not allowed to start",
		"An agent's policy refuses this kind of start to this launcher, or the kernel does not let the agent's user execute the program.",
		[]string{"The line names the rule of the policy: a flag of `mpiup agent`, or a line of its policy file.", "Without a rule it is the kernel: `mpiup exec HOST -- id` shows the user, `ls -l PROGRAM` who may execute it."},
		[]string{"Have whoever starts the agents allow it: `--allow run,exec`, or a line `allow run launcher` in the policy file.", "`mpiup help security` has the kinds of start and what is allowed without a policy."}},
	{MissingLibrary, Cause, "Shared library missing",
		"The program was found, and a library that it needs was not, or is of another version.",
		[]string{"The line names the library: `libmpi.so.40: cannot open shared object file`.", "`mpiup exec HOST -- ldd PROGRAM` marks what is `not found`."},
		[]string{"Use the image in which the program was built.", "Set `LD_LIBRARY_PATH` in the container, or pass it with `-x LD_LIBRARY_PATH`."}},
	{WrongArchitecture, Cause, "Wrong architecture",
		"The program or a library is for another processor than the host's, or is a script without `#!`.",
		[]string{"`mpiup peers` shows each host's architecture; `file PROGRAM` the program's.", "A node pool of several architectures gives pods to either."},
		[]string{"Build the image for all architectures of the cluster.", "Bind pods to one of them: `nodeSelector: {kubernetes.io/arch: amd64}`."}},
	{OutOfMemory, Cause, "Out of memory (OOM kill)",
		"The container's memory limit, or the node's memory, was used up, and the kernel killed a process with SIGKILL. The counter is of the whole container: where several ranks died by signal 9 at once, it is probably this for each.",
		[]string{"`kubectl describe pod POD` says `OOMKilled` or exit code 137.", "On the node `dmesg` names the process: `Memory cgroup out of memory`.", "Files in /dev/shm and other memory volumes count as the container's memory."},
		[]string{"Raise `resources.limits.memory`.", "Put fewer ranks on a host (`--ppn`), or load data with fewer workers.", "Look for growth: memory that rises until the end is a leak."}},
	{SharedMemory, Cause, "/dev/shm too small",
		"A rank wrote to shared memory for which /dev/shm had no room; the kernel then sends SIGBUS. Containers have 64 MiB there unless told otherwise.",
		[]string{"`mpiup doctor` says how large /dev/shm is and how much the ranks need.", "`Bus error`, `insufficient shared memory` or NCCL's `Error while creating shared memory segment` in the log."},
		[]string{"Mount a memory volume there: `emptyDir: {medium: Memory, sizeLimit: 8Gi}` at /dev/shm.", "Use fewer data loader workers."}},
	{DiskFull, Cause, "Disk full",
		"A file could not be written because its file system or quota is full.",
		[]string{"`mpiup exec HOST -- df -h` shows which one.", "`kubectl describe node` says `DiskPressure` where it is the node's."},
		[]string{"Make room, or write elsewhere.", "Raise the volume's size or `ephemeral-storage`."}},
	{Limits, Cause, "Process, thread or descriptor limit",
		"The container may have no more processes, threads or open files.",
		[]string{"`mpiup exec HOST -- cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current`.", "`ulimit -n` and `ulimit -u` in the container."},
		[]string{"Set `OMP_NUM_THREADS`: libraries start a thread a CPU of the node otherwise.", "Raise the kubelet's `podPidsLimit`, or the soft limit of open files.", "Close files: a number that grows is a leak."}},
	{LockedMemory, Cause, "Locked memory limited",
		"A network library could not register memory with the adapter, since the container may lock too little of it.",
		[]string{"`mpiup exec HOST -- sh -c 'ulimit -l'` should say `unlimited`."},
		[]string{"Set `LimitMEMLOCK=infinity` for the container runtime.", "Give the container the capability `IPC_LOCK`."}},
	{GPUMemory, Cause, "GPU out of memory",
		"A rank asked its GPU for more memory than was free.",
		[]string{"The line says how much was asked for and how much the GPU has.", "`nvidia-smi` on the host shows other users of the GPU: two ranks on one GPU are a usual reason."},
		[]string{adviceGPUMemory, "see that each rank has a GPU of its own: `mpiup run --gpus-per-rank 1`"}},
	{GPUFault, Cause, "GPU fault (Xid, ECC, off the bus)",
		"The GPU itself failed: a memory error that could not be corrected, or it no longer answers. The same GPU fails again.",
		[]string{"`NVRM: Xid` in the node's kernel log, with the PCI address. When a rank fails its agent looks there for those of the rank's GPUs since its start, where it may read /dev/kmsg.", "`nvidia-smi -q -d ECC,ROW_REMAPPER` on the node."},
		[]string{"Cordon the node, so that the job's next attempt goes elsewhere.", "Reset the GPU or reboot the node; replace the GPU where it comes back.", "Report Xid 48, 63, 64, 74, 79, 94 and 95 to the cluster's owner."}},
	{GPUError, Cause, "CUDA error",
		"A kernel did something wrong, or driver, CUDA library and GPU do not fit. Kernels run on their own time, so that the line of Python that fails is often a later one.",
		[]string{"`CUDA_LAUNCH_BLOCKING=1` makes the failing call the one that is named.", "`nvidia-smi` shows the driver's version, and whether a GPU is there at all."},
		[]string{"See by `nvidia-smi` on the rank's host which GPUs and which driver are there, and who uses them."}},
	{FabricDown, Cause, "HCA, NVLink or fabric down",
		"A network adapter, its port or the link between GPUs failed. Jobs on that node fail until it is mended.",
		[]string{"`mpiup doctor` reads the ports' states; `ibstat` on the node too.", "Link errors in the node's kernel log: `Port: 1 Link DOWN`.", "`nvidia-smi nvlink -s` for links between GPUs; the fabric manager must run on NVSwitch machines."},
		[]string{"Cordon the node, and run the job again.", "Check cable and switch port."}},
	{StuckIO, Cause, "File system does not answer",
		"A process waits for a file system that does not answer (state D), or lost its mount. It cannot even be killed until that answers.",
		[]string{"`mpiup ps` shows `in I/O`, and the mount after `on`.", "`mpiup exec HOST -- ps -eo pid,stat,wchan:30,args` shows state D and what is waited for.", "`Stale file handle`, `not responding`, `Transport endpoint is not connected` in the log."},
		[]string{"See to the storage: server, network, the CSI driver's pod on that node.", "Delete the pod, so that it is mounted anew."}},
	{Segfault, Cause, "Segmentation fault",
		"A process used memory that is not its own: a bug in the program or a library, or two libraries that do not fit.",
		[]string{"`it crashed in` names the innermost functions, where the rank wrote them: Open MPI and UCX do, Python with `-X faulthandler`.", "With `ulimit -c unlimited` in the container and eu-stack or gdb on its `PATH`, mpiup reads the core file that a plain `core_pattern` leaves beside the program."},
		[]string{"`PYTHONFAULTHANDLER=1` prints where Python was.", "See that all libraries are of one build: MPI, CUDA, NCCL, libfabric and UCX.", "Try one transport less: `UCX_TLS=tcp`, `OMPI_MCA_pml=ob1`."}},
	{Crash, Cause, "Crash",
		"A process ended itself or was ended by the kernel: an assertion, an uncaught C++ exception, a run-time error of Fortran, an illegal instruction or a division by zero.",
		[]string{"What it wrote just before names the assertion.", "Illegal instruction: the program was built for a newer CPU (AVX-512) than the node's."},
		[]string{"Read what the rank wrote just before."}},
	{Mismatch, Cause, "MPI library mismatch",
		"The ranks' MPI libraries, or a library and its launcher, are of different kinds or versions.",
		[]string{"`mpiup run` names the library of each host before it starts anything.", "`ldd PROGRAM | grep mpi` on each host."},
		[]string{"Use one image on all hosts.", "Build all programs, mpi4py too, with the MPI that is in that image.", "`--mpi` chooses another protocol where a library is built for one only."}},
	{CollectiveMismatch, Cause, "Collective operations differ",
		"Ranks were in different collective operations at one time, or in one with different shapes or datatypes.",
		[]string{"The line names what one rank was doing, and another.", "`TORCH_DISTRIBUTED_DEBUG=DETAIL` makes torch say so where it hangs otherwise."},
		[]string{"Let all ranks call the same operations in one order: look for a condition on the rank, or a parameter that some ranks do not use.", "Pad what has another shape on some ranks."}},
	{NoInit, Cause, "MPI_Init not called",
		"A rank ended, or called MPI, without having called MPI_Init, while others wait for it there.",
		[]string{"That rank's own output says where it went instead."},
		[]string{"See that each rank takes the same way to MPI_Init, and that none returns early.", "A shell script as program must `exec` or call the MPI program on every way."}},
	{Slots, Cause, "More ranks than slots",
		"The hosts have fewer slots than ranks were asked for.",
		[]string{"The hostfile's `slots=`, or the CPUs and GPUs that `mpiup peers` shows."},
		[]string{"Ask for fewer ranks, or for more workers.", "`--oversubscribe` where that is meant."}},
	{Usage, Cause, "Wrong command line",
		"The launcher did not understand what it was told, or refused to do it, or a host cannot use a directory that it names.",
		[]string{"The line names the option."},
		[]string{"`mpiup run --help`; `mpiup help mpirun` for options of Open MPI, MPICH and Intel MPI."}},
	{HostsMissing, Cause, "Hosts missing",
		"Fewer hosts came than the job needs, or a list of hosts names one twice.",
		[]string{"mpiup shows each host that is missing, with what is known of it.", "`kubectl get pods -o wide`: a pod that is `Pending` waits for its node."},
		[]string{"Wait longer (`--wait`): pods of a large job do not come at once.", "See why a pod does not run: `kubectl describe pod POD`."}},
	{OtherVersion, Cause, "Another version of mpiup",
		"A host runs an mpiup that speaks another protocol than the launcher's.",
		[]string{"`mpiup version` in both images."},
		[]string{"Use one version of mpiup in the launcher's and the workers' images."}},
	{DNS, Cause, "Host name not resolved",
		"A host's name has no address. Pods have their records only once they are scheduled, and name servers remember for a while that there was none.",
		[]string{"`mpiup exec -- getent hosts NAME`.", "`kubectl get pod -o wide`: does the pod run? Is there a headless service with the right selector?"},
		[]string{"Let mpiup wait (`--wait`): it asks again, past caches.", "`publishNotReadyAddresses: true` on the service.", "See to the cluster's DNS pods where many names fail."}},
	{Identity, Cause, "TLS, key or identity refused",
		"One side did not accept the other's key or certificate. With ssh: no host key, no authorised key, or a key file with a mode that ssh does not like.",
		[]string{"mpiup says which side refused and why.", "`mpiup doctor` checks the secret."},
		[]string{"Give all pods of the job the same secret.", "Let mpiup take ssh's place: it needs no keys of ssh and reads its own whatever its mode.", "Set clocks right: certificates are valid for a time."}},
	{PortInUse, Cause, "Port in use",
		"Another process listens at the port already: one that was left behind, or a second job with the same MASTER_PORT on the host's network.",
		[]string{"`mpiup exec HOST -- ss -ltnp` shows who listens."},
		[]string{"Leave MASTER_PORT to mpiup, which takes a free one.", "End the process that was left behind."}},
	{Network, Cause, "Network does not connect",
		"Hosts cannot reach each other at an address or port: no route, a firewall, a network policy, or the wrong interface.",
		[]string{"`mpiup doctor --fabric` tries each pair.", "`kubectl get networkpolicy`."},
		[]string{"Allow traffic between the job's pods on all ports.", "Choose the interface: `--net`, `NCCL_SOCKET_IFNAME`, `OMPI_MCA_btl_tcp_if_include`."}},
	{Terminated, Ending, "Pod terminated (preempted, drained, evicted)",
		"Kubernetes or the batch system took a host away while its ranks ran. The program is not at fault.",
		[]string{"`kubectl describe pod POD`: condition `DisruptionTarget`, reason `Evicted`, `Preempted` or `TerminationByKubelet`.", "Exit code 249 of mpiup."},
		[]string{"Run the job again: exit code 249 can be ignored by a pod failure policy (`mpiup help exit-codes`).", "Save checkpoints on the signal, and resume (`mpiup help preemption`); raise `terminationGracePeriodSeconds`."}},
	{AgentLost, Program, "Host or its agent lost",
		"The launcher heard nothing more of a host while ranks ran there: the pod or node died, or its agent did.",
		[]string{"`kubectl describe pod POD` and `kubectl get events`.", "`mpiup peers` shows who still answers."},
		[]string{"See why the pod or its agent ended.", "Run the job again: exit code 248.", "`--node-timeout` where hosts may be silent for longer."}},
	{Interrupted, Ending, "Interrupted",
		"Somebody ended the job: Ctrl-C, a signal to the launcher, a cancelled batch job.",
		[]string{"The launcher pod's events, or the batch system's log, say who."},
		[]string{"Nothing is wrong with the job: run it again."}},
	{TimeOut, Ending, "Time limit",
		"The job ran longer than its limit: `--timeout`, `activeDeadlineSeconds`, or the batch system's; or no rank worked for `--stall-timeout`, with `--on-stall abort`.",
		[]string{"mpiup says who waited for whom at that moment."},
		[]string{"Give it more time.", "Look for the rank that hangs: it is the one that others wait for. `mpiup ps` and `mpiup stacks` show it (`mpiup help hangs`)."}},
	{OutputLost, Cause, "Output could not be written",
		"Nobody reads the launcher's standard output, or what was to be written could not be.",
		[]string{"`mpiup run … | head` ends the reader first."},
		[]string{"Make room, or choose a place that can be written."}},
	{Broken, Cause, "Fault of mpiup",
		"A launcher or an agent of mpiup did what it must not.",
		[]string{"The line says what was wrong."},
		[]string{"Please report it with the lines above; use one version of mpiup everywhere."}},
	{Python, Program, "Python exception",
		"A rank's Python program ended with an exception that it did not catch.",
		[]string{"The last line of the traceback is the exception; the lines above are the way there, the innermost last."},
		[]string{"Mend what the exception says.", "Run the one rank's part alone: `mpiup run -n 1`."}},
	{MPIError, Program, "MPI error",
		"An MPI call failed and MPI ended the job, as is its default: a message longer than its buffer, a wrong rank, communicator or datatype.",
		[]string{"The line names the MPI function and the error class."},
		[]string{"Compare counts and datatypes of sender and receiver.", "See that all ranks call collectives in one order."}},
	{InitFailed, Program, "MPI_Init failed",
		"MPI could not be set up in a rank. Lines before it often name the reason: shared memory, network, an adapter, another library.",
		[]string{"What the rank wrote just before."},
		[]string{"`mpiup doctor` checks what MPI needs on each host.", "Try plain TCP: `OMPI_MCA_btl=self,tcp OMPI_MCA_pml=ob1`, `UCX_TLS=tcp,self`, `FI_PROVIDER=tcp`."}},
	{NCCL, Program, "NCCL error",
		"NCCL failed in a rank, for a reason that only its own log names.",
		[]string{"`NCCL_DEBUG=INFO` prints it: look for the first `NCCL WARN`.", "`unhandled system error` is the network or shared memory, `unhandled cuda error` a GPU or its driver."},
		[]string{"Run again with `NCCL_DEBUG=INFO` and read the first `NCCL WARN`.", "Choose the network: `NCCL_SOCKET_IFNAME`, `NCCL_IB_HCA`; `NCCL_IB_DISABLE=1` tries without InfiniBand.", "Use one version of NCCL in all pods."}},
	{NoFinalize, Program, "Exit before MPI_Finalize",
		"A rank called MPI_Init and exited without MPI_Finalize, which counts as a failure even with exit code 0.",
		[]string{"mpiup names the rank."},
		[]string{"Call MPI_Finalize on every way out of the program; a bare `exit` or `sys.exit` skips it."}},
	{Abort, Ending, "MPI_Abort",
		"The program ended the job itself, with MPI_Abort.",
		[]string{"What that rank wrote before says why.", "mpi4py calls it for an exception that nobody caught."},
		[]string{"See what the rank wrote before."}},
	{Killed, Ending, "Killed by a signal",
		"A signal that mpiup did not send ended a process.",
		[]string{"`kubectl describe pod POD`: SIGKILL may be memory or an eviction, SIGTERM a pod that is ended."},
		[]string{"Look for who sent it: the kubelet, an operator, a debugger, another user on the node."}},
	{ExitCode, Ending, "Exit code of the program",
		"A rank ended with a code other than 0, and nothing in its output says why.",
		[]string{"The code is the program's own; a shell's 126 and 127 mean that a command was not executable or not found."},
		[]string{"See what the rank wrote before.", "Run it alone: `mpiup run -n 1`."}},
	{StuckInit, Wait, "Stuck in MPI_Init",
		"Ranks wait in MPI_Init for one that has not come.",
		[]string{"mpiup names the rank, its host and pid, and who waits for it."},
		[]string{"Look where that rank is while it runs: `mpiup stacks`.", "See that the program is started on all hosts with the same number of ranks."}},
	{Rendezvous, Wait, "Rendezvous timed out",
		"Ranks waited for others that never came to where they meet (torch's store, JAX's coordinator, Gloo).",
		[]string{"mpiup names the ranks that have not come.", "The log of the ranks that are missing says what they did instead."},
		[]string{adviceRendezvous}},
	{Collective, Wait, "Collective operation timed out",
		"Ranks waited for others in an all-reduce or another collective; the one that is absent is the reason.",
		[]string{"The rank that does not say so is the one to look at.", "torch's flight recorder names it, which mpiup switches on for ranks of torch 2.2 and later."},
		[]string{adviceCollective, "all ranks must do as many steps: uneven data is a usual reason", "a longer time-out helps where one rank saves or evaluates alone"}},
	{FabricError, Echo, "Fabric transfer failed",
		"An adapter gave a transfer up: the other side no longer answers, since its process ended, its node died, or the way there is broken.",
		[]string{"Did a rank on the other host end before? Then that is the reason.", "`ibv_rc_pingpong`, or `mpiup doctor --fabric`, between the two hosts."},
		[]string{"See whether the peer's rank ended first.", "Check the link and the switch."}},
	{PeerLost, Echo, "Connection to another rank lost",
		"A rank lost another one. It is not the reason: the other one ended first, or the network broke.",
		[]string{"Look for the first rank that ended for a reason of its own: mpiup names it where it is known."},
		[]string{advicePeerLost}},
}
