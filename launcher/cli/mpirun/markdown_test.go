package mpirun

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/openmpi"
)

// markdown is docs/mpirun.md: every option of both families.
func markdown() string {
	var b strings.Builder
	b.WriteString(head)
	for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
		fmt.Fprintf(&b, "\n## Options of %s\n\n| option | values | level | meaning here |\n|---|---|---|---|\n", f)
		for _, r := range rowsOf[f]() {
			where := ""
			if r.Local && f == line.OpenMPI {
				where = " (each program)"
			}
			fmt.Fprintf(&b, "| `%s` | %d | %s | %s%s |\n", strings.Join(r.Spelled(), "` `"), r.Args, r.Level,
				strings.ReplaceAll(r.Means, "|", "\\|"), where)
		}
	}
	fmt.Fprintf(&b, "\n## Parameters of Open MPI's launcher\n\nAs `--mca NAME VALUE`, `OMPI_MCA_NAME` or `PRTE_MCA_NAME`. Others of its frameworks\n(`%s`)\nhave no effect; all that remain go to the ranks as `OMPI_MCA_NAME`.\n\n| parameter | as |\n|---|---|\n",
		strings.Join(openmpi.LauncherFrameworks, " "))
	for _, l := range openmpi.LauncherParams() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(l.Names, " ", "` `"), l.Means)
	}
	return b.String()
}

const head = `# mpiup as mpirun and mpiexec

<!-- Written from the tables in launcher/cli/mpirun by go test ./launcher/cli/mpirun -update; change it there. -->

Called ` + "`mpirun`, `mpiexec`, `mpiexec.hydra`, `orterun` or `prterun`" + ` (a link or a copy), or as ` + "`mpiup mpirun ...`" + `, mpiup
reads the command line as that launcher would. The first of these that speaks decides whether it is Open MPI's or Hydra's: ` + "`MPIUP_FAMILY`" + `
(openmpi, openmpi4, openmpi5 or hydra), the name, an option that only one has, the operator's variables, the MPI library of the program.
Else it is Open MPI's; ` + "`-v`" + ` says which, and why. Exit codes are mpiup's in both ([exit-codes.md](exit-codes.md)), not Hydra's OR of
all ranks' codes.

Open MPI 4.1 and 5 differ in how they map, number and bind ranks ([binding.md](binding.md)). mpiup does it as 5 with ` + "`MPIUP_FAMILY=openmpi5`" + `,
under the name ` + "`prterun`" + `, and with options and words that 4.1 does not have (` + "`--display`, `--output`, `--prtemca`, `--runtime-options`, `package`, `HWTCPUS`" + `).
It also does so for a program whose library is Open MPI 5, as far as the launcher's files show. Else it does it as 4.1.

What ` + "`mpiup run`" + ` has flags for and these launchers have no options for is in variables: ` + "`MPIUP_WAIT`" + ` (how long to wait for all hosts,
5m), ` + "`MPIUP_MPI`" + ` (the protocol, instead of what each host finds the program to need), ` + "`MPIUP_ENV`" + ` (whose variables ranks get, torch, jax, tf, horovod
or auto, as with ` + "`mpiup run --env`" + `; none without it, [frameworks.md](frameworks.md)), ` + "`MPIUP_NET`, `MPIUP_MPI_PORTS`" + `,
` + "`MPIUP_PREEMPT_SIGNAL` and `MPIUP_CHECKPOINT_DIR`" + ` ([preemption.md](preemption.md)), and
` + "`MPIUP_PTY`" + ` (1: each rank's standard output is a terminal, as under Open MPI's launchers; 0: a pipe, as under Hydra).
` + "`mpiup run`, `up` and `env`" + ` read these variables too, where the flag is not given. A value that cannot be is refused with the variable's name.
Hostfiles that ranks name when they spawn (info keys ` + "`hostfile`, `add-hostfile`" + `) are read below the directory that ` + "`MPIUP_SPAWN_HOSTFILES`" + ` names, and no others.

` + "`MPIUP_MPI=native`" + `, or ` + "`mpiup run --mpi native`" + `, executes the image's own launcher instead: the first of that name on PATH
that is not mpiup. It gets our words (of ` + "`mpiup run`" + ` those that it has too; others are an error), the operator's hostfile, and mpiup
as the first ` + "`ssh`" + ` on PATH. So its daemons come to the hosts through the agents, whose policy must allow ` + "`shell`" + ` (docs/security.md).
Exit codes and everything else are that launcher's; code 246 says that there is none. Open MPI 4.1 and 5.0 and Hydra 4.0 were run so.

Levels: **done**, it means here what it means there; **no effect**, accepted, and said with ` + "`-v`" + `; **refused**, an error
that says what to use. What is not listed is an error. Long options may have one hyphen or two, and a value after ` + "`=`" + `.

## Hosts

Those of ` + "`-H`, `-hosts`" + ` or a file, else what the operator says: ` + "`/etc/mpi/hostfile`, `OMPI_MCA_orte_default_hostfile`, `HYDRA_HOST_FILE`, `I_MPI_HYDRA_HOST_FILE`" + `,
LeaderWorkerSet's and Volcano's variables, the pod's service, which is waited for ([hosts.md](hosts.md)); else, without a job's secret, this machine. So an Open MPI 5 program runs on the MPI
Operator's workers too. The operator's hostfile gives a listed host its full name: ` + "`-H worker-0:8`" + ` is enough.

- ` + "`w[0-3,07-09].rack:8`" + ` is several hosts, in lists and files, as Slurm writes them.
- Open MPI: slots are a limit, also where nobody gave them. A host without a number takes as many ranks as it has usable CPUs (hardware
  threads), or GPUs if those are more, unless ` + "`--oversubscribe`" + ` is given. In a list a bare mention is one slot, a repeated one
  another, and ` + "`:N`" + ` is N. A user before the name is left out. What ranks spawn may go beyond slots that nobody gave, which Open MPI refuses.
- Hydra: ` + "`-H` is `-help`" + `, as there. A host's number is how many ranks go to it at a time, and then round again; nothing is a limit. A host that is
  named again after another one is an error: write it once.

A program's name without a slash is looked for on the ` + "`PATH`" + ` of its host, and then, for Open MPI and whatever its ranks spawn,
in the working directory. Hydra looks on ` + "`PATH`" + ` alone.

## Environment of ranks

The agent's own, that is the worker container's; then, for Open MPI, the launcher's ` + "`OMPI_*`, `PMIX_MCA_*` and `PRTE_*`" + `
without parameters of the launcher and addresses of servers; for Hydra, the launcher's whole environment without what is its
container's own (` + "`HOME HOSTNAME PWD PATH LD_LIBRARY_PATH NVIDIA_* K_MPI_* KUBERNETES_* *_SERVICE_* *_PORT *_PORT_* MPIUP_* HYDRA_* I_MPI_HYDRA_*`" + `);
then what the command line says.
`
