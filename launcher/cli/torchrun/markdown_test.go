package torchrun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
)

const head = `# mpiup as torchrun

<!-- Written from the table in launcher/cli/torchrun by go test ./launcher/cli/torchrun -update; change it there. -->

Called ` + "`torchrun`" + ` (a link or a copy), or as ` + "`mpiup torchrun ...`" + `, mpiup reads the command line of PyTorch's launcher and starts
the ranks itself. A script needs none of it: ` + "`mpiup run -n N python3 train.py`" + ` gives ranks what they meet by ([frameworks.md](frameworks.md)).
The name is for images and manifests that say torchrun.

torchrun is typed on each node, and those find each other at a server of theirs. mpiup has no such server, and needs none: what this pod
starts is clear from what is said, in options or, as an operator does, in variables (` + "`PET_NNODES`" + ` for ` + "`--nnodes`" + `; the option counts).

| what is said | what is started |
|---|---|
| ` + "`--standalone`, or no `--nnodes` above 1" + ` | the ranks of one node, in this pod, without agents. Where the pod is told of hosts, a line says so |
| ` + "`--nnodes N --node-rank K`, with `--master-addr` or `--rdzv-endpoint`" + `: a pod of Kubeflow Trainer's or of PyTorchJob's, or what ` + "`mpiup run --ppn 1 torchrun`" + ` gives | node K's ranks, in this pod, without agents. Each pod runs its torchrun; rank 0 listens at the address given |
| the same without ` + "`--node-rank`, by `mpirun -npernode 1 torchrun` on N hosts" + ` | the same: the host's number is the node's |
| ` + "`--nnodes N`" + ` and no address, with ` + "`--nproc-per-node P`" + ` | N times P ranks on the first N of the pod's hosts ([hosts.md](hosts.md)), as ` + "`mpiup run -n N*P --ppn P`" + ` |
| ` + "`--nnodes 2:8`" + ` and no address | the ranks of all hosts that are there, at most 8, and again when hosts come or go ([restart.md](restart.md)) |
| ` + "`--nnodes N`, an address and no number: nodes that ask a server (`c10d`)" + ` | nothing: an error that says what to add |

Ranks get torch's variables and those by which torchrun's processes know it: ` + "`GROUP_RANK`, `ROLE_RANK`, `TORCHELASTIC_RUN_ID`" + ` and the like, and
` + "`OMP_NUM_THREADS=1`" + ` where several are on a node and it is not set. Of a launcher's environment as much goes to other hosts as with ` + "`mpirun --fwd-environment`" + `
([mpirun.md](mpirun.md)). The image needs torch and ` + "`python3`" + `; whether its own torchrun is there does not matter.

What is other than with PyTorch's own: the exit code is that of the first rank that failed, not 1; output has no prefix unless ` + "`--tee 3`" + ` asks for it; the last lines
say which rank failed and why; there is no file of ` + "`@record`" + `'s. Where the ranks of a pod's part lose those of other pods, they end as torch has it, and each pod says only what it saw.

Levels: **done**, **no effect** (accepted) and **refused**, an error that says what to use. What is not listed is an error. ` + "`_` may stand for `-`" + ` in
names, and a value after ` + "`=`" + `.

| option | level | meaning here |
|---|---|---|
`

// docs/torchrun.md has every option.
func TestDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString(head)
	for _, r := range rows() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.Join(strings.Fields(r.names), "` `"), r.level, strings.ReplaceAll(r.means, "|", "\\|"))
	}
	golden.Is(t, "../../../docs/torchrun.md", b.String())
}
