package reap

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/mpiup/mpiup/agent/reap/program"
	"github.com/mpiup/mpiup/internal/bounded"
)

// ErrNoTool is the error of a tool that is not there, or that another than root could have put there.
var ErrNoTool = errors.New("no such program in a directory of PATH that only root may change")

// Tool is a program that mpiup looks for by its name, such as eu-stack, gdb or nvidia-smi.
type Tool struct {
	Argv []string
	Env  []string // its environment, with the PATH on which it is looked for
	As   *User    // who it runs as; nil: as this process
	In   *os.File // its standard input, which it may open again as /proc/self/fd/0; nil: none
}

// CollectTool is Collect of a tool. Outside of root's hands it is one of PATH. A process that is root, or that runs the tool as another user, takes it
// only from directories of PATH that nobody but root can change: anywhere else a rank, or one of a job before, may have planted a program of that name.
// The tool then has no other PATH, and as another user nothing else of the environment either. ErrNoTool: it is not there.
func CollectTool(ctx context.Context, s *Supervisor, t Tool, limit int) (Output, error) {
	cmd, err := t.command(os.Geteuid() == 0)
	if err != nil {
		return Output{}, err
	}
	o, err := Collect(ctx, s, cmd, limit)
	var failed *program.Error
	if errors.As(err, &failed) && failed.Phase == program.PhaseExec {
		return o, ErrNoTool
	}
	return o, err
}

// command is what CollectTool runs.
func (t Tool) command(isRoot bool) (Command, error) {
	cmd := Command{Argv: t.Argv, Env: t.Env, User: t.As}
	if t.In != nil {
		cmd.Files = []*os.File{t.In}
	}
	if t.As == nil && !isRoot {
		return cmd, nil
	}

	name, dirs := t.Argv[0], bounded.Programs(pathOf(t.Env))
	cmd.Path = name
	if !filepath.IsAbs(name) { // else it is mpiup's own, which was found beside it
		cmd.Path = bounded.Program(name, dirs)
	}
	if cmd.Path == "" {
		return Command{}, ErrNoTool
	}

	cmd.Dir = "/"
	trusted := "PATH=" + strings.Join(dirs, ":")
	if t.As != nil {
		cmd.Env = []string{trusted, "HOME=/"}
		return cmd, nil
	}
	cmd.Env = append(t.Env[:len(t.Env):len(t.Env)], trusted) // the last one counts
	return cmd, nil
}
