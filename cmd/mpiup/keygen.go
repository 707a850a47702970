package main

import (
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/spf13/cobra"
)

func keygenCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "keygen",
		Short: "Print a new job secret",
		Long: `Print a new job secret (a private key in PEM) to standard output.

The operators mount a secret of their own into every pod of an MPIJob; this is for pods that
have none. Every process that can read the secret is a member of the job.`,
		Example: `  mpiup keygen > key && mpiup agent --key key
  mpiup keygen | kubectl create secret generic mpiup --from-file=key=/dev/stdin`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return identity.Keygen(p.stdout) },
	}
}
