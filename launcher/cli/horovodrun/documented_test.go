package horovodrun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
)

// docs/data has every option.
func TestDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("option\tvalues\tlevel\tmeaning here\n")
	for _, r := range rows() {
		fmt.Fprintf(&b, "%s\t%d\t%s\t%s\n", strings.Join(strings.Fields(r.names), " "), r.args, r.level, strings.ReplaceAll(r.means, "[mpirun.md](mpirun.md)", "mpiup help mpirun"))
	}
	golden.Is(t, "../../../docs/data/horovodrun.tsv", b.String())
}
