package mpirun

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Evidence is what says whose a command line is, the weakest first.
type Evidence int

// Kinds of evidence.
const (
	ByDefault   Evidence = iota // nothing says so
	ByInstalled                 // a variable that points at an installation
	ByLibrary                   // the library of the program, as this host's files show it
	ByOperator                  // a variable that an operator sets for one family
	ByUser                      // MPIUP_FAMILY, the launcher's name, an option
)

// Decision is whose command line one is.
type Decision struct {
	line.Family
	By  Evidence
	Why string // the end of a sentence, "it is called mpiexec.hydra"
}

// ownNames are names by which only one family's launcher is called.
var ownNames = map[string]line.Family{
	"orterun": line.OpenMPI, "prterun": line.OpenMPI,
	"mpirun.openmpi": line.OpenMPI, "mpiexec.openmpi": line.OpenMPI, // Debian's, and conda's for 5: of prte
	"mpiexec.hydra": line.Hydra, "mpirun.mpich": line.Hydra, "mpiexec.mpich": line.Hydra,
}

// ofOperators are variables that an operator sets for one family.
var ofOperators = []variableOf{
	{"OMPI_MCA_orte_default_hostfile", line.OpenMPI}, {"PRTE_MCA_prte_default_hostfile", line.OpenMPI},
	{"I_MPI_HYDRA_HOST_FILE", line.Hydra}, {"HYDRA_HOST_FILE", line.Hydra},
}

// ofInstalled are variables that the scripts set by which an installation is chosen (Intel's setvars.sh; modules).
var ofInstalled = []variableOf{{"I_MPI_ROOT", line.Hydra}, {"MPICH_HOME", line.Hydra}, {"MPICH_DIR", line.Hydra}}

// variableOf is a variable that belongs to one family.
type variableOf struct {
	name string
	of   line.Family
}

// firstSet is the first of variables that is set, and not to nothing; "": none is.
func firstSet(list []variableOf, lookup func(string) (string, bool)) (first variableOf) {
	for _, v := range list {
		if value, ok := lookup(v.name); ok && value != "" {
			return v
		}
	}
	return variableOf{}
}

// Decide finds whose command line args is, and says why. In this order: MPIUP_FAMILY (openmpi or
// hydra), the name the launcher was called by, an option that only one family has, the variables
// that an operator set for one, the MPI library of the program (as library names it; "" when it has none or
// none was found), a variable that points at one's installation, else Open MPI, whose line is the commonest.
func Decide(name string, args []string, lookup func(string) (string, bool), library func(argv []string) string) (Decision, error) {
	if v, ok := lookup("MPIUP_FAMILY"); ok {
		switch strings.ToLower(v) {
		case "openmpi", "ompi", "openmpi4", "openmpi5":
			return Decision{line.OpenMPI, ByUser, "MPIUP_FAMILY says so"}, nil
		case "hydra", "mpich", "intel":
			return Decision{line.Hydra, ByUser, "MPIUP_FAMILY says so"}, nil
		}
		return Decision{}, fmt.Errorf("MPIUP_FAMILY is %.40q; set it to openmpi, openmpi4, openmpi5, hydra, mpich or intel", v)
	}
	base := path.Base(name)
	if family, known := ownNames[base]; known {
		return Decision{family, ByUser, "it is called " + base}, nil
	}
	option, family, program := telling(args)
	if family != "" {
		return Decision{family, ByUser, "only " + string(family) + " has " + option}, nil
	}
	if v := firstSet(ofOperators, lookup); v.name != "" {
		return Decision{v.of, ByOperator, v.name + " is set"}, nil
	}
	if len(program) > 0 {
		if f := FamilyOf(library(program)); f != "" {
			return Decision{f, ByLibrary, "its library is what " + program[0] + " needs"}, nil
		}
	}
	if v := firstSet(ofInstalled, lookup); v.name != "" {
		return Decision{v.of, ByInstalled, v.name + " is set"}, nil
	}
	return Decision{line.OpenMPI, ByDefault, "nothing says otherwise"}, nil
}

// Guess is what a decision says of a program that shows no MPI library: its ranks are offered what that family's launcher offers.
func (d Decision) Guess() job.Guess {
	if d.By == ByDefault {
		return job.Guess{}
	}
	protocol := job.PMI1
	if d.Family == line.OpenMPI {
		protocol = job.PMIx
	}
	return job.Guess{Protocol: protocol, Firm: d.By == ByUser, Why: fmt.Sprintf("the command line is %s's (%s)", d.Family, d.Why)}
}

// FamilyOf is whose an MPI library is by its name; "" of none.
func FamilyOf(library string) line.Family {
	switch {
	case library == "":
		return ""
	case strings.HasPrefix(library, "Open MPI"):
		return line.OpenMPI
	}
	return line.Hydra
}

// VersionUnknown is why a line is read by the rules of Open MPI 4.1 where nothing says which version it is.
const VersionUnknown = "nothing says otherwise"

// Version finds whether a command line of Open MPI's is mapped, numbered and bound by the rules of Open MPI 5,
// and says why. In this order: MPIUP_FAMILY (openmpi4 or openmpi5), the name prterun, an option or a word
// that Open MPI 4.1 does not know, the library of the program ("Open MPI 5.0.7"), else it is 4.1.
func Version(name string, l *line.Line, lookup func(string) (string, bool), library func(argv []string) string) (five bool, why string) {
	if v, _ := lookup("MPIUP_FAMILY"); strings.EqualFold(v, "openmpi4") || strings.EqualFold(v, "openmpi5") {
		return strings.HasSuffix(v, "5"), "MPIUP_FAMILY says so"
	}
	if path.Base(name) == "prterun" {
		return true, "it is called prterun"
	}
	for _, o := range l.Options {
		if word := ofFive(o); word != "" {
			return true, "Open MPI 4.1 has no " + word
		}
	}
	if len(l.Contexts) > 0 {
		program := l.Contexts[0].Argv
		version, found := strings.CutPrefix(library(program), "Open MPI ")
		major, _, _ := strings.Cut(version, ".")
		if n, err := strconv.Atoi(major); found && err == nil && n > 0 {
			return n >= 5, fmt.Sprintf("%s needs a library of Open MPI %d", program[0], n)
		}
	}
	return false, VersionUnknown
}

// ofFive is the option, or the word in its value, that only Open MPI 5 has; "": there is none.
func ofFive(o line.Option) string {
	option := line.Hyphens(o.Name) + o.Name
	if slices.Contains(onlyFive, o.Name) {
		return option
	}
	if !slices.Contains([]string{"map-by", "bind-to", "binding", "rank-by"}, o.Name) {
		return ""
	}
	for _, word := range []string{"package", "hwtcpus", "corecpus", "pe-list=", "file=", "fill", "inherit"} {
		if strings.Contains(strings.ToLower(o.Values[0]), word) {
			return option + " " + o.Values[0]
		}
	}
	return ""
}

// onlyFive are options of Open MPI 5 that 4.1 does not have.
var onlyFive = []string{"display", "output", "runtime-options", "rtos", "prtemca", "gprtemca", "omca", "gomca", "pmixmca", "gpmixmca"}

// telling is the first option that only one family has, and the first program's words.
func telling(args []string) (option string, family line.Family, program []string) {
	ours, theirs := line.Index(rowsOf(line.OpenMPI)), line.Index(rowsOf(line.Hydra))
	for more := true; more; {
		var words []string
		words, args, more = line.Cut(args)
		option, family, words = tellingOf(words, ours, theirs)
		if program == nil {
			program = words
		}
		if family != "" || len(words) == 0 {
			break
		}
	}
	return option, family, program
}

// tellingOf is telling for one program. No program is returned where an option is nobody's, or
// where it cannot be known how many words belong to it.
func tellingOf(words []string, ompi, mpich map[string]*line.Row) (option string, family line.Family, program []string) {
	for len(words) > 0 {
		word := words[0]
		if len(word) < 2 || word[0] != '-' {
			return "", "", words
		}
		if word == "--" {
			return "", "", words[1:]
		}
		name, _, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
		o, h := ompi[name], mpich[name]
		switch {
		case h == nil && o != nil:
			return word, line.OpenMPI, nil
		case o == nil && h != nil:
			return word, line.Hydra, nil
		case o == nil || o.Args != h.Args:
			return "", "", nil
		}
		take := 1 + o.Args
		if joined {
			take = max(o.Args, 1)
		}
		words = words[min(take, len(words)):]
	}
	return "", "", nil
}

// OnlyFamily is the family of which all installed libraries are; "": they are of both, or there are none.
func OnlyFamily(installed []string) (only line.Family) {
	for _, name := range installed {
		family := FamilyOf(name)
		if only != "" && family != only {
			return ""
		}
		only = family
	}
	return only
}

// Installed is the library of a family that is installed, of several Intel's where a variable points at that, else the first; "": there is none.
func Installed(f line.Family, installed []string, intel bool) (library string) {
	for _, name := range installed {
		switch {
		case FamilyOf(name) != f:
		case intel && strings.HasPrefix(name, intelMPI):
			return name
		case library == "":
			library = name
		}
	}
	return library
}

// intelMPI begins the names of Intel MPI's libraries.
const intelMPI = "Intel MPI"

// versionOf is the number in a library's name, "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"; "" where it has none.
func versionOf(library string) string {
	name, _, _ := strings.Cut(library, " (")
	last := name[strings.LastIndexByte(name, ' ')+1:]
	if last == "" || last[0] < '0' || last[0] > '9' {
		return ""
	}
	return last
}

// VersionText is what --version prints: tools look for the family's words in it (Horovod,
// Accelerate). The number is that of the library that is installed, as that library's own launcher has it; without one it is that of the launcher
// whose rules are followed. five says that these are Open MPI 5's.
func VersionText(f line.Family, five bool, name, library, mpiup string) string {
	number := versionOf(library)
	switch {
	case f == line.Hydra && strings.HasPrefix(library, intelMPI):
		if number != "" {
			number = " " + number
		}
		return fmt.Sprintf("Intel(R) MPI Library for Linux* OS, Version%s (mpiup %s)\nReport bugs to https://github.com/mpiup/mpiup/issues\n", number, mpiup)
	case f == line.Hydra:
		return fmt.Sprintf("HYDRA build details:\n    Version:                                 %s (mpiup %s)\n    Process Manager:                         mpiup\n",
			cmp.Or(number, "4.2.1"), mpiup)
	}
	what, own := "Open MPI", "4.1.6"
	if base := path.Base(name); base == "mpirun.openmpi" || base == "orterun" {
		what = "OpenRTE"
	}
	if five {
		what, own = "Open MPI", "5.0.7"
	}
	if major, _, _ := strings.Cut(own, "."); number == "" || !strings.HasPrefix(number, major+".") {
		number = own // the rules are another version's
	}
	return fmt.Sprintf("%s (%s) %s (mpiup %s)\n\nReport bugs to https://github.com/mpiup/mpiup/issues\n", path.Base(name), what, number, mpiup)
}
