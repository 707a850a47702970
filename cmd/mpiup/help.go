package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/streams"
	"github.com/spf13/cobra"
)

// helpWidth is how wide help is where there is no terminal.
const helpWidth = 100

// screen is how help looks on this process's standard output, and how many lines fit.
func screen(p *process) (l cli.Look, rows int) {
	l.Width = helpWidth
	if high, columns, err := streams.TerminalSize(p.stdout); err == nil && columns > 40 {
		l.Width, rows = min(int(columns), 120), int(high)
		l.Bold = p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb"
	}
	return l, rows
}

// show writes help; on a terminal that is too small for it, the pager does, in this process's place.
func show(p *process, text string) error {
	if _, rows := screen(p); rows > 0 && strings.Count(text, "\n") >= rows {
		page(p.env, p.getenv, text)
	}
	_, err := io.WriteString(p.stdout, text)
	return err
}

// page executes the user's pager, else less or cat, with the text as its standard input. It returns where there is no shell.
func page(env []string, getenv func(string) string, text string) {
	words := []string{"sh", "-c", cmp.Or(getenv("PAGER"), "command -v less >/dev/null && exec less; exec cat")}
	fd, err := unix.MemfdCreate("help", 0)
	if err != nil {
		return
	}
	file := os.NewFile(uintptr(fd), "help")
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		return
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil || unix.Dup2(fd, 0) != nil {
		return
	}
	if getenv("LESS") == "" {
		env = append(slices.Clone(env), "LESS=FRX")
	}
	_ = unix.Exec("/bin/sh", words, env)
}

// extent is how much of a command's help its line asks for.
func extent(args []string, whole bool) cli.Extent {
	for _, word := range args {
		switch {
		case whole:
			return cli.Whole
		case word == "-h":
			return cli.Short
		case word == "--help", word == "--":
			return cli.Long
		}
	}
	return cli.Long
}

// helpOf shows a command's help.
func helpOf(p *process, c *cobra.Command, much cli.Extent) error {
	l, _ := screen(p)
	if !c.HasParent() {
		return show(p, cli.RootHelp(rootCommand(p, ""), l))
	}
	return show(p, cli.CommandHelp(c, much, l))
}

// helpCommand shows a command's help, one of its flags, or a page of the documentation. A name may be both.
func helpCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND or TOPIC] [FLAG]",
		Short: "Show the help of a command, or a page of the documentation",
		Long: "Show the help of a command, one of its flags, or a page of the documentation, which is all in this binary. The name of a kind of failure, as the\n" +
			"last line of a failed run has it, shows its section of the page troubleshooting.",
		Example: `  mpiup help run
  mpiup help run --stall-timeout
  mpiup help topics
  mpiup help exit-codes
  mpiup help out-of-memory`,
		DisableFlagParsing: true, DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return helpOf(p, c.Root(), cli.Long)
			case len(args) > 2:
				return usage(fmt.Errorf("help takes a command and one of its flags, or a topic"))
			case args[0] == "-h" || args[0] == "--help":
				return helpOf(p, c, cli.Long)
			}
			l, _ := screen(p)
			text, err := cli.Help(c.Root(), args, l)
			if err != nil {
				return usage(err)
			}
			return show(p, text)
		},
	}
}
