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

// CollectTool is Collect of a tool that mpiup looks for by its name, such as eu-stack, gdb or nvidia-smi. Outside of root's hands it is one of
// PATH in env. A process that is root, or that runs the tool as another user (as is not nil), takes it only from directories of PATH that nobody
// but root can change: anywhere else a rank, or one of a job before, may have planted a program of that name. The tool then has no other PATH,
// and as another user nothing else of env either. ErrNoTool: it is not there.
func CollectTool(ctx context.Context, s *Supervisor, argv, env []string, as *User, limit int) (Output, error) {
	cmd, err := toolCommand(argv, env, as, os.Geteuid() == 0)
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

// toolCommand is what CollectTool runs.
func toolCommand(argv, env []string, as *User, isRoot bool) (Command, error) {
	cmd := Command{Argv: argv, Env: env, User: as}
	if as == nil && !isRoot {
		return cmd, nil
	}

	dirs := bounded.Programs(pathOf(env))
	cmd.Path = argv[0]
	if !filepath.IsAbs(argv[0]) { // else it is mpiup's own, which was found beside it
		cmd.Path = bounded.Program(argv[0], dirs)
	}
	if cmd.Path == "" {
		return Command{}, ErrNoTool
	}

	cmd.Dir = "/"
	trusted := "PATH=" + strings.Join(dirs, ":")
	if as != nil {
		cmd.Env = []string{trusted, "HOME=/"}
		return cmd, nil
	}
	cmd.Env = append(env[:len(env):len(env)], trusted) // the last one counts
	return cmd, nil
}
