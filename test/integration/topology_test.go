package integration

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// TestRanksSeeTheirHost: hwloc in a rank is given its host's topology, which is the one it finds
// by itself, and binding goes as without.
func TestRanksSeeTheirHost(t *testing.T) {
	t.Parallel()
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	l := hosted(t)
	const ask = `xml=$(lstopo-no-graphics --of xml - 2>&1)
		echo "given $(echo "$xml" | grep -c '"Creator" value="mpiup"')" "threads $(echo "$xml" | grep -c 'type="PU"')" \
			"bound $(taskset -c 0 hwloc-bind --get) $(hwloc-bind pu:0 -- hwloc-bind --get)"`
	ranks := func(args ...string) []string {
		r := l.run(t, job{hosts: "w0:1,w1:1", args: append(append([]string{"-n", "2"}, args...), "sh", "-c", ask)}).ok(t)
		return strings.Split(strings.TrimSpace(r.stdout), "\n")
	}
	plain, hinted, own := ranks("--no-topology-hint"), ranks(), ranks("-x", "HWLOC_THISSYSTEM=1")
	if len(plain) != 2 || plain[0] != plain[1] || !strings.HasPrefix(plain[0], "given 0 threads ") {
		t.Fatalf("without: %q", plain)
	}
	for _, line := range hinted {
		if line != "given 1"+strings.TrimPrefix(plain[0], "given 0") {
			t.Errorf("a rank sees %q, without the hint %q", line, plain[0])
		}
	}
	if own[0] != plain[0] {
		t.Errorf("beside the user's own variable: %q", own)
	}
}
