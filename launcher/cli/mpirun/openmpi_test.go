package mpirun

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

func mapped(policy string, more func(*layout.Mapping)) func(*line.Line) {
	return func(l *line.Line) {
		if l.Binding.Map.Policy = policy; more != nil {
			more(&l.Binding.Map)
		}
	}
}

func perNode(n int) func(*line.Line) {
	return func(l *line.Line) { l.PerHost, l.Binding.Map = n, layout.Mapping{Policy: "ppr", N: n} }
}

func bound(t layout.Target) func(*line.Line) {
	t.Said = true
	return func(l *line.Line) { l.Binding.Bind = t }
}

func TestOpenMPI(t *testing.T) {
	ranks := func(n int) func(*line.Line) { return one(func(c *line.Context) { c.N = n }) }
	read(t, line.OpenMPI, []reading{
		{line: "a"},
		{line: "-- a"},
		{line: "-np 4 a", is: ranks(4)},
		{line: "--np 4 a", is: ranks(4)},
		{line: "-np=4 a", is: ranks(4)},
		{line: "-n 4 a", is: ranks(4)},
		{line: "-c 4 a", is: ranks(4)},
		{line: "-np 1 -np 2 a", is: ranks(2)},
		{line: "-np 2 a -np 3 --bogus", is: one(func(c *line.Context) { c.N, c.Argv = 2, []string{"a", "-np", "3", "--bogus"} })},
		{line: "a :"},
		{line: "-np 1 a : -np 2 b x", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, N: 1}, {Argv: []string{"b", "x"}, N: 2}}
		}},
		{line: "--allow-run-as-root a", is: without("--allow-run-as-root")},
		{line: "-np 1 a : --allow-run-as-root b", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, N: 1}, {Argv: []string{"b"}}}
			l.Without = []string{"--allow-run-as-root"}
		}},

		{line: "-wdir /d a", is: one(func(c *line.Context) { c.Wdir = "/d" })},
		{line: "--wd d a", is: one(func(c *line.Context) { c.Wdir = "/here/d" })},

		{line: "--map-by node a", is: mapped("node", nil)},
		{line: "--map-by SLOT a", is: mapped("slot", nil)},
		{line: "--map-by ppr:8:node a", is: perNode(8)},
		{line: "--map-by PPR:2:Node:oversubscribe a", is: all(perNode(2), func(l *line.Line) { l.Oversubscribe = true })},
		{line: "--map-by :OVERSUBSCRIBE,NOLOCAL a", is: func(l *line.Line) {
			l.Oversubscribe, l.NoLocal = true, true
		}},
		{line: "-map-by node:PE=4 a", is: mapped("node", func(m *layout.Mapping) { m.PE = 4 })},
		{line: "-map-by node -cpus-per-proc 4 a", is: mapped("node", func(m *layout.Mapping) { m.PE = 4 })},
		{line: "-map-by socket a", is: mapped("object", func(m *layout.Mapping) { m.Object = layout.Package })},
		{line: "-bysocket a", is: mapped("object", func(m *layout.Mapping) { m.Object = layout.Package })},
		{line: "--map-by package --map-by :PE=2 a", is: mapped("object", func(m *layout.Mapping) { m.Object, m.PE = layout.Package, 2 })},
		{line: "-map-by numa:SPAN a", is: mapped("object", func(m *layout.Mapping) { m.Object, m.Span = layout.NUMA, true })},
		{line: "--map-by ppr:2:numa:PE=3 a", is: mapped("ppr", func(m *layout.Mapping) { m.Object, m.N, m.PE = layout.NUMA, 2, 3 })},
		{line: "--npersocket 2 a", is: mapped("ppr", func(m *layout.Mapping) { m.Object, m.N = layout.Package, 2 })},
		{line: "--map-by ppr:2:node --map-by slot a", is: mapped("slot", nil)},
		{line: "--map-by hwthread:hwtcpus a", is: all(mapped("object", func(m *layout.Mapping) { m.Object, m.HWThreads = layout.HWThread, true }),
			func(l *line.Line) { l.Binding.HWThreads = true })},
		{line: "--rank-by core:span --map-by core a", is: all(mapped("object", func(m *layout.Mapping) { m.Object = layout.Core }),
			func(l *line.Line) {
				l.Binding.Rank = layout.Ranking{By: "object", Object: layout.Core, Span: true}
			})},
		{line: "--bind-to core:overload-allowed a", is: bound(layout.Target{To: layout.Core, Overload: true})},
		{line: "--bind-to-socket a", is: bound(layout.Target{To: layout.Package})},
		{line: "--bind-to L3cache:if-supported a", is: bound(layout.Target{To: layout.L3})},
		{line: "--bind-to core --bind-to :overload-allowed a", is: bound(layout.Target{To: layout.Core, Overload: true})},
		{line: "--mca hwloc_base_binding_policy numa a", is: bound(layout.Target{To: layout.NUMA})},
		{line: "--mca hwloc_base_binding_policy numa --bind-to none a", is: bound(layout.Target{})},
		{line: "--use-hwthread-cpus a", is: func(l *line.Line) { l.Binding.HWThreads = true }},
		{line: "-N 2 a", is: perNode(2)},
		{line: "-npernode 2 a", is: perNode(2)},
		{line: "--pernode a", is: perNode(1)},
		{line: "--ppr 2:node a", is: perNode(2)},
		{line: "--rank-by node a", is: func(l *line.Line) { l.Binding.Rank.By = "node" }},
		{line: "--rank-by core a", is: func(l *line.Line) {
			l.Binding.Rank = layout.Ranking{By: "object", Object: layout.Core}
		}},
		{line: "--bynode a", is: mapped("node", nil)},
		{line: "--oversubscribe --nolocal a", is: func(l *line.Line) { l.Oversubscribe, l.NoLocal = true, true }},
		{line: "--bind-to none a", is: bound(layout.Target{})},
		{line: "--report-bindings a", is: func(l *line.Line) { l.Bindings = true }},

		{line: "--tag-output --timestamp-output --merge-stderr-to-stdout a", is: func(l *line.Line) { l.TagOutput, l.Timestamps, l.Merge = true, true, true }},
		{line: "--output-filename d a", is: func(l *line.Line) { l.OutputDir, l.OutputName = "/here/d", true }},
		{line: "--output-filename /d:nojobid,nocopy a", is: func(l *line.Line) { l.OutputDir, l.OutputName, l.NoJobID, l.NoCopy = "/d", true, true, true }},
		{line: "--output-directory d a", is: func(l *line.Line) { l.OutputDir = "/here/d" }},
		{line: "--output file=d/f a", is: func(l *line.Line) { l.OutputDir, l.OutputName = "/here/d/f", true }},
		{line: "--xml a", is: func(l *line.Line) {
			l.Without = []string{"--xml"}
			l.Warnings = []string{"--xml has no effect: output stays as ranks write it (mpiup run --output json has an object a line)"}
		}},
		{line: "--output TAG,timestamp,dir=/d:nocopy a", is: func(l *line.Line) { l.TagOutput, l.Timestamps, l.OutputDir, l.NoCopy = true, true, "/d", true }},
		{line: "--output tag-detailed a", is: func(l *line.Line) { l.TagOutput, l.TagBy = true, "detailed" }},
		{line: "--output tag-f,timestamp a", is: func(l *line.Line) { l.TagOutput, l.TagBy, l.Timestamps = true, "fullname", true }},
		{line: "--output rank a", is: func(l *line.Line) { l.TagOutput, l.TagBy = true, "rank" }},
		{line: "--output rank,tag a", is: func(l *line.Line) { l.TagOutput = true }},
		{line: "--output tag,rank a", is: func(l *line.Line) { l.TagOutput = true }},
		{line: "-np 0 a"},
		{line: "--mca btl tcp --mca btl self a", is: all(env("OMPI_MCA_btl=self"), repeats("btl", "tcp"))},
		{line: "--gmca btl tcp --mca btl self a", is: all(env("OMPI_MCA_btl=self"), repeats("btl", "tcp"))},
		{line: "--mca btl tcp --gmca btl self a", is: all(env("OMPI_MCA_btl=tcp"), repeats("btl", "tcp"))},
		{line: "--mca btl tcp --gmca btl tcp a", is: env("OMPI_MCA_btl=tcp")},
		{line: "a : --gmca btl tcp b", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}}, {Argv: []string{"b"}}}
			l.Warnings = []string{`--gmca btl tcp has no effect behind a ":", as in Open MPI; write it before the first program`}
		}},
		{line: "--output merge-stderr-to-stdout a", is: func(l *line.Line) { l.Merge = true }},
		{line: "--stdin all a", is: func(l *line.Line) { l.Stdin = "all" }},
		{line: "--timeout 2592000 a", is: func(l *line.Line) { l.Timeout = 720 * time.Hour }},
		{line: "--display-map a", is: func(l *line.Line) { l.DisplayMap = true }},
		{line: "--display map,bind,topo a", is: func(l *line.Line) { l.DisplayMap, l.Bindings, l.Without = true, true, []string{"--display topo"} }},
		{line: "--runtime-options error-nonzero-status=0 a", is: func(l *line.Line) { l.KeepOn = true }},
		{line: "-q -v --do-not-launch a", is: func(l *line.Line) { l.Quiet, l.Verbose, l.DryRun = true, 1, true }},
		{line: "a", world: world{env: "MPIEXEC_TIMEOUT=5"}, is: func(l *line.Line) { l.Timeout = 5 * time.Second }},
		{line: "--timeout 7 a", world: world{env: "MPIEXEC_TIMEOUT=5"}, is: func(l *line.Line) { l.Timeout = 7 * time.Second }},
	})
}

func TestOpenMPIEnvironment(t *testing.T) {
	has := world{env: `HOME=/root UCX_TLS=tcp UCX_NET_DEVICES=mlx5_0:1 PATH=/bin LD_LIBRARY_PATH=/l Q="q"`}
	read(t, line.OpenMPI, []reading{
		{line: "-x HOME -x A=b=c -x E= a", world: has, is: env("HOME=/root", "A=b=c", "E=")},
		{line: "-x A=1 -x A=2 a", is: env("A=2")},
		{line: `-x UCX_TLS="tcp" -x Q a`, world: has, is: env(`UCX_TLS="tcp"`, `Q="q"`)},
		{line: "-x 'A=line\nend' -x 'B=$HOME `x` \\' a", is: env("A=line\nend", "B=$HOME `x` \\")},
		{line: "-x UCX_* a", world: has, is: env("UCX_TLS=tcp", "UCX_NET_DEVICES=mlx5_0:1")},
		{line: "-x NOPE a", is: func(l *line.Line) {
			l.Warnings = []string{`could not find environment variable "NOPE", so ranks do not get it (-x)`}
		}},
		{line: "-x A=1 a : -x B=2 b", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, Env: []string{"A=1"}}, {Argv: []string{"b"}, Env: []string{"B=2"}}}
		}},

		{line: "--mca btl ^openib -mca pml ob1 a", is: env("OMPI_MCA_btl=^openib", "OMPI_MCA_pml=ob1")},
		{line: `--mca btl "self,tcp" a`, is: env("OMPI_MCA_btl=self,tcp")},
		{line: "--mca btl self --mca btl self a", is: env("OMPI_MCA_btl=self")},
		{line: "--gmca btl self a : --omca btl tcp b : c", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, Env: []string{"OMPI_MCA_btl=self"}}, {Argv: []string{"b"}, Env: []string{"OMPI_MCA_btl=tcp"}},
				{Argv: []string{"c"}, Env: []string{"OMPI_MCA_btl=self"}}}
		}},
		{line: "--mca btl tcp a : b", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, Env: []string{"OMPI_MCA_btl=tcp"}}, {Argv: []string{"b"}, Env: []string{"OMPI_MCA_btl=tcp"}}}
		}},
		{line: "--pmixmca gds hash a", is: env("PMIX_MCA_gds=hash")},
		{line: "--mca plm_rsh_agent ssh --mca oob_tcp_if_include eth0 --mca plm rsh a",
			is: without("parameter plm_rsh_agent", "parameter oob_tcp_if_include", "parameter plm")},
		{line: "--prtemca plm_ssh_no_tree_spawn 1 a", is: without("parameter plm_ssh_no_tree_spawn")},
		{line: "--mca orte_abort_on_non_zero_status 0 a", is: func(l *line.Line) { l.KeepOn = true }},
		{line: "--mca rmaps_base_mapping_policy ppr:2:node:oversubscribe --mca orte_tag_output 1 a",
			is: all(perNode(2), func(l *line.Line) { l.Oversubscribe, l.TagOutput = true, true })},
		{line: "--mca mca_base_env_list 'A=1;HOME;B=x y' a", world: has, is: env("A=1", "HOME=/root", "B=x y")},

		{line: "a", world: world{env: "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_orte_tag_output=true OMPI_MCA_mca_base_env_list=A=1;B=2"},
			is: all(env("A=1", "B=2"), func(l *line.Line) { l.Oversubscribe, l.TagOutput = true, true })},
		{line: "--map-by slot a", world: world{env: "OMPI_MCA_rmaps_base_mapping_policy=ppr:1:node"}, is: mapped("slot", nil)},
		{line: "-np 1 a", world: world{env: "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe"},
			is: all(one(func(c *line.Context) { c.N = 1 }), func(l *line.Line) { l.Oversubscribe = true })},

		{line: "--prefix /opt/ompi a", world: has, is: env("PATH=/opt/ompi/bin:/bin", "LD_LIBRARY_PATH=/opt/ompi/lib:/l")},
		{line: "--prefix /opt/ompi -x LD_LIBRARY_PATH=/mine -x PATH a", world: has,
			is: env("LD_LIBRARY_PATH=/opt/ompi/lib:/mine", "PATH=/opt/ompi/bin:/bin")},
		{line: "--prefix /p a", is: env("PATH=/p/bin", "LD_LIBRARY_PATH=/p/lib")},
	})
}

// The operator's job of two workers.
const workers = "pi-worker-0.pi.ns.svc slots=2\npi-worker-1.pi.ns.svc slots=2\n"

func TestOpenMPIHosts(t *testing.T) {
	files := map[string]string{"f": "a slots=4\nb slots=2\nb\n", "bare": "a\nb slots=3\n", "dup": "a slots=1\na slots=1\n"}
	read(t, line.OpenMPI, []reading{
		{line: "-H a,b:4,a a", is: hosts(t, "a:2 b:4")},
		{line: "-host a -host b:2 a", is: hosts(t, "a:1 b:2")},
		{line: "--host root@a:2 a", is: hosts(t, "a:2")},
		{line: "--host a:*,b:auto a", is: hosts(t, "a b")},
		{line: "-H [fd00::7]:2 a", is: hosts(t, "[fd00::7]:2")},
		{line: "--hostfile f a", world: world{files: files}, is: hosts(t, "a:4 b:3")},
		{line: "-machinefile f a", world: world{files: files}, is: hosts(t, "a:4 b:3")},
		{line: "--hostfile f -H b,a:6 a", world: world{files: files}, is: hosts(t, "b:1 a:6")},
		{line: "--hostfile f -H a:* a", world: world{files: files}, is: hosts(t, "a:4")},
		{line: "--hostfile bare a", world: world{files: files, env: "OMPI_MCA_orte_set_default_slots=8"}, is: hosts(t, "a:8 b:3")},
		{line: "--mca orte_default_hostfile f a", world: world{files: files}, is: hosts(t, "a:4 b:3")},
		{line: "a", world: world{operators: workers, env: "OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile"}}, // the launcher finds them
		{line: "-H pi-worker-1:2,pi-worker-0.pi a", world: world{operators: workers}, is: hosts(t, "pi-worker-1.pi.ns.svc:2 pi-worker-0.pi.ns.svc:1")},
		{line: "-np 1 -H a a : -np 2 -H b:2 b : -np 1 c", is: func(l *line.Line) {
			l.Entries = entries(t, "a:1 b:2")
			l.Contexts = []line.Context{{Argv: []string{"a"}, N: 1, On: entries(t, "a:1")}, {Argv: []string{"b"}, N: 2, On: entries(t, "b:2")}, {Argv: []string{"c"}, N: 1}}
		}},
		{line: "-np 1 -H a,b:3 a : -np 3 b", is: func(l *line.Line) {
			l.Entries = entries(t, "a:1 b:3")
			l.Contexts = []line.Context{{Argv: []string{"a"}, N: 1, On: entries(t, "a:1 b:3")}, {Argv: []string{"b"}, N: 3}}
		}},
		{line: "-np 1 -H a a : -np 3 -H a:3,b b", world: world{files: files}, is: func(l *line.Line) {
			l.Entries = entries(t, "a:3 b:1")
			l.Contexts = []line.Context{{Argv: []string{"a"}, N: 1, On: entries(t, "a:1")}, {Argv: []string{"b"}, N: 3, On: entries(t, "a:3 b:1")}}
		}},
		{line: "-np 1 -H pi-worker-1 a : -np 1 -H pi-worker-0 b", world: world{operators: workers}, is: func(l *line.Line) {
			l.Entries = entries(t, "pi-worker-1.pi.ns.svc:1 pi-worker-0.pi.ns.svc:1")
			l.Contexts = []line.Context{{Argv: []string{"a"}, N: 1, On: entries(t, "pi-worker-1.pi.ns.svc:1")}, {Argv: []string{"b"}, N: 1, On: entries(t, "pi-worker-0.pi.ns.svc:1")}}
		}},
		{line: "-H localhost,me,10.0.0.7 a", world: world{operators: workers}, is: hosts(t, "localhost:1 me:1 10.0.0.7:1")},
	})
	refuse(t, line.OpenMPI, []refusal{
		{line: "-H c --hostfile f a", world: world{files: files}, says: "host c is not in hostfile f"},
		{line: "--hostfile dup a", world: world{files: files}, says: "hostfile dup line 2: host a is on line 1 already"},
		{line: "--hostfile none a", says: "none: no such file"},
		{line: "--hostfile f --hostfile bare a", world: world{files: files}, says: "the hosts are in f already"},
		{line: "-H a, a", says: "a name is missing beside a comma"},
		{line: "-H ' ' a", says: "the list is empty"},
		{line: "-H a:x a", says: `host a: slots "x" is not a number`},
		{line: "-H +n1 a", says: "host +n1: hosts are counted from 0, and there are 1"},
		{line: "-H +x a", says: "host +x: a relative host is +n0, +n1 and so on, or +e"},
		{line: "-H +e:2 a", says: "host +e:2: so many empty hosts are not chosen"},
		{line: "-H ^a a", says: "relative and excluded hosts are not known"},
		{line: "-H a:0 a", says: "host a has 0 slots, and no other host has any"},
		{line: "-H pi-wroker-1 a", world: world{operators: workers}, says: "host pi-wroker-1 is not one of the job's 2 hosts, pi-worker-0.pi.ns.svc and so on"},
		{line: "-H w a", world: world{operators: "w.a\nw.b\n"}, says: "host w may be w.a or w.b; write the whole name"},
		{line: "-H w,w.a a", world: world{operators: "w.a\nv.a\n"}, says: "host w.a is named twice"},
		{line: "--hostfile f -H b -np 1 a : -H c -np 1 b", world: world{files: files}, says: "host c is not in hostfile f"},
		{line: "a : --hostfile f b", world: world{files: files}, says: "--hostfile concerns all programs here"},
	})
}

func TestOpenMPIRefuses(t *testing.T) {
	refuse(t, line.OpenMPI, []refusal{
		{line: "", says: "which program?"},
		{line: "-np 4", says: "which program?"},
		{line: "''", says: "program 1 has an empty name"},
		{line: ": a", says: "program 1 has no name"},
		{line: "a : : b", says: "program 2 has no name"},
		{line: "a : -np 2", says: "program 2 has no name"},
		{line: "-np", says: "-np needs a value"},
		{line: "-np x a", says: `-np x: "x" is no number from 0`},
		{line: "-np -1 a", says: `"-1" is no number from 0`},
		{line: "-np 99999999999999999999 a", says: "is no number from 0"},
		{line: "-n4 a", says: "unknown option -n4"},
		{line: "---np 4 a", says: "unknown option ---np"},
		{line: "-1 a", says: "unknown option -1"},
		{line: "-npp 4 a", says: "unknown option -npp; did you mean --np?"},
		{line: "-ppn 4 a", says: "unknown option -ppn: it is Hydra's"},
		{line: "-genv A 1 a", says: "unknown option -genv: it is Hydra's"},
		{line: "--mca btl", says: "--mca needs 2 values"},
		{line: "--mca=btl self a", says: "--mca takes 2 values, in words of their own"},
		{line: "--tag-output=yes a", says: "--tag-output takes no value"},
		{line: "--mca 'a=b' c a", says: `"a=b" is no parameter's name`},
		{line: "-x =1 a", says: "a variable has a name"},
		{line: "-x 'A=" + strings.Repeat("x", line.MaxVar) + "' a", says: "variable A has 131073 bytes"},
		{line: "-wdir '' a", says: "a directory has a name"},
		{line: "--map-by bogus a", says: `"bogus" is not known; use slot, node, ppr:N:node`},
		{line: "--map-by '' a", says: "nothing is said; use slot"},
		{line: "--map-by slot:bogus a", says: `modifier "bogus" is not known`},
		{line: "--map-by slot:pe=x a", says: `modifier pe=x: "x" is no number`},
		{line: "--map-by rankfile a", says: "write --rankfile FILE"},
		{line: "--rankfile none a", says: "--rankfile none: file does not exist"},
		{line: "--cpu-set 3-1 a", says: `"3-1" runs backwards`},
		{line: "--map-by dist:mlx5_0 a", says: "a device that ranks are to be near is named nowhere"},
		{line: "--report-uri f a", says: "wait for the file of --report-pid"},
		{line: "--map-by ppr:2:rack a", says: `"rack" is none: write ppr:N:node`},
		{line: "--map-by ppr:x:node a", says: `"x" is no number`},
		{line: "--map-by ppr a", says: "write ppr:N:node"},
		{line: "--rank-by bogus a", says: `"bogus" is not known`},
		{line: "--bind-to bogus a", says: `"bogus" is not known; use none`},
		{line: "--bind-to cpu-list:ordered a", says: "write --cpu-list LIST"},
		{line: "a", world: world{env: "OMPI_MCA_rmaps_base_mapping_policy=lsf"}, says: "OMPI_MCA_rmaps_base_mapping_policy=lsf: mapping by lsf is not done"},
		{line: "a", world: world{env: "MPIEXEC_TIMEOUT=x"}, says: `MPIEXEC_TIMEOUT: "x" is no number`},
		{line: "--output-filename :nocopy a", says: "a file has a name"},
		{line: "--output-filename d:foo a", says: `modifier "foo" is not known`},
		{line: "--output xml a", says: `"xml" is not done; tag,`},
		{line: "--output t a", says: `"t" is not done`},
		{line: "--output file= a", says: "a file has a name"},
		{line: "--output file=f,dir=d a", says: "say one"},
		{line: "--display bogus a", says: `"bogus" is not known`},
		{line: "--runtime-options notifyerrors a", says: `"notifyerrors" is not done`},
		{line: "--stdin 1.5 a", says: `"1.5" is neither a rank nor all or none`},
		{line: "--timeout x a", says: `--timeout x: "x" is no number`},
		{line: "--preload-files , a", says: "a file has a name"},
		{line: "--xterm", says: "--xterm: use --output-filename"},
		{line: "a : --tag-output b", says: "--tag-output concerns all programs here"},
	})
}

// repeats says that a parameter has another value than the one that it had first.
func repeats(name, value string) func(*line.Line) {
	return func(l *line.Line) {
		l.Repeated = fmt.Sprintf("parameter %s has the value %q already; give it once", name, value)
	}
}
