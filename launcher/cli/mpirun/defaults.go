package mpirun

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Default is how many ranks a launcher starts of a program that has no number of them, by what is known of the hosts.
type Default struct {
	Launcher string
	Nowhere  string // no host is named: this machine
	Bare     string // hosts are named without a number
	Numbered string // hosts have a number, "w0:4"
	PerHost  string // ranks per host are asked for, "-ppn 2", "-npernode 2"
	Several  string // several programs, "a : b"
	Source   string // where the launcher's own source says so, and the versions that were tried

	// byCores says that a host takes as many ranks at a time as it has cores, whatever its number, where there is one
	// program. Else numbers count, and a host without one takes 1.
	byCores bool
	// machinefileCounts says that numbers of a -machinefile count, before ranks per host and cores.
	machinefileCounts bool
}

// Defaults are those of all launchers whose names mpiup goes by. docs/data/mpirun-defaults.tsv has them.
func Defaults() []Default { return []Default{openMPIDefault, mpichDefault, intelDefault} }

var (
	openMPIDefault = Default{
		Launcher: "Open MPI 4.1 and 5",
		Nowhere:  "one a core; here one a usable CPU, or GPU if those are more",
		Bare:     "one a mention of a list; of a file as many as the host has cores, here CPUs or GPUs",
		Numbered: "the sum of the numbers",
		PerHost:  "so many on each host, of each program",
		Several:  "each needs its own number, unless ranks per host are asked for",
		Source: "orte_rmaps_rr_map of orte/mca/rmaps/round_robin/rmaps_rr.c, orte/mca/rmaps/ppr; prte_rmaps_base_map_job of PRRTE 3; " +
			"tried with 4.1.4 and 5.0.8",
	}
	mpichDefault = Default{
		Launcher: "MPICH and MVAPICH (Hydra)",
		Nowhere:  "one",
		Bare:     "one a host",
		Numbered: "the sum of the numbers",
		PerHost:  "so many on each host, whatever its number",
		Several:  "each as many as it would have alone",
		Source:   "global_core_count where -n is absent or 0, src/pm/hydra/mpiexec/mpiexec.c; tried with 4.0.2 and 5.0.2",
	}
	intelDefault = Default{
		Launcher: "Intel MPI",
		Nowhere:  "one a core",
		Bare:     "one a core; of a -machinefile one a host",
		Numbered: "one a core, whatever the numbers; the sum of them with -machinefile or several programs",
		PerHost:  "so many on each host, whatever its number; without effect with -machinefile",
		Several:  "each the sum of the numbers, of a host without one 1",
		Source:   "I_MPI_PERHOST=allcores is the default (Developer Reference, Hydra Environment Variables); tried with 2021.18",

		byCores: true, machinefileCounts: true,
	}
)

// onlyIntel are options of Intel MPI's mpiexec that MPICH's does not have.
var onlyIntel = []string{"perhost", "rr", "grr", "hosts-group", "gtool", "gtoolfile", "nolocal", "print-rank-map", "ordered-output", "ilp64", "v6",
	"trace", "t", "mps", "aps", "tune", "path", "umask", "genvexcl", "envexcl", "silent-abort", "cleanup"}

// variablesOfIntel are set by the operators for Intel MPI, by users for its launcher, and by its own script.
var variablesOfIntel = []string{"I_MPI_HYDRA_HOST_FILE", "I_MPI_PERHOST", "I_MPI_ROOT"}

// Intel finds whether a command line of Hydra's is Intel MPI's, and says why. In this order: MPIUP_FAMILY (intel or
// mpich), an option that MPICH does not have, the library of the program, variables of Intel MPI's, else it is MPICH's.
func Intel(l *line.Line, lookup func(string) (string, bool), library func(argv []string) string) (intel bool, why string) {
	family, _ := lookup("MPIUP_FAMILY")
	switch strings.ToLower(family) {
	case "intel", "mpich":
		return strings.EqualFold(family, "intel"), "MPIUP_FAMILY says so"
	}
	for _, o := range l.Options {
		if slices.Contains(onlyIntel, strings.ToLower(o.Name)) {
			return true, "MPICH has no " + o.Words[0]
		}
	}
	for _, c := range l.Contexts {
		if is := library(c.Argv); is != "" && FamilyOf(is) == line.Hydra {
			return strings.HasPrefix(is, "Intel MPI"), c.Argv[0] + " needs a library of that kind"
		}
	}
	for _, name := range variablesOfIntel {
		if v, _ := lookup(name); v != "" {
			return true, name + " is set"
		}
	}
	return false, "nothing says otherwise"
}

// AsIntel makes a line one of Intel MPI's, with the hosts' shares as that deals them out.
func AsIntel(l *line.Line) error {
	of := intelDefault
	l.ByCores = of.byCores && len(l.Contexts) <= 1
	for _, o := range l.Options {
		switch name := strings.ToLower(o.Name); {
		case (name == "n" || name == "np") && o.Values[0] == "0":
			return fmt.Errorf("%s: %w", strings.Join(o.Words, " "), errors.New("Intel MPI takes no 0; leave it out for as many ranks as the hosts have room for"))
		case name == "machinefile" && of.machinefileCounts:
			l.ByCores, l.PerHost = false, 0
		}
	}
	return nil
}
