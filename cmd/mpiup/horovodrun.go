package main

import (
	"io"

	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli/horovodrun"
	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// asHorovodrun runs the job of a command line of Horovod's launcher. Errors are the user's, unless they bring a code.
func asHorovodrun(p *process, args []string) error {
	dir, err := workingDir()
	if err != nil {
		return err
	}
	h, err := horovodrun.Parse(args)
	switch {
	case err != nil:
		return err
	case h.Version:
		_, err = io.WriteString(p.stdout, horovodrun.VersionText(version))
		return err
	case h.Help:
		_, err = io.WriteString(p.stdout, horovodrun.HelpText())
		return err
	}
	l, err := mpirun.Parse(line.OpenMPI, h.Words, p.outside(dir))
	if err != nil {
		return err
	}
	l.Without = append(h.Without, l.Without...)
	p.keys = launcherKeys(p, l.SSHArgs)
	return startLine(p, "horovodrun", &l, "horovodrun says the same to it", dir, func(cfg *launcher.Config) {
		cfg.Frameworks |= frameworks.Horovod
		cfg.Pty = false // horovodrun's ranks write to pipes
		if h.Gloo {
			cfg.Frameworks |= frameworks.HorovodGloo
		}
		if h.Start > 0 {
			cfg.Wait, cfg.WaitBy = h.Start, "--start-timeout"
		}
	})
}
