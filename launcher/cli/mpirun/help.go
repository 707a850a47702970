package mpirun

import (
	"fmt"
	"path"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// examples are command lines of each family.
var examples = map[line.Family]string{
	line.OpenMPI: `  mpirun -np 4 ./a.out
  mpirun -H w0:8,w1:8 -np 16 --bind-to core -x NCCL_DEBUG=INFO ./train
  mpirun --hostfile hosts -np 1 ./master : -np 15 ./worker
`,
	line.Hydra: `  mpiexec -n 4 ./a.out
  mpiexec -hosts w0,w1 -ppn 8 -n 16 -genv OMP_NUM_THREADS 2 ./train
  mpiexec -f hosts -n 1 ./master : -n 15 ./worker
`,
}

// HelpText is what --help prints: all options of the family, first those that are done, then those that have no
// effect, then those that are refused and what to use.
func HelpText(f line.Family, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s (mpiup), read as %s's (MPIUP_FAMILY=openmpi, openmpi5 or hydra chooses)

Usage:
  %[1]s [options] program [args] [: [options] program [args]] ...

Examples:
%[3]s`, path.Base(name), f, examples[f])
	rows, common := rowsOf(f), new(line.Parser).Common()
	rows = append(common, rows[:len(rows)-len(common)]...)
	b.WriteString(line.Options(rows))
	b.WriteString("\nmpiup help mpirun says more, mpiup help binding how ranks are mapped and bound.\n")
	return b.String()
}
