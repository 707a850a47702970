package mpirun

import (
	"fmt"
	"path"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// helpWidth is how wide the lines of help are.
const helpWidth = 100

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
	rows, common := rowsOf[f](), new(line.Parser).Common()
	rows = append(common, rows[:len(rows)-len(common)]...)
	line.Sections(&b, rows, func(r line.Row) line.Level { return r.Level }, func(r line.Row) { describe(&b, r) })
	b.WriteString("\nmpiup help mpirun says more, mpiup help binding how ranks are mapped and bound.\n")
	return b.String()
}

// describe writes an option's names and what it means, beside them where they are short.
func describe(b *strings.Builder, r line.Row) {
	const column = 28
	indent := strings.Repeat(" ", column)
	names := strings.Join(r.Spelled(), ", ") + strings.Repeat(" VALUE", r.Args)
	if len(names) > column-4 {
		wrap(b, names, "  ", "    ")
		names = ""
	}
	wrap(b, plain(r.Means), fmt.Sprintf("  %-*s", column-2, names), indent)
}

var link = pattern.Of(`\[([a-z-]+)\.md\]\([a-z-]+\.md\)`)

// plain is Markdown of the tables as text.
func plain(means string) string {
	return strings.ReplaceAll(link().ReplaceAllString(means, "mpiup help $1"), "`", "")
}

// wrap writes text in lines of at most helpWidth characters.
func wrap(b *strings.Builder, text, first, next string) {
	line, words := first, 0
	for word := range strings.FieldsSeq(text) {
		if words > 0 && len(line)+1+len(word) > helpWidth {
			b.WriteString(line + "\n")
			line, words = next, 0
		}
		if words > 0 {
			line += " "
		}
		line += word
		words++
	}
	b.WriteString(line + "\n")
}
