package mpirun

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Which files of parameters count, and which comes before which, as Open MPI 4.1.4 and 5.0.11 were seen to do it.
func TestFilesOfParametersThatNobodyNamed(t *testing.T) {
	const user4, system4, override4 = "/home/u/.openmpi/mca-params.conf", "/etc/openmpi/openmpi-mca-params.conf", "/etc/openmpi/openmpi-mca-params-override.conf"
	const user5, system5, pmix5 = "/home/u/.prte/mca-params.conf", "/opt/o/etc/prte-mca-params.conf", "/home/u/.pmix/mca-params.conf"
	tagged := func(l *line.Line) { l.TagOutput = true }
	warned := func(sentences ...string) func(*line.Line) {
		return func(l *line.Line) { l.Warnings = sentences }
	}
	in := func(five, env string, files ...string) world {
		w := world{env: "HOME=/home/u " + env, found: map[string]string{}, five: five, prefix: "/usr"}
		if five == "yes" {
			w.prefix = "/opt/o"
		}
		for i := 0; i < len(files); i += 2 {
			w.found[files[i]] = files[i+1]
		}
		return w
	}
	read(t, line.OpenMPI, []reading{
		{line: "a", world: in("no", "", user4, "orte_tag_output = 1\n"), is: tagged},
		{line: "a", world: in("no", "", system4, "# all\n// of us\n\n orte_tag_output=1"), is: tagged},
		{line: "a", world: in("no", "", user4, "orte_tag_output = 0\n", system4, "orte_tag_output = 1\n")},
		{line: "a", world: in("no", "", user4, "orte_tag_output = 0\norte_tag_output = 1\n"), is: tagged},
		{line: "a", world: in("no", "OMPI_MCA_orte_tag_output=0", user4, "orte_tag_output = 1\n")},
		{line: "--mca orte_tag_output 0 a", world: in("no", "", user4, "orte_tag_output = 1\n")},
		{line: "--mca orte_tag_output 0 a", world: in("no", "", override4, "orte_tag_output = 1\n"), is: tagged},
		{line: "--bind-to none a", world: in("no", "", user4, "hwloc_base_binding_policy = core\n"), is: func(l *line.Line) {
			l.Binding.Bind.Said = true
		}},
		{line: "a", world: in("no", "", user4, "--mca orte_tag_output 1\n-x V=1\n"), is: all(tagged, env("V=1"))},
		{line: "a", world: in("no", "", user4, "mca_base_env_list = V=1 # c;W=2\n"), is: env("V=1 # c", "W=2")},
		{line: "a", world: in("no", "OMPI_MCA_mca_base_env_list_delimiter=+", user4, "mca_base_env_list = V=1+W=2\n"), is: env("V=1", "W=2")},
		{line: "a", world: in("no", "", user4, "btl = self\n")}, // the ranks' library reads it there
		{line: "a", world: in("no", "", user4, "a b\norte_tag_output: 1\norte_tag_output = 1\n"), is: all(tagged, warned(
			user4+` line 1: "a b" is no NAME = VALUE, and is passed over`, user4+` line 2: "orte_tag_output: 1" is no NAME = VALUE, and is passed over`))},
		{line: "a", world: in("yes", "", pmix5, "btl = a\x00b\npml = "+strings.Repeat("x", maxParamLine)+"\nosc = c\n"), is: all(env("OMPI_MCA_osc=c"), warned(
			pmix5+" line 1: a line of 9 bytes, or one with a zero byte, and is passed over",
			pmix5+" line 2: a line of 65542 bytes, or one with a zero byte, and is passed over"))},
		{line: "a", world: in("no", "", user4, "unreadable"), is: warned(user4 + ", which the real mpirun reads, is not read: permission denied")},
		{line: "a", world: in("no", "", user4, "orte_xml_output = 1\norte_startup_timeout = 0\nplm_rsh_pass_environ_mca_params = 1\n"), is: warned(
			user4 + " line 1: parameter orte_xml_output has no effect: output stays as ranks write it: mpiup run --output json has an object a line")},

		{line: "a", world: in("no", "OMPI_MCA_mca_base_param_files=/s/one,two", "/s/one", "orte_tag_output = 0\n", "/here/two", "orte_tag_output = 1\nrmaps_base_oversubscribe = 1\n",
			user4, "orte_timestamp_output = 1\n"), is: func(l *line.Line) { l.Oversubscribe = true }},
		{line: "--mca mca_param_files /s/one a", world: in("no", "", "/s/one", "orte_tag_output = 1\n"), is: all(tagged, env("OMPI_MCA_mca_param_files=/s/one"))},
		{line: "a", world: in("no", "OMPI_MCA_mca_base_param_files=none", user4, "orte_tag_output = 1\n")},
		{line: "a", world: in("no", "OMPI_MCA_mca_base_param_files=/s/one", user4, "orte_tag_output = 1\n"), is: warned("no file of parameters /s/one (mca_base_param_files)")},

		{line: "a", world: world{env: "OMPI_MCA_mca_base_envar_file_prefix=t,u", files: map[string]string{"/here/t": "orte_tag_output = 1\n", "/here/u": "-x V=1\n"}},
			is: all(tagged, env("V=1"))},
		{line: "a", world: in("yes", "", user4, "orte_tag_output = 1\nbtl = self\nmca_base_env_list = V=1\n"), is: env("OMPI_MCA_btl=self", "V=1")},
		{line: "a", world: in("yes", "", user5, "rmaps_default_mapping_policy = :oversubscribe\nbtl = self\n"), is: func(l *line.Line) { l.Oversubscribe = true }},
		{line: "a", world: in("yes", "", system5, "runtime_options = donotlaunch\n"), is: func(l *line.Line) { l.DryRun = true }},
		{line: "a", world: in("yes", "", pmix5, "map_by = :oversubscribe\nbtl = self\n"), is: all(env("OMPI_MCA_btl=self"), func(l *line.Line) { l.Oversubscribe = true })},
		{line: "a", world: in("yes", "PMIX_MCA_mca_base_param_files=/s/p", pmix5, "btl = self\n", "/s/p", "btl = tcp\n"), is: env("OMPI_MCA_btl=tcp")},
		{line: "a", world: in("yes", "OMPI_MCA_btl=sm", pmix5, "btl = self\n")},
		{line: "a", world: in("no", "", user5, "rmaps_default_mapping_policy = :oversubscribe\n")},
		{line: "a", world: in("", "", user5, "rmaps_default_mapping_policy = :oversubscribe\n", user4, "orte_tag_output = 1\n"), is: all(tagged, func(l *line.Line) { l.Oversubscribe = true })},
		{line: "a", world: in("no", "OMPI_MCA_map_by=:oversubscribe OMPI_MCA_display=map")},
	})
	refuse(t, line.OpenMPI, []refusal{
		{line: "a", world: in("no", "", user4, "\nrmaps_base_mapping_policy = bogus\n"), says: user4 + " line 2: parameter rmaps_base_mapping_policy: "},
		{line: "a", world: in("no", "", user4, "ras_base_multiplier = 2\n"), says: user4 + " line 1: parameter ras_base_multiplier is not done: ranks run on hosts that there are"},
		{line: "a", world: in("no", "OMPI_MCA_ras_simulator_num_nodes=4"), says: "OMPI_MCA_ras_simulator_num_nodes: parameter ras_simulator_num_nodes is not done"},
		{line: "--mca ras_base_multiplier 2 a", world: in("no", ""), says: "--mca: parameter ras_base_multiplier is not done"},
		{line: "--prtemca ras_base_multiplier 2 a", world: in("yes", ""), says: "--prtemca: parameter ras_base_multiplier is not done"},
	})
}

// A file of a stranger's costs little, and few words.
func TestHugeFilesOfParameters(t *testing.T) {
	const file = "/home/u/.openmpi/mca-params.conf"
	for name, text := range map[string]string{"no parameters": strings.Repeat("x\n", 500_000), "parameters": manyParams(200_000)} {
		l, err := Parse(line.OpenMPI, []string{"a"}, world{env: "HOME=/home/u", found: map[string]string{file: text}, five: "no"}.outside())
		if err != nil || len(l.Warnings) == 0 || len(l.Warnings) > maxWrongParams+1 {
			t.Errorf("%s: %v, %d warnings", name, err, len(l.Warnings))
		}
	}
}

// manyParams sets so many parameters of the launcher.
func manyParams(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "orte_p%d = 1\n", i)
	}
	return b.String()
}

// Hosts that files name where the command line names none.
func TestDefaultHosts(t *testing.T) {
	const user4, default4 = "/home/u/.openmpi/mca-params.conf", "/etc/openmpi/openmpi-default-hostfile"
	files := map[string]string{"/h": "w0 slots=2\nw1 slots=2\n"}
	otherwise := func(from, text string) func(*line.Line) {
		return func(l *line.Line) { l.Otherwise, l.OtherwiseFrom = entries(t, text), from }
	}
	read(t, line.OpenMPI, []reading{
		{line: "a", world: world{env: "HOME=/home/u", files: files, found: map[string]string{user4: "orte_default_hostfile = /h\n"}}, is: hosts(t, "w0:2 w1:2")},
		{line: "-H w9 a", world: world{env: "HOME=/home/u", files: files, found: map[string]string{user4: "orte_default_hostfile = /h\n"}}, is: hosts(t, "w9:1")},
		{line: "a", world: world{env: "HOME=/home/u OMPI_MCA_orte_default_hostfile=/o", files: files, found: map[string]string{user4: "orte_default_hostfile = /h\n"}}},
		{line: "a", world: world{env: "OMPI_MCA_orte_default_dash_host=w0:2"}, is: hosts(t, "w0:2")},
		{line: "-H w9 a", world: world{env: "OMPI_MCA_orte_default_dash_host=w0:2"}, is: hosts(t, "w9:1")},
		{line: "a", world: world{found: map[string]string{default4: "# none\n\nw0 slots=2\nw1\n"}}, is: otherwise(default4, "w0:2 w1")},
		{line: "-H w9 a", world: world{found: map[string]string{default4: "w0\n"}}, is: hosts(t, "w9:1")},
		{line: "--map-by seq a", world: world{found: map[string]string{default4: "w1\nw0\nw1\n"}}, is: func(l *line.Line) {
			l.Otherwise, l.OtherwiseFrom = entries(t, "w1:2 w0"), default4
			l.Binding.Map.Policy = "seq"
			l.Binding.Lines = []layout.Line{{Host: "w1", At: 1}, {Rank: 1, Host: "w0", At: 2}, {Rank: 2, Host: "w1", At: 3}}
			l.Contexts[0].N = 3
		}},
		{line: "a", world: world{found: map[string]string{default4: "# Debian's\n#\n"}}},
		{line: "a", world: world{five: "yes", prefix: "/opt/o", found: map[string]string{default4: "w0\n", "/opt/o/etc/prte-default-hostfile": "w1\n"}},
			is: otherwise("/opt/o/etc/prte-default-hostfile", "w1")},
		{line: "a", world: world{five: "no", prefix: "/usr/lib64/openmpi", found: map[string]string{"/etc/openmpi-x86_64/openmpi-default-hostfile": "w1\n"}},
			is: otherwise("/etc/openmpi-x86_64/openmpi-default-hostfile", "w1")},
	})
	refuse(t, line.OpenMPI, []refusal{
		{line: "a", world: world{found: map[string]string{default4: "w0 slots=x\n"}}, says: default4 + " line 1"},
		{line: "a", world: world{env: "HOME=/home/u", found: map[string]string{user4: "orte_default_hostfile = /nowhere\n"}}, says: "/nowhere"},
	})
}

// What a machine without hardware threads cannot show.
func TestParametersOfCPUs(t *testing.T) {
	read(t, line.OpenMPI, []reading{
		{line: "a", world: world{env: "OMPI_MCA_hwloc_base_use_hwthreads_as_cpus=1"}, is: func(l *line.Line) { l.Binding.HWThreads = true }},
		{line: "a", world: world{env: "PRTE_MCA_hwloc_use_hwthreads_as_cpus=1"}, is: func(l *line.Line) { l.Binding.HWThreads = true }},
	})
	rankfile := world{files: map[string]string{"f": "rank 0=w0 slot=1\n"}}
	logical, err := Parse(line.OpenMPI, []string{"--rankfile", "f", "a"}, rankfile.outside())
	if err != nil {
		t.Fatal(err)
	}
	rankfile.env = "OMPI_MCA_rmaps_rank_file_physical=1"
	kernels, err := Parse(line.OpenMPI, []string{"--rankfile", "f", "a"}, rankfile.outside())
	if err != nil {
		t.Fatal(err)
	}
	if same(logical, kernels) {
		t.Error("rmaps_rank_file_physical changes nothing")
	}
	logical.Binding.Lines[0].CPUs = logical.Binding.Lines[0].CPUs.Kernel()
	if !same(logical, kernels) {
		t.Errorf("the kernel's number is %v, not %v", kernels.Binding.Lines[0].CPUs, logical.Binding.Lines[0].CPUs)
	}
}

// Each parameter of a real launcher has a place: it is an option by another name, or a row says what becomes of it. The lists are what ompi_info and
// prte_info say; test/integration compares them with those where they are installed.
func TestEveryParameterOfTheRealOnes(t *testing.T) {
	for version, file := range map[string]string{"4": "params-openmpi4.txt", "5": "params-openmpi5.txt"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Fields(string(text))
		for _, name := range names {
			done := slices.ContainsFunc(LauncherParams(), func(l LauncherParam) bool { return l.isNamed(name) })
			names := slices.ContainsFunc(fileParams, func(f struct{ names, means string }) bool { return slices.Contains(strings.Fields(f.names), name) })
			if row := findOtherParam(name, version); row == nil && !done && !names {
				t.Errorf("Open MPI %s reads parameter %s, and neither mca.go nor params.tsv has it", version, name)
			} else if row != nil && (done || names) && !wild(row, name) {
				t.Errorf("parameter %s has a row and is done", name)
			}
		}
		if len(names) < 200 {
			t.Errorf("%s has %d names alone", file, len(names))
		}
	}
	for _, row := range otherParams() {
		levels := []paramLevel{paramWarned, paramWarnedOff, paramRefused, paramNoEffect, paramOfRanks}
		if row.means == "" || len(row.patterns) == 0 || !slices.Contains(levels, row.level) {
			t.Errorf("the row %+v makes no sense", row)
		}
	}
}

// wild says that a row has a name by a pattern alone.
func wild(row *otherParam, name string) bool { return !slices.Contains(row.patterns, name) }
