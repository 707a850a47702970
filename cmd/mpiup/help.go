package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/mpiup/mpiup/docs"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/spf13/cobra"
)

// helpWidth is how wide help is where there is no terminal.
const helpWidth = 100

// helpCommand shows a command's help, or a page of the documentation. A name may be both.
func helpCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND or TOPIC]",
		Short: "Show the help of a command, or a page of the documentation",
		Long: "Show the help of a command, or a page of the documentation, which is all in this binary. The name of a kind of failure, as the\n" +
			"last line of a failed run has it, shows its section of the page troubleshooting.",
		Example: `  mpiup help run
  mpiup help exit-codes
  mpiup help out-of-memory`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Root().Help()
			}
			known := false
			if cmd, _, err := c.Root().Find(args); err == nil && cmd != c.Root() {
				known = true
				if err := cmd.Help(); err != nil {
					return err
				}
			}
			for _, page := range docs.Pages() {
				if page.Name != args[0] {
					continue
				}
				if known {
					fmt.Fprintln(p.stdout)
				}
				_, err := io.WriteString(p.stdout, page.Text)
				return err
			}
			if known {
				return nil
			}
			for _, page := range docs.Pages() { // a kind of failure
				if text, ok := page.Section(args[0]); ok && page.Name == "troubleshooting" {
					_, err := io.WriteString(p.stdout, text)
					return err
				}
			}
			return usage(fmt.Errorf("help: %.40q is neither a command nor a topic; mpiup --help lists both", args[0]))
		},
	}
}

// usageOf writes how a command is used, with its flags in groups.
func usageOf(p *process, c *cobra.Command) error {
	width := helpWidth
	if _, columns, err := streams.TerminalSize(p.stdout); err == nil && columns > 40 {
		width = min(int(columns), 120)
	}
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() && c.HasParent() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags] ...\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-11s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	b.WriteString(cli.Usages(c.LocalFlags(), width))
	if !c.HasParent() {
		b.WriteString("\nTopics:\n")
		for _, page := range docs.Pages() {
			fmt.Fprintf(&b, "  %-11s %s\n", page.Name, page.Title)
		}
		b.WriteString("\nmpiup COMMAND --help shows a command's flags, mpiup help TOPIC a page.\n")
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}
