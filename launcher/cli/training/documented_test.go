package training

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/test/golden"
)

// docs/data has every option.
func TestDocumented(t *testing.T) {
	for name, rows := range map[string][]line.Row{"horovodrun": new(Horovodrun).rows(), "torchrun": new(Torchrun).rows()} {
		var b strings.Builder
		b.WriteString("option\tvalues\tlevel\tmeaning here\n")
		for _, r := range rows {
			fmt.Fprintf(&b, "%s\t%d\t%s\t%s\n", strings.Join(r.Spelled(), " "), r.Args, r.Level, strings.ReplaceAll(r.Means, "[mpirun.md](mpirun.md)", "mpiup help mpirun"))
		}
		golden.Is(t, "../../../docs/data/"+name+".tsv", b.String())
	}
}
