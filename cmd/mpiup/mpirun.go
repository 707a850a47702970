package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/launcher/cli/training"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
)

func launcherApplet(name string, run func(p *process, args []string) error) func(p *process, args []string) int {
	return func(p *process, args []string) int {
		p.relaxGC()
		err := upByVariable(p)
		if err == nil {
			err = run(p, args)
		}
		if err == nil {
			return p.code
		}
		code := job.ExitUsage
		var ended *exitError
		if errors.As(err, &ended) {
			code, err = ended.code, ended.err
		}
		tell(p.stderr, name+" (mpiup):", err)
		return code
	}
}

// mpirun runs the job of a command line. Errors are the user's, unless they bring a code.
func (p *process) mpirun(name string, args []string) error {
	dir, err := workingDir()
	if err != nil {
		return err
	}
	if p.getenv("MPIUP_MPI") == native {
		if p.up != nil {
			return errNativeUp
		}
		return p.nativeMpirun(name, args, dir)
	}
	library := p.libraries(dir)
	l, decided, why, err := p.readLine(name, args, dir, library)
	switch {
	case err != nil:
		return err
	case l.Version:
		_, err = io.WriteString(p.stdout, mpirun.VersionText(l.Family, l.Five, name, p.installedOf(l.Family, &l, library), version))
		return err
	case l.Help:
		p.tellOfLine(name, &l, why)
		_, err = io.WriteString(p.stdout, mpirun.HelpText(l.Family, name))
		return err
	}
	p.keys = launcherKeys(p, l.SSHArgs)
	adjust := func(cfg *launcher.Config) { cfg.Guess = decided.Guess() }
	return startLine(p, name, &l, why, dir, adjust, p.launch)
}

// misread is the error of a line that its family does not take. That the other family takes it helps only those whose line it is: where nothing but
// the program or a guess says that it is Hydra's, and where Open MPI is not installed at all.
func (p *process) misread(err error, decided mpirun.Decision, args []string, outside line.Outside) error {
	var elsewhere *line.ElsewhereError
	if errors.As(err, &elsewhere) {
		return err
	}
	other := decided.Other()
	if decided.Family == line.OpenMPI && (decided.By != mpirun.ByDefault || mpirun.OnlyFamily(p.installed()) != line.Hydra) {
		return err
	}
	if _, wrong := mpirun.Parse(other, args, outside); wrong != nil {
		return err
	}
	return fmt.Errorf("%w; %s takes the line, and it was read as %s's, since %s: MPIUP_FAMILY=%s reads it so", err, other, decided.Family, decided.Why, other.Variable())
}

// installed names the MPI libraries of this host, "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)".
func (p *process) installed() (names []string) {
	for _, i := range mpilib.NewMemory(bounded.Tree("/")).Installed(p.env) {
		names = append(names, i.Name)
	}
	return names
}

// installedOf names the library whose launcher a family's name stands for: that of the program, where the line names one, else of an installation
// that a variable points at, else the first that is installed; "": there is none.
func (p *process) installedOf(family line.Family, l *line.Line, library func(argv []string) string) string {
	if len(l.Contexts) > 0 {
		if of := library(l.Contexts[0].Argv); mpirun.FamilyOf(of) == family {
			return of
		}
	}
	return mpirun.Installed(family, p.installed(), p.getenv("I_MPI_ROOT") != "")
}

// readLine reads a command line by the rules of the launcher whose it is, and says whose and why. library names the MPI
// library that a program needs.
func (p *process) readLine(name string, args []string, dir string, library func(argv []string) string) (l line.Line, decided mpirun.Decision, why string, err error) {
	decided, err = mpirun.Decide(name, args, p.lookup, library)
	if err != nil {
		return l, decided, "", err
	}
	family, why := decided.Family, decided.Why
	outside := p.outsideOfLauncher(name, dir, library)
	l, err = mpirun.Parse(family, args, outside)

	guessed := decided.By == mpirun.ByDefault || decided.By == mpirun.ByInstalled
	if err == nil && l.Version && guessed { // no program says whose version is asked for
		if only := mpirun.OnlyFamily(p.installed()); only != "" && only != family {
			family, why = only, "only its library is installed here"
			l, err = mpirun.Parse(family, args, outside)
		}
	}
	if err != nil {
		return l, decided, why, p.misread(err, decided, args, outside)
	}

	var rules, since string
	switch family {
	case line.OpenMPI:
		l.Five, since = mpirun.Version(name, &l, p.lookup, library)
		rules = map[bool]string{true: "Open MPI 5", false: "Open MPI 4.1"}[l.Five]
		if l.Five {
			l.AddUp()
		}
		if !l.Five && l.Repeated != "" {
			err = errors.New(l.Repeated)
		}
	case line.Hydra:
		var intel bool
		intel, since = mpirun.Intel(&l, p.lookup, library)
		if rules = "MPICH"; intel {
			rules, err = "Intel MPI", mpirun.AsIntel(&l)
		}
	}
	return l, decided, fmt.Sprintf("%s; by the rules of %s: %s", why, rules, since), err
}

// startLine runs the job of a command line, which adjust has the last word on, by launch.
func startLine(p *process, name string, l *line.Line, why, dir string, adjust func(*launcher.Config), launch func(launcher.Config) int) error {
	p.tellOfLine(name, l, why)
	if err := p.reportPID(l.ReportPID); err != nil {
		return err
	}
	hosts, lease := cli.HostFlags{Wait: job.DefaultWait}, cli.DefaultLease()
	reach, done, err := p.reach(&hosts, &lease, l.Verbose)
	if err != nil {
		return err
	}
	defer done()
	reach.Reword = func(sentence string) string { return cli.Foreign(sentence, name, optionsOf(name, l.Family)) }
	if l.Entries != nil { // else those of MPIUP_HOSTS
		reach.Entries = l.Entries
	}
	reach.Otherwise, reach.OtherwiseFrom = l.Otherwise, l.OtherwiseFrom
	reach.NotHere, reach.WaitBy = l.NoLocal, "MPIUP_WAIT"
	reach.LocalBy, reach.Sizeless, reach.Said = "--host localhost", true, hereAlone(l.Entries)
	cfg, err := p.mpirunConfig(l, reach, dir)
	if err != nil {
		return err
	}
	if err := p.settle(&cfg, func(string) bool { return false }); err != nil { // no mpirun has options for these
		return err
	}
	word, err := protocol(p.getenv, "")
	if err != nil {
		return err
	}
	if word != "" {
		cfg.PMI = protocols[word] // native is not here any more
	}
	adjust(&cfg)
	if l.Family == line.OpenMPI { // Hydra's hands all over that it is not told to keep
		cfg.Unsent = unsent(p.env, cfg.Apps, nil)
	}
	if served, err := p.up.join(p, &cfg.Reach); served || err != nil {
		return err
	}
	defer p.up.leave()
	hide, err := p.showRun(&cfg, "", false)
	if err != nil {
		return err
	}
	defer hide()
	p.code = launch(cfg)
	return nil
}

// optionsOf lists the options of a name that mpiup goes by.
func optionsOf(name string, f line.Family) string {
	switch name {
	case "torchrun":
		return training.TorchrunHelp()
	case "horovodrun":
		return training.HorovodrunHelp()
	}
	return mpirun.HelpText(f, name)
}

// hereAlone says that a command line asks for a run in this container alone, in the words that mpirun has for that.
func hereAlone(entries []hostlist.Entry) bool {
	return len(entries) == 1 && strings.EqualFold(entries[0].Name, "localhost")
}

// tellOfLine says how a command line was understood, as far as it is to be said.
func (p *process) tellOfLine(name string, l *line.Line, why string) {
	say := func(format string, args ...any) {
		tell(p.stderr, name+" (mpiup):", fmt.Sprintf(format, args...))
	}
	if l.Verbose > 0 {
		say("read as %s's command line: %s", l.Family, why)
		for _, w := range l.Without {
			say("%s has no effect", w)
		}
	}
	if !l.Quiet {
		for _, w := range l.Warnings {
			say("warning: %s", w)
		}
	}
}

// reportPID writes this process's number where --report-pid says.
func (p *process) reportPID(to string) error {
	text := strconv.Itoa(os.Getpid()) + "\n"
	var err error
	switch to {
	case "":
	case "-":
		_, err = visible.Fprint(p.stdout, text)
	case "+":
		_, err = visible.Fprint(p.stderr, text)
	default:
		err = outfile.Write(to, []byte(text))
	}
	if err != nil {
		return fmt.Errorf("--report-pid: %w", err)
	}
	return nil
}

// mpirunConfig is the run that a command line asks for.
func (p *process) mpirunConfig(l *line.Line, r reach.Reach, dir string) (launcher.Config, error) {
	cfg := launcher.Config{
		Reach: r, DryRun: l.DryRun, MapOfOpenMPI: l.DisplayMap,
		Pty: l.Family == line.OpenMPI, // whose own launchers give a terminal (orte/mca/iof/base/iof_base_setup.c); Hydra gives pipes
		Wishes: launcher.Wishes{ReportBindings: l.Bindings, KeepOn: l.KeepOn, Recover: l.Recover, Linger: l.Linger, MaxRestarts: l.MaxRestarts,
			Timeout: l.Timeout, Stall: hang.Config{After: cli.DefaultStall, WatchWindow: cli.DefaultWatch}, PMI: job.AutoProtocol, GPUs: gpu.Wish{PerRank: l.GPUsPerRank},
			Policy: placement.Policy{PerNode: l.PerHost, Oversubscribe: l.Oversubscribe, Binding: l.Binding}},
		Output: iof.Config{TagFiles: true, Timestamps: l.Timestamps, Merge: l.Merge, Dir: l.OutputDir,
			NoCopy: l.NoCopy, NoJobID: l.NoJobID, Prepend: iof.Pattern(l.Prepend),
			Files: [2]iof.Pattern{job.Stdout: iof.Pattern(l.OutFile), job.Stderr: iof.Pattern(l.ErrFile)}},
		Stdin: p.stdin, StdinTarget: cmp.Or(l.Stdin, "0"), Report: p.remains(""),
	}
	if l.TagOutput {
		cfg.Output.Mode = iof.Tag
	}
	if l.OutputFrom != "" {
		rank, _ := strconv.Atoi(l.OutputFrom) // is a number
		cfg.Output.Only = func(id int) bool { return id == rank }
	}
	if l.PMIPort {
		cfg.PMI = job.PMI1OverPort
	}
	switch l.Family {
	case line.Hydra:
		cfg.Universe = universe(l.Universe)
		cfg.ShellTexts = true // Hydra starts programs by execvp(3)
		cfg.Policy.MapBy, cfg.Policy.Oversubscribe = placement.ByRound, true
		cfg.Policy.ByCores = l.ByCores
		cfg.Policy.Binding.Bind.Said = l.Binding.Hydra == nil // Hydra binds nobody of itself
	case line.OpenMPI:
		cfg.Policy.Order()
		cfg.Output.Style, cfg.Policy.Limited, cfg.Policy.Apart = iof.OpenMPIStyle, true, true
		if l.Five {
			cfg.Policy.Rules, cfg.Output.Style = placement.OpenMPI5, iof.OpenMPI5Style
			cfg.Output.JobName = fmt.Sprintf("prterun-%s-%d", p.host, os.Getpid())
			cfg.Output.Form = map[string]iof.TagForm{"rank": iof.TagRank, "detailed": iof.TagDetailed, "fullname": iof.TagFullname}[l.TagBy]
			if l.OutputName {
				cfg.Output.Dir, cfg.Output.File = filepath.Split(l.OutputDir)
			}
		}
	}
	for i, c := range l.Contexts {
		app := job.App{Argv: c.Argv, N: c.N, Wdir: dir, AlsoWdir: l.Family == line.OpenMPI, Env: line.Distinct(append(mpirun.Forward(l, i, p.env), c.Env...))}
		for _, e := range c.On {
			share := job.Share{Host: e.Name, Slots: e.Slots}
			if l.Family == line.Hydra && !e.Given {
				share.Slots = max(l.PerHost, 1)
			}
			app.On = append(app.On, share)
		}
		if c.Wdir != "" {
			app.Wdir, app.WdirExplicit = c.Wdir, true
		}
		app.SessionDir, app.Path, app.IndexArgv, app.Tools = c.SessionDir, c.Path, c.IndexArgv, l.Tools
		if err := cli.Preload(&app, c.PreloadBinary, c.PreloadFiles, dir, lookPath(p, dir)); err != nil {
			return cfg, err
		}
		cfg.Apps = append(cfg.Apps, app)
	}
	return cfg, nil
}

// universe is Hydra's -usize.
func universe(text string) int {
	if text == "SYSTEM" {
		return launcher.UniverseSystem
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return launcher.UniverseUnknown
}

// outside is what a command line may refer to in this process.
func (p *process) outside(dir string) line.Outside {
	return line.Outside{
		Lookup: p.lookup, Environ: p.env, Dir: dir, Host: p.host,
		ReadFile: readProgramFile, Hostfile: hostlist.ReadFile, LookPath: lookPath(p, dir),
		Operators: (&hosts.Sources{Number: hosts.Number{Env: p.getenv}}).Operators,
	}
}

// outsideOfLauncher is what a command line of mpirun or mpiexec may refer to, with the files that the real launcher reads by itself. Each is read once,
// though the line may be read again as the other family's.
func (p *process) outsideOfLauncher(name, dir string, library func(argv []string) string) line.Outside {
	o := p.outside(dir)
	type read struct {
		text []byte
		err  error
	}
	files := map[string]read{}
	o.FoundFile = func(path string) ([]byte, error) {
		file, again := files[path]
		if !again {
			file.text, file.err = bounded.Regular(path, maxFoundFile)
			file.err = bounded.Cause(file.err)
			files[path] = file
		}
		return file.text, file.err
	}
	prefixes := map[line.Family]func() string{}
	for _, f := range []line.Family{line.OpenMPI, line.Hydra} {
		prefixes[f] = sync.OnceValue(func() string { return p.prefixOf(f, dir) })
	}
	o.Prefix = func(f line.Family) string { return prefixes[f]() }
	o.Five = func(l *line.Line) (five, known bool) {
		five, why := mpirun.Version(name, l, p.lookup, library)
		return five, why != mpirun.VersionUnknown
	}
	return o
}

// maxFoundFile is how long a file of parameters or a default hostfile may be that nobody named, in bytes.
const maxFoundFile = 1 << 20

// daemonsOf are programs of a family's own launchers that mpiup has no name of, so that they show where those are installed.
func daemonsOf(f line.Family) []string {
	if f == line.OpenMPI {
		return []string{"orted", "prted"}
	}
	return []string{"hydra_pmi_proxy"}
}

// prefixOf is where a family's own launcher is installed: OPAL_PREFIX of Open MPI's, or the directory above that in which its daemon lies, as PATH
// shows; "": there is none.
func (p *process) prefixOf(f line.Family, dir string) string {
	if prefix := p.getenv("OPAL_PREFIX"); f == line.OpenMPI && filepath.IsAbs(prefix) {
		return filepath.Clean(prefix)
	}
	for _, daemon := range daemonsOf(f) {
		for _, path := range foundOnPath(p, daemon, dir) {
			if path, err := filepath.EvalSymlinks(path); err == nil {
				return filepath.Dir(filepath.Dir(path))
			}
		}
	}
	return ""
}

// maxProgramFile is how long a file with programs may be, in bytes.
const maxProgramFile = 16 << 20

func readProgramFile(path string) ([]byte, error) {
	b, err := bounded.File(path, maxProgramFile)
	if errors.Is(err, bounded.ErrTooLarge) {
		return nil, fmt.Errorf("longer than %d bytes; is this a file with programs?", maxProgramFile)
	}
	return b, bounded.Cause(err) // the caller names the file
}

// libraries names the MPI library that a program needs, as far as this host's files show; "": none was found.
// The last answer is kept.
func (p *process) libraries(dir string) func(argv []string) string {
	var of []string
	var library string
	return func(argv []string) string {
		if !slices.Equal(of, argv) {
			env := line.Distinct(slices.Concat(p.env, []string{"PATH=" + program.SearchPath("", p.getenv("PATH"), true)}))
			library = mpilib.NewMemory(bounded.Tree("/")).Look(mpilib.Query{Argv: argv, Env: env, Dir: dir}).Library
			of = argv
		}
		return library
	}
}
