package mpilib

import (
	"fmt"
	"path"
	"strings"

	"github.com/mpiup/mpiup/agent/mpilib/script"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// Choice is the protocol that a program's ranks need, and how it was found out.
type Choice struct {
	Protocol job.Protocol // PMI1 or PMIx
	Library  string       // "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"; "" none was found
	Sure     bool         // the command runs a program that needs Library, as far as one can see
	Mention  bool         // Sure is said of a script because it names a package that loads Library; it may not come to that
	First    string       // what a program that the command runs is linked with, and must be loaded before any other library: ASan's runtime; "": none
	Why      string       // the end of "..., since "
	Horovod  bool         // a Python that the command runs has the package horovod
	Shards   bool         // its processes are told apart on purpose, by a variable with a rank in it, and meet nowhere that shows
	Torch    string       // version of the package torch of a Python that the command runs, "2.6.0+cu124"; "": none
	NCCL     string       // version of the NCCL that it would load, "2.20.5"; "": unknown
	OldHwloc bool         // the program has, or may have, hwloc 1, which cannot read hwloc 2's XML
}

// choose makes a choice of what was found for a command. Its texts are for a terminal, and what they
// name may be anything.
func (k *look) choose(c command, h hit) Choice {
	choice := k.settle(c, h)
	choice.Library, choice.Why, choice.First = printable(choice.Library), printable(choice.Why), printable(k.first)
	choice.OldHwloc, choice.Horovod, choice.NCCL = k.hwloc.isOld(h.mpi, k.ldCache()), k.horovod, k.nccl.of(c, k.files, k.ldCache())
	choice.Torch = printable(k.torch)
	choice.Shards = shards(c.Argv, k.said)
	return choice
}

// printable is a text in one line of bearable length.
func printable(s string) string {
	const most = 400
	cut := len(s) > most
	if s = visible.Line(s[:min(len(s), most)]); len(s) > most { // an escape is longer than what it shows
		s, cut = strings.ToValidUTF8(s[:most], ""), true
	}
	if cut {
		s += "..."
	}
	return s
}

func (k *look) settle(c command, h hit) Choice {
	if !h.found() {
		return k.guess(c)
	}
	choice := Choice{Protocol: h.mpi.protocol(), Sure: h.sure, Mention: h.mention}
	if h.mpi.family != pmixClient && h.mpi.family != pmiClient {
		choice.Library = h.mpi.String()
	}
	who := "it"
	if exe := k.Resolve(c.Argv[0], c.Env, c.Dir); h.program != exe {
		who = h.program + ", which it runs,"
	}
	if h.module != "" {
		who = h.module + " of " + h.program
	}
	choice.Why = who + " loads " + h.mpi.String()
	if h.mpi.static {
		choice.Why = fmt.Sprintf("%s has %s in it", strings.TrimSuffix(who, ","), familyNames[h.mpi.family])
	}
	if p, name := wish(h.mpi.family, c.Env); name != "" && p != choice.Protocol {
		choice.Protocol = p
		choice.Why += ", and " + name + " asks for " + p.String()
	}
	return choice
}

// wish is the protocol that the user's environment asks a library to speak, and the variable that does; "": none does.
func wish(f family, e script.Env) (p job.Protocol, name string) {
	var names []string
	switch f {
	case intelMPI:
		names = []string{"I_MPI_PMI", "I_MPI_PMI_LIBRARY"}
	case mpich, mvapich:
		names = []string{"MPIR_CVAR_PMI_VERSION", "MPICH_PMI_VERSION"}
	}
	for _, name := range names {
		switch v := strings.ToLower(path.Base(e.Get(name))); {
		case v == "x", strings.Contains(v, "pmix"):
			return job.PMIx, name
		case v == "1", v == "2", v == "pmi1", v == "pmi2", pmiLibrary().MatchString(v):
			return job.PMI1, name
		}
	}
	return 0, ""
}

// homes are variables that point at an MPI installation, of a family where it is not 0.
var homes = []struct {
	name   string
	family family
}{{"MPI_HOME", 0}, {"MPI_ROOT", 0}, {"MPI_DIR", 0}, {"OPAL_PREFIX", openMPI}, {"OMPI_DIR", openMPI}, {"EBROOTOPENMPI", openMPI},
	{"I_MPI_ROOT", intelMPI}, {"MPICH_HOME", mpich}, {"MPICH_DIR", mpich}, {"EBROOTMPICH", mpich}, {"EBROOTIMPI", intelMPI}}

// guess chooses where no library was found. It goes by the name and the options that the run was started with, what the environment points at,
// what else says whose the command line is, what mpirun on PATH is, the only MPI the loader knows, whose parameters the ranks are given; else
// PMI-1, which more libraries speak, and without which those that do not need it come to no harm.
func (k *look) guess(c command) Choice {
	program := c.Argv[0]
	none := "no MPI library was found in " + program
	by := func(f family, why string) Choice {
		return Choice{Protocol: library{family: f}.protocol(), Why: none + ", and " + why + " " + familyNames[f] + "'s"}
	}
	told := Choice{Protocol: k.guessed.Protocol, Why: none + ", and " + k.guessed.Why}
	if k.guessed.Firm {
		return told
	}
	for _, h := range homes {
		root := c.Env.Get(h.name)
		if root == "" {
			continue
		}
		if h.family != 0 {
			return by(h.family, h.name+" is")
		}
		for _, lib := range []string{"lib", "lib64", "lib/release"} {
			if f := k.familyIn(path.Join("/", root, lib)); f != noFamily {
				return by(f, h.name+"="+root+" is")
			}
		}
	}
	for _, dir := range strings.Split(c.Env.Get("LD_LIBRARY_PATH"), ":") {
		if dir == "" {
			continue
		}
		if f := k.familyIn(script.Absolute(c.Dir, dir)); f != noFamily {
			return by(f, dir+" on LD_LIBRARY_PATH is")
		}
	}
	if k.guessed.Why != "" {
		return told
	}
	for _, name := range []string{"mpirun", "mpiexec"} {
		if exe := k.Resolve(name, c.Env, c.Dir); exe != "" {
			if f := k.launcher(exe); f != noFamily {
				return by(f, exe+" is")
			}
		}
	}
	ompi, others := k.ldCache().find("libmpi.so.40"), append(k.ldCache().find("libmpich.so.12"), k.ldCache().find("libmpi.so.12")...)
	if len(ompi) > 0 && len(others) == 0 {
		return by(openMPI, "the only one here is")
	}
	if c.Env.Get(anyMCA) != "" {
		return by(openMPI, "parameters are given (OMPI_MCA_*) that are")
	}
	return Choice{Protocol: job.PMI1, Why: none}
}

// familyIn is the MPI whose libraries lie in a directory.
func (k *look) familyIn(dir string) family {
	for _, name := range []string{"libmpi.so.40", "libmpi.so.12", "libmpich.so.12"} {
		if k.files.stat(path.Join(dir, name)).regular() {
			return byName(name).family
		}
	}
	return noFamily
}

// launcher is the MPI that an mpirun belongs to, by its real name or what it loads: orterun and
// prterun are Open MPI's, mpiexec.hydra is MPICH's.
func (k *look) launcher(exe string) family {
	name := path.Base(k.files.real(exe))
	switch {
	case strings.Contains(name, "orterun"), strings.Contains(name, "prterun"), strings.Contains(name, "openmpi"):
		return openMPI
	case strings.Contains(name, "hydra"), strings.Contains(name, "mpich"):
		return mpich
	}
	o, err := k.files.openObject(exe)
	if err != nil {
		return noFamily
	}
	defer o.close()
	for _, n := range o.Needed {
		if strings.HasPrefix(n, "libopen-rte.") || strings.HasPrefix(n, "libprrte.") || strings.HasPrefix(n, "libopen-pal.") {
			return openMPI
		}
	}
	return noFamily
}
