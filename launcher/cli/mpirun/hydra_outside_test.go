package mpirun

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Variables of MPICH's and Intel MPI's launchers are options by another name, or are spoken of; an option comes before its variable.
func TestVariablesOfHydra(t *testing.T) {
	bound := func(to, by layout.Kind) func(*line.Line) {
		return func(l *line.Line) {
			l.Binding.Hydra = &layout.Hydra{To: layout.Step{Kind: to, N: 1}, By: layout.Step{Kind: by, N: 1}}
		}
	}
	timeout := func(seconds int) func(*line.Line) {
		return func(l *line.Line) { l.Timeout = time.Duration(seconds) * time.Second }
	}
	warned := func(sentence string) func(*line.Line) {
		return func(l *line.Line) { l.Warnings = []string{sentence} }
	}
	read(t, line.Hydra, []reading{
		{line: "a", world: world{env: "HYDRA_BINDING=core"}, is: bound(layout.Core, layout.Core)},
		{line: "a", world: world{env: "HYDRA_BINDING=core HYDRA_MAPPING=socket"}, is: bound(layout.Core, layout.Package)},
		{line: "-bind-to core a", world: world{env: "HYDRA_BINDING=numa"}, is: bound(layout.Core, layout.Core)},
		{line: "a", world: world{env: "HYDRA_MAPPING=bogus"}}, // as there
		{line: "a", world: world{env: "HYDRA_PPN=3"}, is: func(l *line.Line) { l.PerHost = 3 }},
		{line: "-ppn 2 a", world: world{env: "HYDRA_PPN=3"}, is: func(l *line.Line) { l.PerHost = 2 }},
		{line: "a", world: world{env: "I_MPI_JOB_TIMEOUT=4"}, is: timeout(4)},
		{line: "a", world: world{env: "I_MPI_MPIEXEC_TIMEOUT=5"}, is: timeout(5)},
		{line: "-timeout 6 a", world: world{env: "I_MPI_JOB_TIMEOUT=4"}, is: timeout(6)},
		{line: "a", world: world{env: "I_MPI_HYDRA_HOSTS_GROUP=n[1-2]"}, is: hosts(t, "n1 n2")},
		{line: "-hosts b a", world: world{env: "I_MPI_HYDRA_HOSTS_GROUP=n[1-2]"}, is: hosts(t, "b")},
		{line: "a", world: world{env: "HYDRA_DEBUG=1"}, is: func(l *line.Line) { l.Verbose = 1 }},
		{line: "a", world: world{env: "HYDRA_DEBUG=0"}},
		{line: "a", world: world{env: "HYDRA_MEMBIND=nodelocal"}, is: warned("variable HYDRA_MEMBIND has no effect: " +
			"memory is taken from where a rank runs: write a tool before the program, numactl --membind N")},
		{line: "a", world: world{env: "HYDRA_HOSTNAME_PROPAGATION=0"}, is: warned("variable HYDRA_HOSTNAME_PROPAGATION has no effect: " +
			"ranks find their addresses by the interface: -iface NAME chooses it")},
		{line: "a", world: world{env: "HYDRA_HOSTNAME_PROPAGATION=1 HYDRA_RMK=slurm I_MPI_HYDRA_BOOTSTRAP=ssh I_MPI_PIN=1"}},
		{line: "-print-rank-map a", is: warned("-print-rank-map has no effect: -dry-run shows which rank is where")},
	})
	refuse(t, line.Hydra, []refusal{
		{line: "a", world: world{env: "HYDRA_BINDING=bogus"}, says: "HYDRA_BINDING: "},
		{line: "a", world: world{env: "I_MPI_JOB_TIMEOUT=soon"}, says: `I_MPI_JOB_TIMEOUT: "soon" is no number`},
		{line: "a", world: world{env: "HYDRA_PPN=0"}, says: "HYDRA_PPN: "},
	})
}

// Files with options that the real launchers read by themselves, as MPICH 4.0.2 and Intel MPI 2021.18 were seen to do it.
func TestFilesOfOptionsThatNobodyNamed(t *testing.T) {
	const home = "/home/u/.mpiexec.hydra.conf"
	in := func(env string, files ...string) world {
		w := world{env: "HOME=/home/u " + env, found: map[string]string{}, prefix: "/opt/mpich"}
		for i := 0; i < len(files); i += 2 {
			w.found[files[i]] = files[i+1]
		}
		return w
	}
	ranks := func(n int) func(*line.Line) { return one(func(c *line.Context) { c.N = n }) }
	tagged := func(l *line.Line) { l.TagOutput = true }
	read(t, line.Hydra, []reading{
		{line: "a", world: in("", home, "-n 3\n"), is: ranks(3)},
		{line: "-n 1 a", world: in("", home, "-n 3\n"), is: ranks(1)},
		{line: "a", world: in("HYDRA_CONFIG_FILE=c", "/here/c", "-l # as I like it\n", home, "-n 3\n"), is: tagged},
		{line: "a", world: in("HYDRA_CONFIG_FILE=/none", home, "-l"), is: tagged},
		{line: "a", world: in("", "/opt/mpich/etc/mpiexec.hydra.conf", "-l"), is: tagged},
		{line: "a", world: in("", home, "-n 2\n", "/opt/mpich/etc/mpiexec.hydra.conf", "-l"), is: ranks(2)},
		{line: "a", world: in("", home, "-ppn 2 -hosts b:4\n-l\n"), is: all(hosts(t, "b:4"), tagged, func(l *line.Line) { l.PerHost = 2 })},
		{line: "-hosts c a", world: in("", home, "-f h -ppn 2\n"), is: all(hosts(t, "c"), func(l *line.Line) { l.PerHost = 2 })},
		{line: "-genv V 1 a", world: in("", home, "-genv V 2 -genv W 3"), is: env("V=1", "W=3")},
		{line: "-n 1 a : -n 1 b", world: in("", home, "-env V 2"), is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, N: 1}, {Argv: []string{"b"}, N: 1, Env: []string{"V=2"}}}
		}},
		{line: "", world: in("", home, "-n 2 a : -n 1 b"), is: func(l *line.Line) {
			l.Contexts = []line.Context{{Argv: []string{"a"}, N: 2}, {Argv: []string{"b"}, N: 1}}
		}},
		{line: "a", world: in("HYDRA_BINDING=bogus", home, "-bind-to none"), is: func(*line.Line) {}},
		{line: "a", world: in("", home, "unreadable"), is: func(l *line.Line) {
			l.Warnings = []string{home + ", which the real mpiexec reads, is not read: permission denied"}
		}},
		{line: "a", world: in("I_MPI_ROOT=/opt/i", "/here/mpiexec.conf", "-n 3\n", "/home/u/.mpiexec.conf", "-l -n 2", home, "-ppn 7"), is: all(ranks(3), tagged)},
		{line: "a", world: in("I_MPI_ROOT=/opt/i HYDRA_CONFIG_FILE=/c", "/c", "-ppn 2", "/opt/i/intel64/etc/mpiexec.conf", "-l"), is: tagged},
		{line: "a", world: in("", "/here/mpiexec.conf", "-n 3\n")},
	})
	refuse(t, line.Hydra, []refusal{
		{line: "a", world: in("", home, "-bogus"), says: home + ", which Hydra's mpiexec reads: unknown option -bogus"},
		{line: "a", world: in("", home, "-n 2 b"), says: "names a program, and so does the command line"},
		{line: "a", world: in("", home, "-n"), says: "-n needs a value"},
	})
}

// Each variable of a real launcher has a row. The lists are what the binaries have in them; test/integration compares them with those where they are
// installed.
func TestEveryVariableOfTheRealOnes(t *testing.T) {
	for file, launcher := range map[string]string{"variables-mpich4.txt": "mpich", "variables-mpich5.txt": "mpich", "variables-intel.txt": "intel"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Fields(string(text))
		for _, name := range names {
			if !slices.ContainsFunc(hydraVariables(), func(row hydraVariable) bool {
				return slices.Contains(row.launchers, launcher) && slices.ContainsFunc(row.names, nameMatches(name))
			}) {
				t.Errorf("%s: %s reads variable %s, and variables.tsv has no row for it", file, launcher, name)
			}
		}
		if len(names) < 25 {
			t.Errorf("%s has %d names alone", file, len(names))
		}
	}
}

// What the table calls done is done: the variable changes what is read of a line, or names a file.
func TestVariablesThatAreDone(t *testing.T) {
	values := map[string]string{
		"I_MPI_HYDRA_HOSTS_GROUP": "n[1-2]", "I_MPI_PERHOST": "2", "HYDRA_PPN": "2", "HYDRA_IFACE": "lo", "I_MPI_HYDRA_IFACE": "lo", "HYDRA_ENV": "none",
		"HYDRA_BINDING": "core", "HYDRA_MAPPING": "numa", "HYDRA_CONFIG_FILE": "/c", "MPIEXEC_TIMEOUT": "3", "I_MPI_JOB_TIMEOUT": "3",
		"I_MPI_MPIEXEC_TIMEOUT": "3", "HYDRA_DEBUG": "1", "I_MPI_HYDRA_DEBUG": "1", "I_MPI_GTOOL": "nice:all",
	}
	parsed := func(env string) line.Line {
		l, err := Parse(line.Hydra, []string{"a"}, world{env: env, found: map[string]string{"/c": "-l"}}.outside())
		if err != nil {
			t.Fatalf("%s: %v", env, err)
		}
		return l
	}
	for _, row := range hydraVariables() {
		for _, name := range row.names {
			value, known := values[name]
			switch {
			case row.level != variableDone, strings.HasSuffix(name, "HOST_FILE"): // those are launcher/hosts'
				continue
			case !known:
				t.Errorf("%s is done; give it a value here", name)
				continue
			}
			without := ""
			if name == "HYDRA_MAPPING" {
				without = "HYDRA_BINDING=core"
			}
			if same(parsed(without), parsed(without+" "+name+"="+value)) {
				t.Errorf("%s=%s changes nothing", name, value)
			}
		}
	}
}
