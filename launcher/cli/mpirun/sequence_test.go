package mpirun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// seated is where a line's ranks go: "a*2: n0 n1[1,3]" for each program, and hosts for where nothing else
// names any.
func seated(l line.Line) string {
	var words []string
	for _, line := range l.Binding.Lines {
		w := line.Host
		if line.Host == "" {
			w = fmt.Sprintf("+n%d", line.Relative)
		}
		if line.CPUs != nil {
			w += "!"
		}
		words = append(words, w)
	}
	for _, c := range l.Contexts {
		words = append(words, fmt.Sprintf("%s*%d", c.Argv[0], c.N))
	}
	short := func(mark string, entries []hostlist.Entry) {
		for _, e := range entries {
			words = append(words, fmt.Sprintf("%s%s:%d", mark, e.Name, e.Slots))
		}
	}
	short("on ", l.Entries)
	short("else ", l.Otherwise)
	return strings.Join(words, " ")
}

var filesOfRanks = world{files: map[string]string{
	"f": "n0\nn1 # the second\n\nn0\nn2 slots=4\n", "/here/s": "n1\nn0 1,3\nn1 0-1\n", "bad": "n0 x=1\n", "cpus": "n0\nn1 one\n",
	"empty": "# none\n", "rf": "rank 1=n1 slot=0\nrank 0=me@n0 slot=1:0\nrank 2=n1 slot=3\n", "relative": "rank 0=+n1 slot=0\n",
	"typo": "rank 0=n0 slot=0\nrnk 1=n1 slot=0\n", "six": "rank 0=[fd00::7] slot=0\n", "odd": "rank 0=n0;n1 slot=0\n",
}}

// TestSequence has what Open MPI 4.1.4 and 5.0.7 do with --map-by seq, but that without -np all lines have
// a rank: 4.1.4 and 5.0.7 ask for as many as the hosts have slots.
func TestSequence(t *testing.T) {
	operators := filesOfRanks
	operators.operators = workers
	for _, tt := range []struct {
		line, want string
		world
	}{
		{"--map-by seq --hostfile f a", "n0 n1 n0 n2 a*4 on n0:2 on n1:0 on n2:4", filesOfRanks},
		{"--map-by seq --hostfile f -np 2 a", "n0 n1 a*2 on n0:2 on n1:0 on n2:4", filesOfRanks},
		{"--map-by seq --hostfile f -np 2 a : -np 1 b", "n0 n1 n0 a*2 b*1 on n0:2 on n1:0 on n2:4", filesOfRanks},
		{"--map-by seq -H n0,n1,n0 a", "n0 n1 n0 a*3 on n0:2 on n1:1", world{}},
		{"--map-by seq -H n0:2,n1:2 a", "n0 n1 a*2 on n0:2 on n1:2", world{}},
		{"--map-by seq --hostfile f -H n1,n0 a", "n1 n0 a*2 on n1:1 on n0:1", filesOfRanks},
		{"--map-by seq -H n1 -np 1 a : -H n0,n1 b", "n1 n0 n1 a*1 b*2 on n1:1 on n0:1", world{}},
		{"--map-by seq:FILE=s a", "n1 n0! n1! a*3 else n1:2 else n0:0", filesOfRanks},
		{"--map-by seq:FILE=s -H n0:2,n1:2 -np 2 a", "n1 n0! a*2 on n0:2 on n1:2", filesOfRanks},
		{"--mca rmaps seq --map-by node --hostfile f a", "n0 n1 n0 n2 a*4 on n0:2 on n1:0 on n2:4", filesOfRanks},
		{"--map-by seq a", "pi-worker-0.pi.ns.svc pi-worker-1.pi.ns.svc a*2", operators},
		{"--map-by seq -H pi-worker-1,pi-worker-0,pi-worker-1 a", "pi-worker-1.pi.ns.svc pi-worker-0.pi.ns.svc pi-worker-1.pi.ns.svc a*3 on pi-worker-1.pi.ns.svc:2 on pi-worker-0.pi.ns.svc:1", operators},
		{"--map-by seq --nolocal -H me,n1,me,n1 a", "n1 n1 a*2 on me:2 on n1:2", world{}},

		{"--rankfile rf a", "n1! n0! n1! a*0 else n1:2 else n0:1", filesOfRanks},
		{"--rankfile rf -H n0:2,n1:2 a", "n1! n0! n1! a*0 on n0:2 on n1:2", filesOfRanks},
		{"--map-by rankfile:file=rf a", "n1! n0! n1! a*0 else n1:2 else n0:1", filesOfRanks},
		{"--rankfile relative a", "+n1! a*0", filesOfRanks},
		{"--rankfile six a", "fd00::7! a*0 else fd00::7:1", filesOfRanks},
	} {
		l, err := Parse(line.OpenMPI, strings.Fields(tt.line), tt.outside())
		if got := seated(l); err != nil || got != tt.want {
			t.Errorf("%s:\n%s, %v, not\n%s", tt.line, got, err, tt.want)
		}
	}
	refuse(t, line.OpenMPI, []refusal{
		{line: "--map-by seq a", says: "0 hosts for them, one for each, in the operator's hostfile"},
		{line: "--map-by seq --hostfile f -np 5 a", world: filesOfRanks, says: "5 ranks of a and 4 hosts for them, one for each, in hostfile f; name more"},
		{line: "--map-by seq --hostfile f -np 3 a : -np 2 b", world: filesOfRanks, says: "2 ranks of b and 1 hosts"},
		{line: "--map-by seq -H n0:2 -np 2 a", says: "2 ranks of a and 1 hosts for them, one for each, in its list of hosts"},
		{line: "--map-by seq --hostfile bad a", world: filesOfRanks, says: `hostfile bad line 1: host n0: "x=" is not known`},
		{line: "--map-by seq --hostfile cpus a", world: filesOfRanks, says: "hostfile cpus line 2: CPUs"},
		{line: "--map-by seq --hostfile empty a", world: filesOfRanks, says: "hostfile empty names no host"},
		{line: "--map-by seq:FILE=none a", world: filesOfRanks, says: "hostfile /here/none: file does not exist"},
		{line: "--map-by seq --rankfile rf a", world: filesOfRanks, says: "both say where each rank goes"},
		{line: "--map-by seq --hostfile f -H n0,n9 a", world: filesOfRanks, says: "host n9 is not in hostfile f"},
		{line: "--rankfile typo a", world: filesOfRanks, says: `--rankfile typo: line 2: "rnk 1=n1 slot=0" does not begin with rank`},
		{line: "--rankfile odd a", world: filesOfRanks, says: `the rankfile: "n0;n1" is not a host name`},
	})
}
