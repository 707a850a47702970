package mpirun

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Decide finds whose command line args is, and says why. In this order: MPIUP_FAMILY (openmpi or
// hydra), the name the launcher was called by, an option that only one family has, the variables
// that an operator set for one, the MPI library of the program (as library names it; "" when it has none or
// none was found), else Open MPI, whose line is the commonest.
func Decide(name string, args []string, lookup func(string) (string, bool), library func(argv []string) string) (line.Family, string, error) {
	if v, ok := lookup("MPIUP_FAMILY"); ok {
		switch strings.ToLower(v) {
		case "openmpi", "ompi", "openmpi4", "openmpi5":
			return line.OpenMPI, "MPIUP_FAMILY says so", nil
		case "hydra", "mpich", "intel":
			return line.Hydra, "MPIUP_FAMILY says so", nil
		}
		return "", "", fmt.Errorf("MPIUP_FAMILY is %.40q; set it to openmpi, openmpi4, openmpi5, hydra, mpich or intel", v)
	}
	switch base := path.Base(name); base {
	case "orterun", "prterun", "mpirun.openmpi", "mpiexec.openmpi":
		return line.OpenMPI, "it is called " + base, nil
	case "mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich":
		return line.Hydra, "it is called " + base, nil
	}
	option, family, program := telling(args)
	if family != "" {
		return family, "only " + string(family) + " has " + option, nil
	}
	for _, v := range []struct {
		name string
		of   line.Family
	}{
		{"OMPI_MCA_orte_default_hostfile", line.OpenMPI}, {"PRTE_MCA_prte_default_hostfile", line.OpenMPI},
		{"I_MPI_HYDRA_HOST_FILE", line.Hydra}, {"HYDRA_HOST_FILE", line.Hydra},
	} {
		if value, ok := lookup(v.name); ok && value != "" {
			return v.of, v.name + " is set", nil
		}
	}
	if len(program) > 0 {
		if f := FamilyOf(library(program)); f != "" {
			return f, "its library is what " + program[0] + " needs", nil
		}
	}
	return line.OpenMPI, "nothing says otherwise", nil
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
	return false, "nothing says otherwise"
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

// VersionText is what --version prints: tools look for the family's words in it (Horovod,
// Accelerate). The number is that of the launcher whose rules are followed; five says that these are Open MPI 5's.
func VersionText(f line.Family, five bool, name, mpiup string) string {
	if f == line.Hydra {
		return fmt.Sprintf("HYDRA build details:\n    Version:                                 4.2.1 (mpiup %s)\n    Process Manager:                         mpiup\n", mpiup)
	}
	what, number := "Open MPI", "4.1.6"
	if base := path.Base(name); base == "mpirun.openmpi" || base == "orterun" {
		what = "OpenRTE"
	}
	if five {
		what, number = "Open MPI", "5.0.7"
	}
	return fmt.Sprintf("%s (%s) %s (mpiup %s)\n\nReport bugs to https://github.com/mpiup/mpiup/issues\n", path.Base(name), what, number, mpiup)
}
