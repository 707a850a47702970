package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mpiup/mpiup/internal/identity/keyfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/spf13/cobra"
)

func keygenCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "keygen [FILE]",
		Short: "Print a new job secret",
		Long: `Print a new job secret (a private key in PEM) to standard output, or into FILE, which
only you can read, and which must not be there yet.

The operators mount a secret of their own into every pod of an MPIJob; this is for pods that
have none. Every process that can read the secret is a member of the job.`,
		Example: `  mpiup keygen key && mpiup agent --key key
  mpiup keygen | kubectl create secret generic mpiup --from-file=key=/dev/stdin`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return keyfile.Keygen(p.stdout)
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				err = errors.Join(keyfile.Keygen(f), f.Close())
			}
			info, _ := os.Stat(args[0])
			switch {
			case err != nil && info != nil && info.IsDir():
				return usage(fmt.Errorf("keygen: %s is a directory: name a file in it", visible.Path(args[0])))
			case errors.Is(err, fs.ErrNotExist):
				return usage(fmt.Errorf("keygen: %w: make its directory first (mkdir -p %s)", err, visible.Path(filepath.Dir(args[0]))))
			case errors.Is(err, fs.ErrExist):
				return usage(fmt.Errorf("keygen: %s is there: use it, or name another file", visible.Path(args[0])))
			case err != nil:
				return usage(fmt.Errorf("keygen: %w", err))
			}
			visible.Fprintf(p.stderr, "mpiup: wrote %s, which only you can read: every host of the job needs a copy\n", args[0])
			return nil
		},
	}
}
