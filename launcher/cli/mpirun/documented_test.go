package mpirun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/test/golden"
)

// docs/data has every option of both families, and every parameter of Open MPI's launcher.
func TestDocumented(t *testing.T) {
	for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
		var b strings.Builder
		b.WriteString("option\tvalues\tlevel\tfor\tmeaning here\n")
		for _, r := range rowsOf(f) {
			of := "all"
			if r.Local && f == line.OpenMPI {
				of = "each program"
			}
			fmt.Fprintf(&b, "%s\t%d\t%s\t%s\t%s\n", strings.Join(r.Spelled(), " "), r.Args, r.Level, of, r.Means)
		}
		name := map[line.Family]string{line.OpenMPI: "openmpi", line.Hydra: "hydra"}[f]
		golden.Is(t, "../../../docs/data/mpirun-"+name+".tsv", b.String())
	}
	var d strings.Builder
	d.WriteString("launcher\tno host is named\thosts without a number\thosts with a number\tranks per host are asked for\tseveral programs\tsource\n")
	for _, is := range Defaults() {
		fmt.Fprintln(&d, strings.Join([]string{is.Launcher, is.Nowhere, is.Bare, is.Numbered, is.PerHost, is.Several, is.Source}, "\t"))
	}
	golden.Is(t, "../../../docs/data/mpirun-defaults.tsv", d.String())
	var b strings.Builder
	b.WriteString("parameter\tlevel\tOpen MPI\tmeaning here\n")
	for _, l := range LauncherParams() {
		fmt.Fprintf(&b, "%s\tdone\t4 5\t%s\n", l.Names, l.Means)
	}
	for _, f := range fileParams {
		fmt.Fprintf(&b, "%s\tdone\t4 5\t%s\n", f.names, f.means)
	}
	for _, row := range otherParams() {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", strings.Join(row.patterns, " "), row.level, strings.Join(row.versions, " "), row.means)
	}
	for _, framework := range LauncherFrameworks {
		fmt.Fprintf(&b, "%[1]s %[1]s_*\tno effect\t4 5\tany other of the launcher's framework %[1]s\n", framework)
	}
	golden.Is(t, "../../../docs/data/mpirun-parameters.tsv", b.String())

	b.Reset()
	b.WriteString("variable\tlevel\tlauncher\tmeaning here\n")
	for _, row := range hydraVariables() {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", strings.Join(row.names, " "), row.level, strings.Join(row.launchers, " "), row.means)
	}
	golden.Is(t, "../../../docs/data/mpirun-variables.tsv", b.String())
}
