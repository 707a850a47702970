package torchrun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
)

// docs/data has every option.
func TestDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("option\tlevel\tmeaning here\n")
	for _, r := range rows() {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", strings.Join(strings.Fields(r.names), " "), r.level, r.means)
	}
	golden.Is(t, "../../../docs/data/torchrun.tsv", b.String())
}
