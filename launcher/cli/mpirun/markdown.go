package mpirun

import (
	"fmt"
	"strings"
)

// Markdown is docs/mpirun.md: every option of both families.
func Markdown() string {
	var b strings.Builder
	b.WriteString(head)
	for _, f := range []Family{OpenMPI, Hydra} {
		fmt.Fprintf(&b, "\n## %s\n\n| option | values | level | meaning here |\n|---|---|---|---|\n", f)
		for _, r := range tableOf(f) {
			where := ""
			if r.local {
				where = " (each program)"
			}
			fmt.Fprintf(&b, "| `%s` | %d | %s | %s%s |\n", strings.ReplaceAll(r.spelled(), ", ", "` `"), r.args, r.level,
				strings.ReplaceAll(r.means, "|", "\\|"), where)
		}
	}
	b.WriteString("\n## Parameters of Open MPI's launcher\n\nOthers of its frameworks (" +
		strings.Join(launcherFrameworks, " ") + ") have no effect; all that remain go to the ranks as `OMPI_MCA_NAME`.\n\n| parameter | as |\n|---|---|\n")
	for _, l := range launcherParams {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(l.names, " ", "` `"), l.means)
	}
	return b.String()
}

const head = `# mpiup as mpirun and mpiexec

<!-- Written from the tables in launcher/cli/mpirun by go test -update; change it there. -->

Called ` + "`mpirun`, `mpiexec`, `mpiexec.hydra`, `orterun` or `prterun`" + ` (a link or a copy), or as ` + "`mpiup mpirun ...`" + `, mpiup
reads the command line as that launcher would. Whose it is, Open MPI's or Hydra's, is decided by ` + "`MPIUP_FAMILY`" + `, the
name, an option that only one has, the operator's variables, the MPI library of the program, else it is Open MPI's;
` + "`-v`" + ` says which. Exit codes are mpiup's in both (docs/exit-codes.md), not Hydra's OR of all ranks' codes.

Levels: **done**, it means here what it means there; **no effect**, accepted, and said with ` + "`-v`" + `; **refused**, an error
that says what to use. What is not listed is an error.

Environment of ranks: the agent's own, that is the worker container's; then, for Open MPI, the launcher's ` + "`OMPI_*`, `PMIX_MCA_*` and `PRTE_*`" + `
without parameters of the launcher; for Hydra, the launcher's whole environment without what is its container's own
(` + "`HOME HOSTNAME PWD PATH LD_LIBRARY_PATH NVIDIA_* K_MPI_* KUBERNETES_* *_SERVICE_* *_PORT *_PORT_* MPIUP_* HYDRA_* I_MPI_HYDRA_*`" + `); then what the
command line says.
`
