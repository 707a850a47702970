package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// ParseApps reads the words after the flags: program and arguments, and further programs after
// ":". The first program has f.Program, which fs.Parse filled. Warnings are sentences for the
// user: a variable to copy that is not set here.
func (f *RunFlags) ParseApps(args []string, env line.Outside) (apps []job.App, warnings []string, err error) {
	if len(args) == 0 {
		return nil, nil, errors.New("no program is named; try: mpiup run -n 4 ./a.out")
	}
	first := true
	for {
		words, rest, more := line.Cut(args)
		flags := f.Program
		if !first {
			flags = AppFlags{}
			if words, err = flags.parse(words); err != nil {
				return nil, nil, fmt.Errorf("program %d: %w", len(apps)+1, err)
			}
		}
		if len(words) == 0 || words[0] == "" {
			return nil, nil, fmt.Errorf("program %d has no name; a program stands on each side of \":\"", len(apps)+1)
		}
		if first {
			if err := lostHosts(f.Hosts, words, env); err != nil {
				return nil, nil, err
			}
		}
		app, warn, err := flags.app(words, env)
		if err != nil {
			return nil, nil, err
		}
		app.Tools = f.Wrap
		apps = append(apps, app)
		for _, w := range warn {
			if !slices.Contains(warnings, w) {
				warnings = append(warnings, w)
			}
		}
		if !more {
			return apps, warnings, nil
		}
		args, first = rest, false
	}
}

// parse reads the flags before a further program and returns the program's words.
func (a *AppFlags) parse(words []string) ([]string, error) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SetInterspersed(false)
	own.SetNormalizeFunc(withAliases)
	own.Usage = func() {}
	a.register(own)
	run := pflag.NewFlagSet("", pflag.ContinueOnError) // to know the run's flags from mistakes
	new(RunFlags).Register(run)

	err := own.Parse(Dashes(run, words))
	var unknown *pflag.NotExistError
	switch {
	case err == nil:
		return own.Args(), nil
	case errors.Is(err, pflag.ErrHelp):
		return nil, errors.New("--help stands before the first program")
	case errors.As(err, &unknown):
		short := unknown.GetSpecifiedShortnames()
		if short == "" && run.Lookup(unknown.GetSpecifiedName()) != nil || short != "" && run.ShorthandLookup(short[:1]) != nil {
			return nil, fmt.Errorf("%s concerns the whole run and stands before the first program", flagName(unknown))
		}
	}
	return nil, FlagError(own, err)
}

func (a *AppFlags) app(words []string, env line.Outside) (job.App, []string, error) {
	app := job.App{Argv: words, N: a.N, Wdir: env.Dir, AlsoWdir: env.Dir != ""}
	if a.Wdir != "" {
		app.Wdir, app.WdirExplicit = line.Under(env.Dir, a.Wdir), true
	}
	if err := Preload(&app, a.PreloadBinary, a.PreloadFiles, env.Dir, env.LookPath); err != nil {
		return app, nil, err
	}
	var warnings []string
	for _, def := range a.Env {
		defs := line.Exported(def, env.Lookup, env.Environ)
		if warning := listed(def); warning != "" {
			warnings = append(warnings, warning)
		} else if defs == nil {
			warnings = append(warnings, fmt.Sprintf("-x %s: not set in this environment, so ranks do not get it", def))
		}
		for _, def := range defs {
			if len(def) > line.MaxVar {
				name, _, _ := strings.Cut(def, "=")
				return app, nil, fmt.Errorf("-x %s: %d bytes are more than the %d a variable can have", visible.Clip(name), len(def), line.MaxVar)
			}
			app.Env = append(app.Env, def)
		}
	}
	app.Env = line.Distinct(app.Env)
	return app, warnings, nil
}

// listed warns of a value in which another variable seems to be set, as in srun's lists.
func listed(def string) (warning string) {
	_, value, _ := strings.Cut(def, "=")
	parts := strings.Split(value, ",")
	for _, part := range parts[1:] {
		other, _, set := strings.Cut(part, "=")
		if set && other != "" && strings.Trim(other, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == "" {
			return fmt.Sprintf("-x %s: the value goes to the end of the word, and sets no %s; for two variables write -x twice", visible.Clip(def), visible.Clip(other))
		}
	}
	return ""
}

// parseVariable reads a value of -x: VAR, VAR=value or PATTERN*.
func parseVariable(s string) (string, error) {
	name, _, set := strings.Cut(s, "=")
	switch {
	case name == "":
		return "", fmt.Errorf("%s names no variable; write VAR or VAR=value", visible.Clip(s))
	case strings.ContainsRune(s, 0):
		return "", fmt.Errorf("%s has a zero byte", visible.Clip(s))
	case strings.ContainsAny(name, " \t\r\n"):
		return "", fmt.Errorf("%s has a space in its name", visible.Clip(s))
	case s == "ALL":
		return "", errors.New("ALL is srun's word: ranks have their container's environment; " +
			"write -x NAME, or patterns such as -x 'NCCL_*', for what they get of this one")
	case s == "NONE":
		return "", errors.New("NONE is srun's word: ranks get nothing of this environment that -x does not name; leave it out")
	case strings.HasPrefix(name, "ALL,"), strings.HasPrefix(name, "NONE,"):
		_, list, _ := strings.Cut(s, ",")
		return "", fmt.Errorf("%s is srun's spelling: write -x %s, and -x for each more variable; ranks have their container's environment besides",
			visible.Clip(s), visible.Clip(list))
	case strings.Contains(name, ","):
		return "", fmt.Errorf("%s: repeat -x for every variable", visible.Clip(s))
	case !set && name == "*":
		return "", errors.New("* is all of this environment, PATH and HOME too; write patterns such as NCCL_*")
	case strings.Contains(strings.TrimSuffix(name, "*"), "*") || set && strings.HasSuffix(name, "*"):
		return "", fmt.Errorf("%s: a pattern ends in its one *, and has no value", visible.Clip(s))
	}
	return s, nil
}
