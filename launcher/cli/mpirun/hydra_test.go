package mpirun

import (
	"slices"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

func TestHydra(t *testing.T) {
	ranks := func(n int) func(*line.Line) { return one(func(c *line.Context) { c.N = n }) }
	files := map[string]string{"f": "a:2\nb # c\n", "again": "a:2\nb\na\n"}
	has := world{env: "HOME=/root A=1 B=2", files: files}
	read(t, line.Hydra, []reading{
		{line: "a"},
		{line: "-n 4 a", is: ranks(4)},
		{line: "-n=4 a", is: ranks(4)},
		{line: "-n 0 a"},
		{line: "--NP 4 a", is: ranks(4)},
		{line: "-ppn 2 a", is: func(l *line.Line) { l.PerHost = 2 }},
		{line: "-perhost 2 a", is: func(l *line.Line) { l.PerHost = 2 }},
		{line: "-rr a", is: func(l *line.Line) { l.PerHost = 1 }},
		{line: "-hosts a,b:2 a", is: hosts(t, "a b:2")},
		{line: "-host a a", is: hosts(t, "a")},
		{line: "-host a a : -host b:2 b", is: func(l *line.Line) {
			l.Entries = entries(t, "a b:2")
			l.Contexts = []line.Context{{Argv: []string{"a"}, On: entries(t, "a")}, {Argv: []string{"b"}, On: entries(t, "b:2")}}
		}},
		{line: "-hosts a,a:2,b a", is: hosts(t, "a:3 b")},
		{line: "-f f a", world: has, is: hosts(t, "a:2 b")},
		{line: "-machinefile f a", world: has, is: hosts(t, "a:2 b")},
		{line: "-hosts pi-worker-1 a", world: world{operators: workers}, is: hosts(t, "pi-worker-1.pi.ns.svc")},
		{line: "-genv K V -genv L=W=X a", is: env("K=V", "L=W=X")},
		{line: "-genv K a=b a", is: env("K=a=b")},
		{line: "-genv=K=V a", is: env("K=V")},
		{line: "-genv=K V a", is: env("K=V")},
		{line: `-env K="V" a`, is: env(`K="V"`)},
		{line: "-genv K 1 -env K 2 a", is: env("K=2")},
		{line: "-n 1 -env A 1 a : -n 2 -genv B 2 b", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, N: 1, Env: []string{"B=2", "A=1"}}, {Argv: []string{"b"}, N: 2, Env: []string{"B=2"}}}
		}},
		{line: "-genvnone a", is: func(l *line.Line) { l.Inherit.None = true }},
		{line: "-genvlist A,B a", is: func(l *line.Line) { l.Inherit.Only = []string{"A", "B"} }},
		{line: "-genvexcl A a", is: func(l *line.Line) { l.Inherit.Except = []string{"A"} }},
		{line: "-genvnone -envall a", is: func(l *line.Line) { l.Inherit.None, l.Contexts[0].Inherit = true, &line.Inherit{} }},
		{line: "-envlist A a", is: one(func(c *line.Context) { c.Inherit = &line.Inherit{Only: []string{"A"}} })},
		{line: "a", world: world{env: "HYDRA_ENV=none"}, is: func(l *line.Line) { l.Inherit.None = true }},
		{line: "a", world: world{env: "HYDRA_ENV=all"}},
		{line: "-genvall a", world: world{env: "HYDRA_ENV=none"}},
		{line: "-iface eth1 a", is: env("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE=eth1")},
		{line: "a", world: world{env: "HYDRA_IFACE=eth2"}, is: env("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE=eth2")},
		{line: "-iface eth1 a", world: world{env: "HYDRA_IFACE=eth2"}, is: env("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE=eth1")},
		{line: "a", world: world{env: "I_MPI_HYDRA_HOST_FILE=/etc/mpi/hostfile I_MPI_PERHOST=2"}, is: func(l *line.Line) { l.PerHost = 2 }},
		{line: "-ppn 4 a", world: world{env: "I_MPI_PERHOST=2"}, is: func(l *line.Line) { l.PerHost = 4 }},
		{line: "-rr a", world: world{env: "I_MPI_PERHOST=2"}, is: func(l *line.Line) { l.PerHost = 1 }},
		{line: "a", world: world{env: "I_MPI_PERHOST=all"}},
		{line: "a", world: world{env: "I_MPI_HYDRA_IFACE=eth3 HYDRA_IFACE=eth2"}, is: env("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE=eth2")},
		{line: "a : b", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}}, {Argv: []string{"b"}}}
		}},
		{line: "-gpus-per-proc 2 a", is: func(l *line.Line) { l.GPUsPerRank = 2 }},
		{line: "-l a", is: func(l *line.Line) { l.TagOutput = true }},
		{line: "-prepend-rank -s all -pmi-port -skip-launch-node a", is: func(l *line.Line) { l.TagOutput, l.Stdin, l.PMIPort, l.NoLocal = true, "all", true, true }},
		{line: "a", world: world{env: "MPIEXEC_TIMEOUT=5"}, is: func(l *line.Line) { l.Timeout = 5 * time.Second }},
		{line: "-prepend-pattern '%r/%h: ' -outfile-pattern d/o.%r -errfile /e.%%.%g.%p a", is: func(l *line.Line) {
			l.Prepend, l.OutFile, l.ErrFile = "%r/%h: ", "/here/d/o.%r", "/e.%%.%g.%p"
		}},
		{line: "-wdir d a : b", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, Wdir: "/here/d"}, {Argv: []string{"b"}}}
		}},
		{line: "-bind-to none -map-by slot a"},
		{line: "-map-by socket a"},
		{line: "-bind-to socket:2 -map-by l3cache a", is: func(l *line.Line) {
			l.Binding.Hydra = &layout.Hydra{To: layout.Step{Kind: layout.Package, N: 2}, By: layout.Step{Kind: layout.L3, N: 1}}
		}},
		{line: "-binding rr a", is: func(l *line.Line) { l.Binding.Hydra = &layout.Hydra{RoundRobin: true} }},
		{line: "-bind-to user:0+2,1 a", is: func(l *line.Line) { l.Binding.Hydra = &layout.Hydra{User: []idset.Set{idset.Of(0, 2), idset.Of(1)}} }},
		{line: "-bind-to core -report-bindings a", is: func(l *line.Line) {
			one := layout.Step{Kind: layout.Core, N: 1}
			l.Binding.Hydra, l.Bindings = &layout.Hydra{To: one, By: one}, true
		}},
		{line: "-bootstrap=ssh -print-all-exitcodes a", is: without("-bootstrap=ssh", "-print-all-exitcodes")},
		{line: "-ppn 1 -H b a", is: func(l *line.Line) {
			*l = line.Line{Family: line.Hydra, Contexts: []line.Context{{Argv: []string{"b", "a"}}}, PerHost: 1, Help: true, Warnings: []string{"-H is -help to Hydra; write the hosts as -hosts a,b:2, or in a file, -f FILE"}}
		}},
		{line: "-s 0,2-3 a", is: func(l *line.Line) { l.Stdin = "0,2-3" }},
		{line: "-ilp64 a", is: env("LD_PRELOAD=libmpi_ilp64.so")},
		{line: "-v6 a", is: without("-v6")},
		{line: "-usize 5 a", is: func(l *line.Line) { l.Universe = "5" }},
		{line: "-usize SYSTEM a", is: func(l *line.Line) { l.Universe = "SYSTEM" }},
	})
	refuse(t, line.Hydra, []refusal{
		{line: "-n", says: "-n needs a value"},
		{line: "-n x a", says: `-n x: "x" is no number`},
		{line: "-usize system a", says: `"system" is no number from 1 to 1048576; SYSTEM and INFINITE are the words`},
		{line: "-genv K", says: "-genv needs 2 values"},
		{line: "-genv '' V a", says: "is no variable's name"},
		{line: "-bogus a", says: "unknown option -bogus"},
		{line: "-x A a", says: "unknown option -x: it is Open MPI's"},
		{line: "-hosts a -hosts b a", says: "the hosts are named already"},
		{line: "-host a -host b a", says: "the hosts are named already"},
		{line: "-f f -hosts a a", world: has, says: "the hosts are named already"},
		{line: "-hosts a -f f a", world: has, says: "the hosts are listed already"},
		{line: "-hosts a,b,a a", says: "host a is named again after another host"},
		{line: "-f again a", world: has, says: "hostfile again line 3: host a is named again"},
		{line: "-genvnone -genvall a", says: "is said already; say it once"},
		{line: "-envnone -envlist A a", says: "is said already"},
		{line: "-genvlist , a", says: "the list is empty"},
		{line: "-map-by bogus a", says: `"bogus" is not known`},
		{line: "-bind-to user:0,x a", says: "no CPU's number; write user:0+1,2+3"},
		{line: "-bind-to ib0 a", says: "not bound near devices"},
		{line: "-bind-to core:0 a", says: `"0" is no number from 1`},
		{line: "-bind-to core -map-by slot a", says: `"slot" is not known`},
		{line: "-outfile-pattern o.%x a", says: "%x stands for nothing here"},
		{line: "-errfile-pattern o% a", says: "% stands for nothing here"},
		{line: "-prepend-pattern '' a", says: "the pattern is empty"},
		{line: "-l -prepend-pattern x a", says: "is said already"},
		{line: "-s 0,x a", says: `"0,x" names no ranks: write 0,2-3, all or none`},
		{line: "-s '' a", says: `"" names no ranks`},
		{line: "-rankmap 0,1 a", says: "name the hosts in their order"},
		{line: "a", world: world{env: "I_MPI_PERHOST=x"}, says: `I_MPI_PERHOST: "x" is no number`},
	})
}

// Shells leave a blank where a variable of theirs is empty.
func TestVariablesOfBlanks(t *testing.T) {
	o := world{}.outside()
	o.Lookup = func(name string) (string, bool) {
		return "  ", slices.Contains([]string{"MPIEXEC_TIMEOUT", "HYDRA_IFACE", "I_MPI_HYDRA_IFACE", "I_MPI_PERHOST", "I_MPI_GTOOL"}, name)
	}
	for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
		l, err := Parse(f, []string{"a"}, o)
		if err != nil || l.Timeout != 0 || l.PerHost != 0 || l.Tools != nil || len(l.Contexts) != 1 || len(l.Contexts[0].Env) != 0 {
			t.Errorf("%s: %+v, %v", f, l, err)
		}
	}
}
