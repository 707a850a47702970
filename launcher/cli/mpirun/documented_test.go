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
	b.WriteString("parameter\tas\n")
	for _, l := range LauncherParams() {
		fmt.Fprintf(&b, "%s\t%s\n", l.Names, l.Means)
	}
	fmt.Fprintf(&b, "%s\tno effect\n", strings.Join(LauncherFrameworks, " "))
	golden.Is(t, "../../../docs/data/mpirun-parameters.tsv", b.String())
}
