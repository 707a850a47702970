package horovodrun

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// HelpText is what --help prints.
func HelpText() string {
	var b strings.Builder
	b.WriteString("horovodrun (mpiup), as of Horovod 0.28\n\nUsage:\n  horovodrun -np N [options] program [args]\n\nExamples:\n" +
		"  horovodrun -np 4 python train.py\n  horovodrun -np 16 -H w0:8,w1:8 --gloo python train.py\n")
	line.Sections(&b, rows(), func(r row) line.Level { return r.level }, func(r row) {
		fmt.Fprintf(&b, "  %s\n        %s\n", strings.Join(strings.Fields(r.names), ", ")+strings.Repeat(" VALUE", r.args),
			strings.ReplaceAll(strings.ReplaceAll(r.means, "`", ""), "[mpirun.md](mpirun.md)", "mpiup help mpirun"))
	})
	return b.String()
}

// VersionText is what --version prints.
func VersionText(mpiup string) string { return "0.28.1 (mpiup " + mpiup + ")\n" }
