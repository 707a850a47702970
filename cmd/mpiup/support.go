package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/mpiup/mpiup/agent/reap"
	"github.com/mpiup/mpiup/launcher/aftermath"
	"github.com/mpiup/mpiup/launcher/cli"
)

func supportCommand(p *process) *cobra.Command {
	var q query
	s := aftermath.Support{Version: version, Pod: p.host, Env: p.env, Run: reap.Heard}
	c := &cobra.Command{
		Use:   "support [FILE]",
		Short: "Put what helps others to help into one file: versions, doctor, peers, ps, the verdict, the report, settings",
		Long: `Put what helps others to help into one file, a tar.gz in the layout of oc adm must-gather: what mpiup version, doctor, peers, ps, why and
report say, and the settings of the environment. FILE is a run's report or log; without it, the newest run of yours here that failed. Secrets are
masked. What is inside is listed before the file is written; no file is overwritten, and only you may read it.`,
		Example: `  mpiup support --host w0,w1 --key key --output bundle.tar.gz launcher.log`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s.Namespace, s.Job, s.Key, s.TLSDir = namespace("/"), strings.Join(args, ""), q.hosts.KeyFile, q.hosts.TLSDir
			s.Hosts = cli.Given(c.Flags(), "output", "list", "verbose")
			if a := p.asking; a != nil {
				s.Namespace, s.Pod, s.AskFrom = a.namespace, a.pod, a.words
			}
			ctx, stop := untilTold()
			defer stop()
			return asked(p.desk().Support(ctx, s))
		},
	}
	q.register(c.Flags())
	c.Flags().StringVar(&s.To, "output", "", "write `FILE` (default: mpiup-support-HOST-TIME.tar.gz here)")
	c.Flags().BoolVar(&s.List, "list", false, "say what would be inside, and write nothing")
	return c
}
