package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/docs"
	"github.com/mpiup/mpiup/internal/visible"
)

// What mpiup shows of itself: the help of commands, short with -h and long with --help, and pages of the documentation as text.
//
//	-h             usage, five examples, a dozen flags: 45 lines at most
//	--help         all flags but those that are rarely used
//	--help --all   all flags
//	help run --nccl    one flag

// Extent is how much of a command's help is wanted.
type Extent int

// The extents.
const (
	Long Extent = iota
	Short
	Whole
)

// commandGroups are the commands in the order in which people meet them.
var commandGroups = []struct{ title, names string }{
	{"Run", "run up exec"},
	{"Look at a job", "ps top stacks peers"},
	{"After a run", "why report verdict logs support"},
	{"Before a run", "doctor check-image topo env"},
	{"Serve", "agent launcher shutdown keygen install"},
}

// firstPages are the topics that most people look for.
var firstPages = strings.Fields("guide from hangs slow gpu restart troubleshooting security")

// RootHelp is the help of mpiup itself.
func RootHelp(root *cobra.Command, look Look) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n  mpiup COMMAND [flags] ...\n\n%s\n%s\n", root.Long, look.strong("Usage:"), look.strong("Examples:"), root.Example)
	for _, g := range commandGroups {
		b.WriteString("\n" + look.strong(g.title+":") + "\n")
		for name := range strings.FieldsSeq(g.names) {
			if c, _, err := root.Find([]string{name}); err == nil && c != root {
				fmt.Fprintf(&b, "  %-11s %s\n", name, c.Short)
			}
		}
	}
	b.WriteString("\n" + look.strong("Topics:") + "\n")
	var more []string
	for _, page := range docs.Pages() {
		if !slices.Contains(firstPages, page.Name) {
			more = append(more, page.Name)
		}
	}
	for _, name := range firstPages {
		for _, page := range docs.Pages() {
			if page.Name == name {
				fmt.Fprintf(&b, "  %-15s %s\n", name, page.Title)
			}
		}
	}
	b.WriteString(visible.Wrap("  and ", "  ", strings.Join(more, ", ")+": mpiup help topics", look.Width))
	b.WriteString("\nmpiup COMMAND -h shows a command in short, --help all of it, mpiup help TOPIC a page; mpiup version, mpiup completion.\n" +
		"Called by their names mpiup stands in for mpirun, mpiexec, torchrun, horovodrun, ssh, sshd and ssh-keygen (mpiup install --names all DIR).\n")
	return b.String()
}

// topics are all pages, with their titles.
func topics(look Look) string {
	var b strings.Builder
	b.WriteString(look.strong("Topics:") + "\n")
	for _, page := range docs.Pages() {
		fmt.Fprintf(&b, "  %-15s %s\n", page.Name, strings.ReplaceAll(page.Title, "`", ""))
	}
	return b.String() + "\nmpiup help TOPIC shows one; the name of a kind of failure shows what to do about it.\n"
}

// CommandHelp is the help of one command.
func CommandHelp(c *cobra.Command, extent Extent, look Look) string {
	c.InitDefaultHelpFlag()
	if extent == Short {
		return shortHelp(c, look)
	}
	var b strings.Builder
	text := cmp.Or(c.Long, c.Short)
	fmt.Fprintf(&b, "%s\n\n%s\n  %s\n", strings.TrimSpace(text), look.strong("Usage:"), c.UseLine())
	if c.HasExample() {
		fmt.Fprintf(&b, "\n%s\n%s\n", look.strong("Examples:"), c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n" + look.strong("Commands:") + "\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-11s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	flags := Usages(c.LocalFlags(), look.Width, extent == Whole)
	for line := range strings.Lines(flags) {
		if text := strings.TrimRight(line, "\n"); strings.HasSuffix(text, ":") && !strings.HasPrefix(text, " ") {
			line = look.strong(text) + "\n"
		}
		b.WriteString(line)
	}
	if rare := Rare(c.LocalFlags()); len(rare) > 0 && extent != Whole {
		fmt.Fprintf(&b, "\n%d flags that are rarely used: %s --help --all\n", len(rare), c.CommandPath())
	}
	return b.String()
}

const (
	mostExamples = 5
	mostFlags    = 12
)

// shortHelp is what fits on a screen.
func shortHelp(c *cobra.Command, look Look) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n  %s\n", c.Short, look.strong("Usage:"), c.UseLine())
	if c.HasExample() {
		b.WriteString("\n" + look.strong("Examples:") + "\n")
		lines := strings.Split(strings.Trim(c.Example, "\n"), "\n")
		b.WriteString(strings.Join(lines[:min(len(lines), mostExamples)], "\n") + "\n")
	}
	flags := Main(c.LocalFlags(), mostFlags)
	if len(flags) == 0 {
		return b.String()
	}
	b.WriteString("\n" + look.strong("Flags:") + "\n")
	heads, width := make([]string, len(flags)), 0
	for i, f := range flags {
		heads[i] = head(f)
		width = max(width, len(heads[i]))
	}
	for i, f := range flags {
		_, usage := pflag.UnquoteUsage(f)
		b.WriteString(visible.Wrap(fmt.Sprintf("  %-*s  ", width, heads[i]), strings.Repeat(" ", width+4), brief(usage), look.Width))
	}
	all := 0
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all++
		}
	})
	fmt.Fprintf(&b, "\nall %d flags: %s --help; one of them: mpiup help %s --%s\n", all, c.CommandPath(), c.Name(), flags[0].Name)
	return b.String()
}

// head is a flag with its value, as "-n, --np N".
func head(f *pflag.Flag) string {
	value, _ := pflag.UnquoteUsage(f)
	text := "    --" + f.Name
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", --" + f.Name
	}
	if value != "" && f.NoOptDefVal == "" {
		text += " " + value
	}
	return text
}

// brief is the beginning of a flag's sentence, without its default and what else it says.
func brief(usage string) string {
	for _, end := range []string{" (default", "; "} {
		usage, _, _ = strings.Cut(usage, end)
	}
	return usage
}

// FlagHelp is the help of one flag of a command; false where it has no such one.
func FlagHelp(c *cobra.Command, word string, look Look) (string, bool) {
	c.InitDefaultHelpFlag()
	name := strings.TrimLeft(word, "-")
	f := c.Flags().Lookup(name)
	if f == nil && len(name) == 1 {
		f = c.Flags().ShorthandLookup(name)
	}
	if f == nil {
		return "", false
	}
	one := pflag.NewFlagSet("", pflag.ContinueOnError)
	one.AddFlag(f)
	return one.FlagUsagesWrapped(look.Width), true
}

// Help is the help of a command, of one of its flags, or a page: args are its name and, perhaps, a flag. A name may be both.
func Help(root *cobra.Command, args []string, l Look) (text string, err error) {
	name := args[0]
	if name == "topics" {
		return topics(l), nil
	}
	cmd, _, err := root.Find(args[:1])
	known := err == nil && cmd != root
	if len(args) == 2 {
		if known && args[1] == "--all" {
			return CommandHelp(cmd, Whole, l), nil
		}
		if known {
			if text, ok := FlagHelp(cmd, args[1], l); ok {
				return text, nil
			}
		}
		return "", fmt.Errorf("help: %.40q has no flag %.40q; mpiup help %.40s lists them", name, args[1], name)
	}
	if known {
		text = CommandHelp(cmd, Long, l)
	}
	is := func(page string) bool {
		return slices.ContainsFunc(docs.Pages(), func(p docs.Page) bool { return p.Name == page })
	}
	if page := otherwise[strings.ToLower(name)]; page != "" && !known {
		name = page
	}
	for _, page := range docs.Pages() {
		section, of := page.Section(name)
		switch {
		case page.Name == name && known:
			text += "\n" + Page(page.Text, is, l)
		case page.Name == name:
			text = Page(page.Text, is, l)
		case of && page.Name == "troubleshooting" && text == "": // a kind of failure
			text = Page(section, is, l)
		}
	}
	if text == "" {
		return "", fmt.Errorf("help: %.40q is neither a command nor a topic; mpiup --help lists both", name)
	}
	return text, nil
}

// otherwise are pages by what somebody may ask for.
var otherwise = map[string]string{"torch": "frameworks", "pytorch": "frameworks", "jax": "frameworks", "horovod": "frameworks", "deepspeed": "frameworks",
	"slurm": "from", "srun": "from", "openmpi": "from", "mpich": "from", "hydra": "from", "nccl": "gpu", "cuda": "gpu", "kubernetes": "admin", "k8s": "admin",
	"mpijob": "guide", "variables": "environment", "errors": "troubleshooting", "metrics": "monitoring", "hang": "hangs"}
