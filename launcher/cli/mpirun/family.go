package mpirun

import (
	"fmt"
	"path"
	"strings"
)

// Decide finds whose command line args is, and says why. In this order: MPIUP_FAMILY (openmpi or
// hydra), the name the launcher was called by, an option that only one family has, the variables
// that an operator set for one, the MPI library of the program (ofProgram; "" when it has none or
// none was found), else Open MPI, whose line is the commonest.
func Decide(name string, args []string, lookup func(string) (string, bool), ofProgram func(argv []string) Family) (Family, string, error) {
	if v, ok := lookup("MPIUP_FAMILY"); ok {
		switch strings.ToLower(v) {
		case "openmpi", "ompi":
			return OpenMPI, "MPIUP_FAMILY says so", nil
		case "hydra", "mpich", "intel":
			return Hydra, "MPIUP_FAMILY says so", nil
		}
		return "", "", fmt.Errorf("MPIUP_FAMILY is %.40q; set it to openmpi or hydra", v)
	}
	switch base := path.Base(name); base {
	case "orterun", "prterun", "mpirun.openmpi", "mpiexec.openmpi":
		return OpenMPI, "it is called " + base, nil
	case "mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich":
		return Hydra, "it is called " + base, nil
	}
	option, family, program := telling(args)
	if family != "" {
		return family, "only " + string(family) + " has " + option, nil
	}
	for _, v := range []struct {
		name string
		of   Family
	}{
		{"OMPI_MCA_orte_default_hostfile", OpenMPI}, {"PRTE_MCA_prte_default_hostfile", OpenMPI},
		{"I_MPI_HYDRA_HOST_FILE", Hydra}, {"HYDRA_HOST_FILE", Hydra},
	} {
		if value, ok := lookup(v.name); ok && value != "" {
			return v.of, v.name + " is set", nil
		}
	}
	if len(program) > 0 && ofProgram != nil {
		if f := ofProgram(program); f != "" {
			return f, "its library is what " + program[0] + " needs", nil
		}
	}
	return OpenMPI, "nothing says otherwise", nil
}

// telling is the first option that only one family has, and the first program's words.
func telling(args []string) (option string, family Family, program []string) {
	ompi, hydra := index(tableOf(OpenMPI)), index(tableOf(Hydra))
	for more := true; more; {
		var words []string
		words, args, more = cut(args)
		option, family, words = tellingOf(words, ompi, hydra)
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
func tellingOf(words []string, ompi, hydra table) (option string, family Family, program []string) {
	for len(words) > 0 {
		word := words[0]
		if len(word) < 2 || word[0] != '-' {
			return "", "", words
		}
		if word == "--" {
			return "", "", words[1:]
		}
		name, _, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
		o, h := ompi[name], hydra[name]
		switch {
		case h == nil && o != nil:
			return word, OpenMPI, nil
		case o == nil && h != nil:
			return word, Hydra, nil
		case o == nil || o.args != h.args:
			return "", "", nil
		}
		take := 1 + o.args
		if joined {
			take = max(o.args, 1)
		}
		words = words[min(take, len(words)):]
	}
	return "", "", nil
}

// VersionText is what --version prints: tools look for the family's words in it (Horovod,
// Accelerate).
func VersionText(f Family, name, mpiup string) string {
	if f == Hydra {
		return fmt.Sprintf("HYDRA build details:\n    Version:                                 4.2.1 (mpiup %s)\n    Process Manager:                         mpiup\n", mpiup)
	}
	what := "Open MPI"
	if base := path.Base(name); base == "mpirun.openmpi" || base == "orterun" {
		what = "OpenRTE"
	}
	return fmt.Sprintf("%s (%s) 4.1.6 (mpiup %s)\n\nReport bugs to https://github.com/mpiup/mpiup/issues\n", path.Base(name), what, mpiup)
}

// HelpText is what --help prints.
func HelpText(f Family, name string) string {
	return fmt.Sprintf(`%s (mpiup), read as %s's

Usage: %[1]s [options] program [args] [: [options] program [args]] ...

docs/mpirun.md lists the options and what they mean here:
https://github.com/mpiup/mpiup/blob/main/docs/mpirun.md
`, path.Base(name), f)
}
