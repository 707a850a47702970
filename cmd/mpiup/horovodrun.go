package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/launcher/cli/training"
)

// asHorovodrun runs the job of a command line of Horovod's launcher. Errors are the user's, unless they bring a code.
func asHorovodrun(p *process, args []string) error {
	dir, err := workingDir()
	if err != nil {
		return err
	}
	h, err := training.ParseHorovodrun(args)
	switch {
	case err != nil:
		return err
	case h.Read.Line.Version:
		_, err = io.WriteString(p.stdout, "0.28.1 (mpiup "+version+")\n")
		return err
	case h.Read.Line.Help:
		_, err = io.WriteString(p.stdout, training.HorovodrunHelp())
		return err
	}
	if h.Elastic {
		return elasticHorovodrun(p, &h, dir)
	}
	outside := p.outside(dir)
	l, err := mpirun.ParseProgram(h.Words, h.Program, outside)
	if err != nil {
		return err
	}
	l.Without = append(h.Read.Line.Without, l.Without...)
	if !h.Hosted { // whose slots are a limit to horovodrun, too
		told, err := outside.Operators()
		slots := err == nil && slices.ContainsFunc(told, func(e hostlist.Entry) bool { return e.Given })
		l.Oversubscribe = l.Oversubscribe || !slots
	}
	by := "--start-timeout"
	if v := p.getenv(training.StartVariable); v != "" && h.Start == 0 {
		by = training.StartVariable
		if h.Start, err = training.Seconds(v); err != nil {
			return fmt.Errorf("%s is %.40q: %w", by, v, err)
		}
	}
	p.keys = launcherKeys(p, l.SSHArgs)
	return startLine(p, "horovodrun", &l, "horovodrun says the same to it", dir, func(cfg *launcher.Config) {
		cfg.Frameworks |= frameworks.Horovod
		cfg.Pty = false // horovodrun's ranks write to pipes
		if h.Gloo {
			cfg.Frameworks |= frameworks.HorovodGloo
		}
		if h.Start > 0 {
			cfg.Wait, cfg.WaitBy, cfg.Insist = h.Start, by, true
		}
	}, p.launch)
}

// elasticHorovodrun executes Horovod's own launcher in this process's place. Its driver keeps the ranks that live and starts others, over
// mpiup's ssh; who the hosts are it asks mpiup.
func elasticHorovodrun(p *process, h *training.Horovodrun, dir string) error {
	own, err := horovodsOwn(p, h.Program[0], dir)
	if err != nil {
		return err
	}
	ssh, err := sshName(p)
	if err != nil {
		return &exitError{job.ExitOutput, fmt.Errorf("a link for the name ssh: %w; set TMPDIR to a directory that can be written", err)}
	}
	argv, from := own, "who the hosts are says --host-discovery-script"
	if !h.Scripted {
		self, err := os.Executable()
		if err != nil {
			return &exitError{job.ExitInternal, err}
		}
		key, err := discoveryKey(p, h.SSHArgs)
		if err != nil {
			return err
		}
		script := strings.Join(quoted(slices.Concat([]string{self, "peers", "--discover"}, key, h.Hosts)), " ")
		argv = append(slices.Clone(own), "--host-discovery-script", script)
		from = "who the hosts are says the job's membership (mpiup peers --discover)"
	}
	tell(p.stderr, "horovodrun (mpiup):", fmt.Sprintf("elastic: Horovod's own driver (%s) starts the ranks over mpiup's "+
		"ssh, and %s; the ranks' ends and output are told of by Horovod, not by mpiup",
		strings.Join(own, " "), from))
	env := line.Distinct(append(slices.Clone(p.env), "PATH="+filepath.Dir(ssh)+":"+p.getenv("PATH")))
	return become(slices.Concat(argv, h.Own, h.Program), env)
}

// discoveryKey is what tells mpiup peers of the job's key, which ssh takes from its own options where the pod mounts none.
func discoveryKey(p *process, sshArgs string) ([]string, error) {
	_, err := p.identity(&cli.IdentityFlags{}, identity.RoleLauncher, slog.New(slog.DiscardHandler))
	if err == nil {
		return nil, nil
	}
	if errors.Is(err, identity.ErrNoSecret) {
		for _, k := range launcherKeys(p, sshArgs) {
			if _, missing := os.Stat(k.File); missing == nil {
				return []string{"--key", k.File}, nil
			}
		}
	}
	return nil, identityError(err)
}

// horovodsOwn is how Horovod's own launcher is called: by the Python that is to run the program, which has that Horovod, else as it is
// found on PATH behind our name.
func horovodsOwn(p *process, program, dir string) ([]string, error) {
	if strings.HasPrefix(filepath.Base(program), "python") {
		path, err := lookPath(p, dir)(program)
		if err != nil {
			return nil, &exitError{job.ExitExec, fmt.Errorf("%s: %w; an elastic job's launcher needs Horovod in its own image too", program, err)}
		}
		return []string{path, "-m", "horovod.runner.launch"}, nil
	}
	if path, ok := p.behind("horovodrun", dir, ""); ok {
		return []string{path}, nil
	}
	return nil, &exitError{job.ExitExec, errors.New("an elastic job is driven by Horovod's own horovodrun, and none is on PATH behind mpiup's name: " +
		"put its directory there, or start the program with python3 of the environment that has Horovod")}
}

// quoted are words as a shell reads them again.
func quoted(words []string) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return list
}
