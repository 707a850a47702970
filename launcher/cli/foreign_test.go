package cli

import (
	"testing"

	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/launcher/cli/training"
)

// A sentence that names a flag which the command at hand refuses says what does the same there.
func TestForeign(t *testing.T) {
	torchrun, openMPI, hydra := training.TorchrunHelp(), mpirun.HelpText(line.OpenMPI, "mpirun"), mpirun.HelpText(line.Hydra, "mpiexec")
	for _, tt := range []struct{ sentence, command, help, want string }{
		{"give the key, --key FILE or MPIUP_KEY, or certificates, --tls-dir", "torchrun", torchrun, " (torchrun has no --key, --tls-dir: set MPIUP_KEY, MPIUP_TLS_DIR)"},
		{"name the hosts with --host", "torchrun", torchrun, " (torchrun has no --host: set MPIUP_HOSTS)"},
		{"name the hosts with --host", "mpirun", openMPI, ""},
		{"give it more time (--timeout)", "mpirun", openMPI, ""},
		{"give it more time (--timeout)", "torchrun", torchrun, " (--timeout: of mpiup run, not of torchrun)"},
		{"with --pty it writes line by line", "mpiexec", hydra, " (mpiexec has no --pty: set MPIUP_PTY)"},
		{"see who answers: mpiup peers --key key --host w0", "torchrun", torchrun, ""},
		{"say so with --standalone; --nnodes 2 --key k", "torchrun", torchrun, " (torchrun has no --key: set MPIUP_KEY)"},
		{"rank 3 failed", "torchrun", torchrun, ""},
		{"its own --lr is unknown", "torchrun", torchrun, ""},
	} {
		if got := Foreign(tt.sentence, tt.command, tt.help); got != tt.sentence+tt.want {
			t.Errorf("%s: %s", tt.command, got)
		}
	}
}
