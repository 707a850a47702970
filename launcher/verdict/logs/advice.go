package logs

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/launcher/verdict"
)

// site is whose log it is, by its lines.
type site struct{ kube, slurm, mpirun bool }

func (s *site) see(text string) {
	for _, mark := range []struct {
		at    *bool
		words []string
	}{
		{&s.kube, []string{"kubectl", "kubelet", "Kubernetes", "kubernetes", "[pod/", "pod/", "pods/", "OOMKilled", "default-scheduler", "FailedScheduling",
			"PodScheduled", "-launcher", "-worker-", ".svc", "mpijob", "pytorchjob", "containerd", "ImagePull"}},
		{&s.slurm, []string{"srun:", "slurmstepd", "SLURM", "sbatch", "StepId=", "slurm"}},
		{&s.mpirun, []string{"mpirun", "mpiexec", "orterun", "prterun", "orted", "ORTE", "PRTE", "BAD TERMINATION", "[proxy:", "PMIX ERROR"}},
	} {
		if !*mark.at && slices.ContainsFunc(mark.words, func(w string) bool { return strings.Contains(text, w) }) {
			*mark.at = true
		}
	}
}

// advice is what to do about a kind, by the line that says it, where the log is from.
func (s site) advice(k verdict.Kind, line string) (list []string) {
	if s.slurm {
		list = append(list, slurm[k]...)
	} else if s.mpirun && !s.kube {
		list = append(list, plain[k]...)
	}
	for _, do := range verdict.Do(k, line, !s.kube) {
		list = append(list, strings.ReplaceAll(do, "`", ""))
	}
	if len(list) > 0 {
		return list
	}
	if list = plain[k]; len(list) > 0 {
		return list
	}
	return []string{"See what the rank and its host wrote before."}
}

// What to do under Slurm, by its own commands (sbatch(1), srun(1), sacct(1), scontrol(1)).
var slurm = map[verdict.Kind][]string{
	verdict.OutOfMemory:  {"Ask for more memory: sbatch --mem or --mem-per-cpu; sacct -j JOB --format=JobID,MaxRSS shows what was used."},
	verdict.SharedMemory: {"See on the node what fills /dev/shm and /tmp: srun -w NODE df -h /dev/shm /tmp."},
	verdict.TimeOut:      {"Ask for more time: sbatch --time."},
	verdict.Terminated:   {"sacct -j JOB --format=State,Reason says why; sbatch --requeue starts such a job again."},
	verdict.Interrupted:  {"sacct -j JOB --format=State%30 says who cancelled the job."},
	verdict.InitFailed:   {"srun --mpi=list shows which PMI srun speaks; start with the one that the MPI library was built for (--mpi=pmix, --mpi=pmi2)."},
	verdict.Mismatch:     {"srun --mpi=list shows which PMI srun speaks; use the MPI library that was built for this cluster's Slurm, or mpirun in the job."},
	verdict.LockedMemory: {"ulimit -l in a job should say unlimited; else have PropagateResourceLimitsExcept=MEMLOCK set in slurm.conf."},
	verdict.AgentLost:    {"sinfo -R and scontrol show node NODE say what became of the node."},
	verdict.GPUFault:     {"Have the node drained: scontrol update NodeName=NODE State=DRAIN Reason=GPU; until then sbatch --exclude=NODE."},
	verdict.FabricDown:   {"Keep off the node until its adapter is mended: sbatch --exclude=NODE."},
	verdict.Slots:        {"Ask for what the job starts: sbatch --ntasks, --nodes, --ntasks-per-node."},
	verdict.Killed:       {"sacct -j JOB --format=State,ExitCode,Reason says what ended the step."},
	verdict.GPUError:     {"Ask for GPUs: sbatch --gres=gpu:N or --gpus-per-task=1."},
}

// What to do where hosts are plain machines.
var plain = map[verdict.Kind][]string{
	verdict.OutOfMemory:  {"dmesg -T on the host says what the kernel killed; put fewer ranks on a host (mpirun --map-by ppr:N:node, mpiexec -ppn N)."},
	verdict.SharedMemory: {"df -h /dev/shm /tmp on the host shows whether there is room; remove what earlier jobs left there."},
	verdict.Slots:        {"Say how many ranks a host takes (slots=N in the host file), or allow more: mpirun --oversubscribe."},
	verdict.Killed:       {"dmesg -T on the host says whether the kernel did it; else look for who sends signals there."},
	verdict.LockedMemory: {"ulimit -l should say unlimited on each host (/etc/security/limits.conf)."},
	verdict.GPUFault:     {"Keep jobs off the host, and look at nvidia-smi -q and dmesg there."},
	verdict.AgentLost:    {"See whether the host is up, and whether its processes reach the one of mpirun."},
	verdict.Terminated:   {"See who ended the processes on that host."},
	verdict.HostsMissing: {"See whether all hosts are up."},
	verdict.DNS:          {"getent hosts NAME on the host that failed shows what it resolves."},
	verdict.GPUError:     {"nvidia-smi on the host shows its GPUs and the driver's version."},
}
