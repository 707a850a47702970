package torchrun

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// HelpText is what --help prints.
func HelpText() string {
	var b strings.Builder
	b.WriteString("torchrun (mpiup), as of torch 2.15\n\nUsage:\n  torchrun [options] program [args]\n\nExamples:\n" +
		"  torchrun --nproc-per-node 4 train.py               # 4 ranks here\n" +
		"  torchrun --nnodes 2 --nproc-per-node 4 train.py    # 8 ranks on two of the job's hosts\n" +
		"  torchrun --nnodes 2 --nproc-per-node 4 --node-rank 1 --master-addr w0 train.py\n")
	line.Sections(&b, rows(), func(r row) line.Level { return r.level }, func(r row) {
		value := " VALUE"
		if r.flag {
			value = ""
		}
		fmt.Fprintf(&b, "  %s\n        %s\n", strings.Join(strings.Fields(r.names), ", ")+value, strings.ReplaceAll(r.means, "`", ""))
	})
	return b.String()
}
