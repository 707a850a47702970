package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/cmd/mpiup/install"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/typed"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/spf13/pflag"
)

// native is the value of --mpi and MPIUP_MPI that asks for the image's own launcher: it is executed
// in this process's place and reaches the hosts by mpiup under ssh's name, so ranks are started by the
// daemons of that launcher, and signals and exit codes are its.
const native = "native"

// nativeNames are other names of a family's launcher, for images in which mpiup has taken the usual one.
var nativeNames = map[line.Family][]string{
	line.OpenMPI: {"mpirun", "mpirun.openmpi", "mpiexec.openmpi", "orterun", "prterun"},
	line.Hydra:   {"mpiexec.hydra", "mpirun", "mpiexec", "mpirun.mpich", "mpiexec.mpich"},
}

// nativeMpirun executes the launcher of that name that stands behind ours on PATH, with our words.
func (p *process) nativeMpirun(name string, args []string, dir string) error {
	decided, err := mpirun.Decide(name, args, p.lookup, p.libraries(dir))
	family := decided.Family
	path, _ := p.behind(name, dir, "")
	if path == "" {
		if err != nil {
			return err
		}
		if path = p.launcherOf(family, dir); path == "" {
			return p.noNative(family)
		}
	}
	// What only that launcher understands is its own business.
	if l, wrong := mpirun.Parse(family, args, p.outsideOfLauncher(name, dir, p.libraries(dir))); err == nil && wrong == nil && len(l.Contexts) > 0 {
		s := p.sources(l.Entries)
		s.Otherwise, s.OtherwiseFrom = l.Otherwise, l.OtherwiseFrom
		s.Sizeless, s.Said = true, hereAlone(l.Entries)
		if err := s.Readable(); err != nil {
			return err
		}
		if set, err := s.Static(); err == nil {
			if err := s.Fewer(set); err != nil {
				return &exitError{job.ExitHosts, err}
			}
		}
	}
	return p.execNative(path, args, nil)
}

// nativeRun executes the image's own launcher for a command line of mpiup run.
func (p *process) nativeRun(f *cli.RunFlags, given *pflag.FlagSet, apps []job.App, unsent []typed.Variable, dir string) error {
	if f.Explain > 0 {
		return usage(errors.New("with --mpi native (MPIUP_MPI) another launcher makes the ranks' environment; mpiup env shows mpiup's own: say another --mpi"))
	}
	family := mpirun.FamilyOf(p.libraries(dir)(apps[0].Argv))
	if family == "" {
		family = line.OpenMPI
		if p.launcherOf(family, dir) == "" {
			family = line.Hydra
		}
	}
	path := p.launcherOf(family, dir)
	if path == "" {
		return p.noNative(family)
	}
	entries, err := f.EntriesOr("MPIUP_HOSTS", p.getenv("MPIUP_HOSTS"))
	if err != nil {
		return usage(err)
	}
	s := p.sources(entries)
	s.Size = f.Size
	if err := s.Readable(); err != nil {
		return usage(err)
	}
	set, err := s.Static()
	if err != nil {
		return usage(err)
	}
	if err := s.Fewer(set); err != nil {
		return &exitError{job.ExitHosts, err}
	}
	if entries == nil && (f.Size > 0 || p.operatorsFile() == "") {
		entries = set.Entries()
	}
	if family != line.Hydra && set != nil { // whose launcher hands all over
		tellKept(p.stderr, unsent)
	}
	args, env, err := f.Native(family == line.Hydra, given, apps, entries)
	if err != nil {
		return usage(err)
	}
	// Root may run what an agent runs as; there is no flag of mpiup's to say it with.
	env = append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	return p.execNative(path, args, env)
}

func (p *process) noNative(family line.Family) error {
	return &exitError{job.ExitExec, fmt.Errorf("%s's own launcher is not on PATH, or only mpiup by its name: "+
		"put its directory there, or leave --mpi native (MPIUP_MPI) out", family)}
}

// launcherOf is the path of a family's own launcher; "" where there is none.
func (p *process) launcherOf(family line.Family, dir string) string {
	for _, name := range nativeNames[family] {
		if path, ok := p.behind(name, dir, family); ok {
			return path
		}
	}
	return ""
}

// behind is the first program of a name on PATH that is not mpiup, and of the family if one is named.
func (p *process) behind(name, dir string, family line.Family) (path string, ok bool) {
	for _, path := range foundOnPath(p, name, dir) {
		if !install.Ours(path) && (family == "" || kindOfLauncher(path) == family) {
			return path, true
		}
	}
	return "", false
}

// maxLauncher is how much of a launcher is looked through, in bytes.
const maxLauncher = 16 << 20

// kindOfLauncher tells whose launcher a program or script is, by what it says of itself; "" for none.
func kindOfLauncher(path string) line.Family {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLauncher))
	if err != nil {
		return ""
	}
	for _, sign := range []struct {
		of    line.Family
		words []string
	}{
		{line.OpenMPI, []string{"libopen-rte", "libprrte", "prterun", "orterun", "ompirun"}},
		{line.Hydra, []string{"HYDRA", "hydra"}},
	} {
		for _, w := range sign.words {
			if bytes.Contains(text, []byte(w)) {
				return sign.of
			}
		}
	}
	return ""
}

// operatorsFile is the operators' hostfile, as a launcher is told of it; "" where there is none.
func (p *process) operatorsFile() string {
	for _, name := range []string{"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"} {
		if v := p.getenv(name); v != "" {
			return v
		}
	}
	const mounted = "/etc/mpi/hostfile"
	if _, err := hostlist.ReadFile(mounted, hostlist.Own); err == nil {
		return mounted
	}
	return ""
}

// execNative replaces this process by the launcher. It returns only when that fails.
func (p *process) execNative(path string, args, more []string) error {
	ssh, err := sshName(p)
	if err != nil {
		return &exitError{job.ExitOutput, fmt.Errorf("a link for the name ssh: %w; set TMPDIR to a directory that can be written", err)}
	}
	env := line.Distinct(slices.Concat(p.env, more, []string{"MPIUP_MPI=" + native, "PATH=" + filepath.Dir(ssh) + ":" + p.getenv("PATH")}))
	file := p.operatorsFile()
	for _, d := range []struct{ name, value string }{
		// What is executed as ssh HOST COMMAND. Open MPI takes the first ssh on PATH, and must not be told
		// the path, which its daemons would look for on the hosts.
		{"HYDRA_LAUNCHER", "ssh"}, {"HYDRA_LAUNCHER_EXEC", ssh},
		{"I_MPI_HYDRA_BOOTSTRAP", "ssh"}, {"I_MPI_HYDRA_BOOTSTRAP_EXEC", ssh},
		// The operators tell Open MPI 4 alone.
		{"OMPI_MCA_orte_default_hostfile", file}, {"PRTE_MCA_prte_default_hostfile", file},
		{"HYDRA_HOST_FILE", file},
	} {
		if _, set := p.lookup(d.name); !set && d.value != "" {
			env = append(env, d.name+"="+d.value)
		}
	}
	return become(append([]string{path}, args...), env)
}

// become replaces this process by a program. It returns only when that fails.
func become(argv, env []string) error {
	err := syscall.Exec(argv[0], argv, env)
	return &exitError{job.ExitExec, fmt.Errorf("%s: %w", argv[0], err)}
}

// sshName is the path of a program called ssh that is this one: beside it, where an image has the
// names, else a link in the directory for this user's records.
func sshName(p *process) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if beside := filepath.Join(filepath.Dir(self), "ssh"); install.Ours(beside) {
		return beside, nil
	}
	dir := filepath.Join(host.RunDir(p.getenv("TMPDIR"), os.Getuid()), "bin")
	path := filepath.Join(dir, "ssh")
	if err := host.MakeRunDir(dir); err != nil {
		return "", err
	}
	if to, err := os.Readlink(path); err == nil && to == self {
		return path, nil
	}
	if err := install.Link(dir, "ssh", self); err != nil {
		return "", err
	}
	if strings.ContainsAny(path, " \t") { // Open MPI splits its agent's command there
		return "", fmt.Errorf("%s has a blank in it", path)
	}
	return path, nil
}
