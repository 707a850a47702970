package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/launcher/verdict/logs"
	"github.com/spf13/cobra"
)

// verdictCommand reads logs and says which rank ended the job, and why.
func verdictCommand(p *process) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verdict [FILE...]",
		Short: "Read logs of a failed job, and say which rank ended it and why",
		Long: "Read logs of a failed job, of any launcher, and say which rank failed for a reason of its own, and what kind of failure it is. Without\n" +
			"FILE, or for -, standard input is read. Each file is the log of a pod or of a whole job. The exit code is 1 where no failure is known.",
		Example: `  kubectl logs job/train-launcher | mpiup verdict
  mpiup verdict worker-*.log
  mpiup verdict --json launcher.log`,
		RunE: func(_ *cobra.Command, args []string) error {
			var r logs.Reader
			if len(args) == 0 {
				args = []string{"-"}
			}
			for i, name := range args {
				if i > 0 {
					r.File()
				}
				if err := readLog(p, &r, name); err != nil {
					return err
				}
			}
			v, found := r.Verdict()
			if !found {
				p.code = 1
			}
			return tellVerdict(p, v, found, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the verdict as a JSON object (mpiup help record)")
	return c
}

// readLog feeds a file's lines; of longer ones the beginning.
func readLog(p *process, r *logs.Reader, name string) error {
	return eachLine(p, name, func(piece []byte, begins bool) error {
		if begins {
			r.Line(strings.TrimSuffix(string(piece), "\n"))
		}
		return nil
	})
}

func tellVerdict(p *process, v verdict.Verdict, found, asJSON bool) error {
	if asJSON {
		if !found {
			_, err := io.WriteString(p.stdout, "null\n")
			return err
		}
		text, err := visible.JSONLine(v)
		if err == nil {
			_, err = p.stdout.Write(append(text, '\n'))
		}
		return err
	}
	if !found {
		_, err := visible.Fprintf(p.stdout, "no failure that mpiup knows is in these lines\n%s\n", logs.StillRuns)
		return err
	}
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-6s %s\n", name+":", visible.Line(fmt.Sprintf(format, args...)))
	}
	probably := ""
	if v.Likely {
		probably = "probably "
	}
	line("kind", "%s%s", probably, v.Kind)
	line("rank", "%s", accused(v))
	if v.Why != "" {
		line("why", "%s", v.Why)
	}
	for _, d := range []struct{ name, id string }{{"GPU", v.GPU}, {"PCI", v.PCI}, {"HCA", v.HCA}} {
		if d.id != "" {
			line(d.name, "%s", d.id)
		}
	}
	for _, e := range v.Evidence {
		line("line", "%s", e)
	}
	for _, d := range v.Advice {
		line("do", "%s", d)
	}
	line("more", "mpiup help %s", v.Kind)
	_, err := visible.Fprint(p.stdout, b.String())
	return err
}

// accused says whose the failure is and how sure that is, or who only reports it.
func accused(v verdict.Verdict) string {
	text := "unknown"
	switch {
	case v.Rank != nil && v.Confidence == verdict.Probable:
		text = fmt.Sprintf("probably %d", *v.Rank)
	case v.Rank != nil:
		text = fmt.Sprint(*v.Rank)
	case v.Confidence == verdict.OneOfSeveral:
		text = "one of " + v.Ranks + ", which failed alike"
	case v.Confidence == verdict.Certain || v.Confidence == verdict.Probable:
		text = "none: it is the job's"
	}
	if v.Host != "" {
		text += " on " + v.Host
	}
	if v.Reporters != "" {
		text += "; only reported by " + v.Reporters
	}
	return text
}
