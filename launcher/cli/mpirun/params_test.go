package mpirun

import (
	"slices"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

func TestParameterFiles(t *testing.T) {
	has := world{env: "OMPI_MCA_pml=ucx B=2", files: map[string]string{
		"/here/am":   "# of mca-params.conf\n\nbtl = self,tcp\n  coll_x_y=\"a b\"\npml = ob1\nrmaps_base_oversubscribe = 1\nplm_rsh_args = -o x=y\n// more\n",
		"/abs/tune":  "-x A=1 --mca btl \"sm\"\n-x B\n-mca osc rdma\n",
		"/here/two":  "btl = one\nbtl = two\n",
		"/here/bad":  "btl = x\nno parameter\n",
		"/here/opt":  "--np 4\n",
		"/here/less": "--mca btl\n",
		"/here/name": "a b = c\n",
		"/here/long": "-x A=" + string(slices.Repeat([]byte("x"), line.MaxVar)) + "\n",
	}}
	read(t, line.OpenMPI, []reading{
		{line: "--am am a", world: has, is: all(env("OMPI_MCA_btl=self,tcp", "OMPI_MCA_coll_x_y=a b"), func(l *line.Line) { l.Oversubscribe, l.SSHArgs = true, "-o x=y" }, without("parameter plm_rsh_args"))},
		{line: "--am am --mca btl vader a", world: has, is: all(env("OMPI_MCA_coll_x_y=a b", "OMPI_MCA_btl=vader"), func(l *line.Line) { l.Oversubscribe, l.SSHArgs = true, "-o x=y" }, without("parameter plm_rsh_args"))},
		{line: "--tune /abs/tune a", world: has, is: env("A=1", "OMPI_MCA_btl=sm", "B=2", "OMPI_MCA_osc=rdma")},
		{line: "--am none a", world: has, is: func(l *line.Line) {
			l.Warnings = []string{"no file of parameters none, here or in /usr/share/openmpi/amca-param-sets"}
		}},
		{line: "--am ft-mpi a", world: world{files: map[string]string{"/usr/share/openmpi/amca-param-sets/ft-mpi": "x = y\n"}}, is: env("OMPI_MCA_x=y")},
		{line: "--tune /abs/tune -x A=3 a", world: has, is: env("A=3", "OMPI_MCA_btl=sm", "B=2", "OMPI_MCA_osc=rdma")},
		{line: "--tune /abs/tune,two a", world: has, is: env("A=1", "B=2", "OMPI_MCA_osc=rdma", "OMPI_MCA_btl=one")},
		{line: "--am two --amca /abs/tune a : b", world: has, is: func(l *line.Line) {
			e := []string{"A=1", "OMPI_MCA_btl=sm", "B=2", "OMPI_MCA_osc=rdma"}
			l.Contexts = []line.Context{{Argv: []string{"a"}, Env: e}, {Argv: []string{"b"}, Env: e}}
		}},
		{line: "--tune /abs/tune --mca btl x a : --mca btl y b", world: has, is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, Env: []string{"A=1", "B=2", "OMPI_MCA_osc=rdma", "OMPI_MCA_btl=x"}}, {Argv: []string{"b"}, Env: []string{"A=1", "B=2", "OMPI_MCA_osc=rdma", "OMPI_MCA_btl=y"}}}
		}},
	})
	refuse(t, line.OpenMPI, []refusal{
		{line: "--am , a", world: has, says: "a file has a name"},
		{line: "--am bad a", world: has, says: `/here/bad line 2: "no parameter" is neither NAME = VALUE nor an option`},
		{line: "--tune opt a", world: has, says: "/here/opt line 1: --np is not read from files"},
		{line: "--tune less a", world: has, says: "/here/less line 1: --mca needs 2 values"},
		{line: "--tune name a", world: has, says: `/here/name line 1: "a b" is no parameter's name`},
		{line: "--tune long a", world: has, says: "/here/long line 1: variable A has 131073 bytes"},
	})
}

func TestProgramsAndPids(t *testing.T) {
	for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
		read(t, f, []reading{
			{line: "--path /x:y a", is: one(func(c *line.Context) { c.Path = "/x:y" })},
		})
	}
	read(t, line.OpenMPI, []reading{
		{line: "--index-argv-by-rank a", is: one(func(c *line.Context) { c.IndexArgv = true })},
		{line: "--report-pid - a", is: func(l *line.Line) { l.ReportPID = "-" }},
		{line: "--report-pid f a", is: func(l *line.Line) { l.ReportPID = "/here/f" }},
		{line: "--enable-recovery a", is: func(l *line.Line) { l.Recover = true }},
		{line: "--runtime-options continuous,fwd-environment a", is: func(l *line.Line) { l.Recover, l.ForwardAll = true, true }},
		{line: "a", world: world{env: "OMPI_MCA_orte_enable_recovery=1"}, is: func(l *line.Line) { l.Recover = true }},
		{line: "-s --preload-files a,/b --preload-files c a : b", is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, PreloadBinary: true, PreloadFiles: []string{"a,/b", "c"}}, {Argv: []string{"b"}}}
		}},
	})
	refuse(t, line.OpenMPI, []refusal{
		{line: "--path '' a", says: "the list of directories is empty"},
		{line: "--report-pid '' a", says: "a file has a name"},
	})
	l := line.Line{Family: line.OpenMPI, Contexts: []line.Context{{}}, ForwardAll: true}
	environ := []string{"A=1", "HOME=/root", "PATH=/bin", "OMPI_MCA_btl=x", "OMPI_MCA_plm_rsh_agent=ssh", "K_MPI_JOB_ROLE=launcher", "OMPI_COMM_WORLD_RANK=0", "PMIX_RANK=1", "W_SERVICE_HOST=x"}
	if got := Forward(&l, 0, environ); !slices.Equal(got, []string{"A=1", "OMPI_MCA_btl=x"}) {
		t.Errorf("goes along: %q", got)
	}
}

// ranks is a list of them.
func ranks(list string) idset.Set {
	set, _ := idset.Parse(list)
	return set
}

func TestIntelsOptions(t *testing.T) {
	tools := func(list ...job.Tool) func(*line.Line) { return func(l *line.Line) { l.Tools = list } }
	file := world{files: map[string]string{"/here/g": "valgrind -q:all\nstrace -f:1\n"}}
	read(t, line.Hydra, []reading{
		{line: "-output-from 3 a", is: func(l *line.Line) { l.OutputFrom = "3" }},
		{line: "-disable-auto-cleanup a", is: func(l *line.Line) { l.Linger = true }},
		{line: "-prepend-pattern '%t %r:' a", is: func(l *line.Line) { l.Prepend = "%t %r:" }},
		{line: "-hosts-group n[01-03,7]x,b a", is: hosts(t, "n01x n02x n03x n7x b")},
		{line: "-hosts-group n[1]m[2-3] a", is: hosts(t, "n1m2 n1m3")},
		{line: "-hosts-group b a", is: hosts(t, "b")},
		{line: "-hosts-group n[9-11]:2 a", is: hosts(t, "n9:2 n10:2 n11:2")},
		{line: "-gtool 'valgrind -q --log=x:y:0-3,7' a", is: tools(job.Tool{Argv: []string{"valgrind", "-q", "--log=x:y"}, Ranks: ranks("0-3,7")})},
		{line: "-gtool 'a:0;b c:all' a", is: tools(job.Tool{Argv: []string{"a"}, Ranks: ranks("0")}, job.Tool{Argv: []string{"b", "c"}})},
		{line: "-gtoolfile g a", world: file, is: tools(job.Tool{Argv: []string{"valgrind", "-q"}}, job.Tool{Argv: []string{"strace", "-f"}, Ranks: ranks("1")})},
		{line: "a", world: world{env: "I_MPI_GTOOL=gdb:0"}, is: tools(job.Tool{Argv: []string{"gdb"}, Ranks: ranks("0")})},
		{line: "-gtool x:1 a", world: world{env: "I_MPI_GTOOL=gdb:0"}, is: tools(job.Tool{Argv: []string{"x"}, Ranks: ranks("1")})},
	})
	mask := []string{"/bin/sh", "-c", `umask 027 && exec "$0" "$@"`}
	read(t, line.Hydra, []reading{
		{line: "-umask 027 a", is: tools(job.Tool{Argv: mask})},
		{line: "-umask 027 -gtool strace:0 a", is: tools(job.Tool{Argv: append(slices.Clone(mask), "strace"), Ranks: ranks("0")}, job.Tool{Argv: mask})},
	})
	refuse(t, line.Hydra, []refusal{
		{line: "-umask 8 a", says: `-umask 8: "8" is no mask from 000 to 777`},
		{line: "-umask 1777 a", says: "is no mask"},
		{line: "-umask u=rw a", says: "is no mask"},
		{line: "-output-from x a", says: `"x" is no number`},
		{line: "-hosts-group n[1-2 a", says: "brackets behind a name hold numbers"},
		{line: "-hosts-group n[2-1] a", says: `the range "2-1" ends before it begins`},
		{line: "-hosts-group n[a] a", says: "brackets behind a name hold numbers"},
		{line: "-hosts-group n[0-999999999] a", says: "hosts"},
		{line: "-hosts-group n[] a", says: `"" is no number`},
		{line: "-gtool valgrind a", says: `"valgrind" names no ranks`},
		{line: "-gtool valgrind: a", says: "names no ranks"},
		{line: "-gtool :0 a", says: `":0" names no tool`},
		{line: "-gtool ; a", says: "no tool is named"},
		{line: "-gtool gdb:0=attach a", says: "launch modes"},
		{line: "-gtool gdb:3-1 a", says: "ranks of gdb: number list"},
		{line: "-gtoolfile none a", says: "-gtoolfile none: none: file does not exist"},
		{line: "a", world: world{env: "I_MPI_GTOOL=gdb"}, says: `I_MPI_GTOOL: "gdb" names no ranks`},
	})
}
