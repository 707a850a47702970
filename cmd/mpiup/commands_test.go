package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/docs"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/launcher/cli/ssh"
	"github.com/mpiup/mpiup/launcher/cli/training"
	"github.com/mpiup/mpiup/launcher/kubectl"
)

// Every command that help, README and docs write is one that mpiup reads: its flags are there and take such values,
// and it has as many arguments as it wants. What stands behind a program's name is the program's.
func TestCommandsOfTheDocs(t *testing.T) {
	t.Parallel()
	read := 0
	check := func(where, command string) {
		read++
		if err := readsCommand(command); err != nil {
			t.Errorf("%s: %s\n\t%v", where, command, err)
		}
	}
	for _, c := range rootCommand(&process{}, "").Commands() {
		for line := range strings.Lines(c.Example) {
			if command, ok := written(line); ok {
				check("help of "+c.Name(), command)
			}
		}
	}
	for line := range strings.Lines(kubectlHelp) {
		if command, ok := written(line); ok && strings.HasPrefix(line, "  ") && !strings.Contains(command, "[") {
			check("help of kubectl mpiup", command)
		}
	}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		n, fenced, begun := 0, false, ""
		for line := range strings.Lines(string(text)) {
			n++
			if before, more := strings.CutSuffix(strings.TrimRight(line, " \n"), "\\"); more { // it goes on in the next
				begun += before
				continue
			}
			line, begun = begun+line, ""
			where := fmt.Sprintf("%s:%d", strings.TrimPrefix(page, "../../"), n)
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
				continue
			}
			if command, ok := written(line); ok && (fenced || strings.HasPrefix(line, "    ")) {
				check(where, command)
				continue
			}
			for _, m := range code.FindAllStringSubmatch(line, -1) {
				if command, ok := written(m[1]); ok && !strings.Contains(command, "[") && !mentions(command) {
					check(where, command)
				}
			}
		}
	}
	if read < 150 {
		t.Errorf("only %d commands were found", read)
	}
}

// What is no command must be seen, or the test above tests nothing.
func TestCommandsAreRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		command string
		fails   bool
	}{
		{"mpiup ps --host w0,w1 --watch", false},
		{"mpiup ps --watch 2", true},
		{"mpiup run -n N ./a.out --any", false},
		{"mpiup run --hots w0 ./a.out", true},
		{"mpiup run -n many ./a.out", true},
		{"mpiup runs ./a.out", true},
		{"mpiup version now", true},
		{"mpiup run", true},
		{"kubectl mpiup ps mpijob/pi -n team --watch 2", true},
		{"kubectl mpiup ps mpijob/pi -n team --watch", false},
		{"kubectl mpiup bottom pi", true},
		{"mpirun -np 4 ./a.out", false},
		{"mpirun --max-restarts N", false},
		{"mpirun -N", false},
		{"mpirun --no-such 4 ./a.out", true},
		{"mpiup mpiexec -n many ./a.out", true},
		{"horovodrun -np 4 --gloo python train.py", false},
		{"horovodrun --glue", true},
		{"torchrun --nnodes 1:4", false},
		{"ssh -l USER", false},
		{"ssh -o ConnectTimeout=5 w0 hostname", false},
		{"mpiup ssh w0", false},
		{"ssh -Z w0 hostname", true},
		{"ssh -o ConnectTimeout=soon w0 hostname", true},
		{"ssh-keygen -t ed25519 -N '' -f key", false},
		{"ssh-keygen -t ed25519 -N quoted -f key", true},
		{"mpiup sshd -De", false},
		{"sshd --listen 0.0.0.0", true},
		{"ssh-keygen -Q w0", true},
		{"torchrun --nnodes none train.py", true},
	} {
		if err := readsCommand(tt.command); (err != nil) != tt.fails {
			t.Errorf("%s: %v", tt.command, err)
		}
	}
}

// pages are the Markdown files of users.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"../../README.md", "../../SECURITY.md", "../../CONTRIBUTING.md"}
	for _, root := range []string{"../../docs", "../../examples"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".md") {
				found = append(found, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// What mpiup says names commands, too: in each text of the product "mpiup COMMAND --flag" has that flag, and
// "mpiup help TOPIC" that topic.
func TestCommandsInTexts(t *testing.T) {
	t.Parallel()
	root, read := rootCommand(&process{}, ""), 0
	for _, file := range sources(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			for _, m := range advised.FindAllStringSubmatch(lit.Value, -1) {
				c, _, err := root.Find(m[1:2])
				switch {
				case m[1] == "help" && m[3] != "":
					read++
					if err := readsTopic(m[3:4]); err != nil {
						t.Errorf("%s: %s: %v", file, m[0], err)
					}
				case err == nil && c != root && m[2] != "":
					read++
					for name := range strings.FieldsSeq(m[2]) {
						if name != "--help" && !c.DisableFlagParsing && c.Flags().Lookup(strings.TrimPrefix(name, "--")) == nil {
							t.Errorf("%s: %s has no %s", file, m[0], name)
						}
					}
				}
			}
			return true
		})
	}
	if read < 40 {
		t.Errorf("only %d were found", read)
	}
}

var advised = regexp.MustCompile(`\bmpiup ([a-z][a-z-]*)((?: --[a-z][a-z-]*)*)(?: ([a-z][a-z-]*[a-z]))?`)

// sources are the product's Go files.
func sources(t *testing.T) (files []string) {
	t.Helper()
	for _, root := range []string{"cmd", "launcher", "agent", "pmi", "topology", "gpu", "rdma", "internal"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".pb.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

var (
	prompt = regexp.MustCompile(`^(?:[$#] |sudo |RUN |exec |[A-Z][A-Z0-9_]*=(?:\$\([^)]*\)|\S)* )*(?:\S*/)?`)
	listed = regexp.MustCompile(`command: \[("?mpiup"?(?:, [^]]*)?)\]`)   // a container's, in YAML
	behind = regexp.MustCompile(` {2,}\S.*$| #.*$| [<>|&;].*$|(?: \\)?$`) // a remark, a redirection, another command
	phrase = regexp.MustCompile(`"[^"]*"|'[^']*'`)
)

// written is the command of mpiup in a line, without what stands around it. A name in prose alone is none.
func written(line string) (string, bool) {
	line = strings.TrimSpace(line)
	for _, before := range []string{" -- ", "&& ", "| "} { // kubectl exec POD -- mpiup ps
		if _, inner, ok := strings.Cut(line, before+"mpiup "); ok {
			line = "mpiup " + inner
		}
	}
	if m := listed.FindStringSubmatch(line); m != nil {
		line = strings.NewReplacer(`", "`, " ", ", ", " ", `"`, "").Replace(m[1])
		return line, strings.Contains(line, " ")
	}
	line = line[len(prompt.FindString(line)):]
	name, _, _ := strings.Cut(line, " ")
	if name != "mpiup" && !strings.HasPrefix(line, "kubectl mpiup ") && !slices.Contains(otherNames, name) {
		return "", false
	}
	// What is quoted is one word, whatever stands in it.
	line = phrase.ReplaceAllStringFunc(line, func(words string) string {
		if len(words) == len(nothing) {
			return nothing
		}
		return "quoted"
	})
	line = strings.TrimSpace(behind.ReplaceAllString(line, ""))
	return line, len(strings.Fields(strings.TrimPrefix(line, "kubectl "))) > 1
}

// otherNames are programs' for which mpiup stands in, and whose lines it reads as they are written for those.
var otherNames = []string{"mpirun", "mpiexec", "horovodrun", "torchrun", "ssh", "sshd", "ssh-keygen"}

// nothing is an empty word.
const nothing = "''"

// readsOther parses a line of another launcher's. One that names options alone, as prose does, gets a program.
func readsOther(words []string) error {
	read := func(words []string) error {
		outside := line.Outside{Lookup: func(string) (string, bool) { return "", false }, Dir: "/", Host: "here",
			Hostfile: func(string, hostlist.Dialect) ([]hostlist.Entry, error) {
				return []hostlist.Entry{{Name: "w0", Slots: 8, Given: true}}, nil
			},
			Operators: func() ([]hostlist.Entry, error) { return nil, nil }}
		switch words[0] {
		case "horovodrun":
			_, err := training.ParseHorovodrun(words[1:])
			return err
		case "ssh":
			_, err := ssh.Parse(words[1:])
			return err
		case "sshd":
			_, err := parseSSHD(words[1:])
			return err
		case "ssh-keygen":
			_, err := ssh.ParseKeygen(words[1:])
			return err
		case "torchrun":
			_, err := training.ParseTorchrun(words[1:], outside.Lookup, func(string) (int, error) { return 1, nil })
			return err
		}
		decided, err := mpirun.Decide(words[0], words[1:], outside.Lookup, func([]string) string { return "" })
		if err == nil {
			_, err = mpirun.Parse(decided.Family, words[1:], outside)
		}
		return err
	}
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "..." })
	for i, w := range words {
		switch {
		case w == nothing:
			words[i] = ""
		case placeholder.MatchString(w):
			words[i] = "4"
		}
	}
	err := read(words)
	for _, more := range [][]string{{"a.out"}, {"4", "a.out"}, {"-np", "4", "a.out"}, {"4", "-np", "4", "a.out"}} {
		if err != nil && read(append(slices.Clone(words), more...)) == nil {
			return nil
		}
	}
	return err
}

// readsCommand parses a command and runs nothing.
func readsCommand(command string) error {
	words := strings.Fields(command)
	if words[0] == "mpiup" && len(words) > 1 && slices.Contains(otherNames, words[1]) {
		words = words[1:]
	}
	if slices.Contains(otherNames, words[0]) {
		return readsOther(words)
	}
	if words[0] == "kubectl" {
		l, err := kubectl.Parse(words[2:])
		if err != nil {
			return err
		}
		words = append([]string{"mpiup", l.Command}, l.Words...)
	}
	root := rootCommand(&process{}, "")
	c, _, err := root.Find(words[1:2])
	switch {
	case words[1] == "help":
		return readsTopic(words[2:])
	case err != nil:
		return err
	case c == root && strings.HasPrefix(words[1], "-"):
		return root.ParseFlags(words[1:])
	case c == root:
		return fmt.Errorf("no command %s", words[1])
	case c.DisableFlagParsing:
		return nil // other programs' names have tables, and tests of those
	}
	args := oneDash(root, words[1:])[1:]
	stand(c.Flags(), args)
	if c.Name() == "run" {
		return readsRun(args)
	}
	if err := c.ParseFlags(args); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

// readsTopic finds what mpiup help is asked for: a command, a page, or a kind of failure.
func readsTopic(words []string) error {
	if len(words) == 0 || placeholder.MatchString(words[0]) {
		return nil
	}
	_, _, err := rootCommand(&process{}, "").Find(words)
	for _, page := range docs.Pages() {
		_, kind := page.Section(words[0])
		if err == nil || page.Name == words[0] || words[0] == "topics" || kind && page.Name == "troubleshooting" {
			return nil
		}
	}
	return fmt.Errorf("no topic %s", words[0])
}

func readsRun(args []string) error {
	f, set := &cli.RunFlags{}, pflag.NewFlagSet("run", pflag.ContinueOnError)
	set.Usage = func() {}
	f.Register(set)
	if err := set.Parse(args); err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}
	if set.NArg() == 0 {
		return errors.New("no program")
	}
	return nil
}

// mentions says that a sentence speaks of a command by its name, or of flags of it ("`mpiup agent --grace`"), and gives no arguments.
func mentions(command string) bool {
	words := strings.Fields(command)
	c, _, err := rootCommand(&process{}, "").Find(words[1:2])
	if err != nil || words[0] == "kubectl" || !c.HasFlags() {
		return false
	}
	args := oneDash(c.Root(), words[1:])[1:]
	known := func(word string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		return strings.HasPrefix(word, "--") && (name == "help" || c.Flags().Lookup(name) != nil)
	}
	if !slices.ContainsFunc(args, func(word string) bool { return !known(word) }) {
		return true
	}
	stand(c.Flags(), args)
	return c.ParseFlags(args) == nil && c.Flags().NArg() == 0
}

var placeholder = regexp.MustCompile(`^[A-Z]+(?:\*[A-Z]+)*$`)

// stand puts a value where a flag that takes a number or a time has a name for it ("-n N").
func stand(set *pflag.FlagSet, args []string) {
	for i := range args {
		name, value, joined := strings.Cut(args[i], "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		if !strings.HasPrefix(name, "-") || !placeholder.MatchString(value) {
			continue
		}
		name = strings.TrimLeft(name, "-")
		f := set.Lookup(name)
		if f == nil && len(name) == 1 {
			f = set.ShorthandLookup(name)
		}
		if f == nil || f.Value.Set(value) == nil {
			continue
		}
		for _, v := range []string{"4", "30s"} {
			switch {
			case f.Value.Set(v) != nil:
			case joined:
				args[i] = "--" + f.Name + "=" + v
			default:
				args[i+1] = v
			}
		}
	}
}

// Around a command there may be a shell, a Dockerfile or a manifest.
func TestCommandsAreSeen(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"$ mpiup run -n 4 ./a.out   # here":                            "mpiup run -n 4 ./a.out",
		"RUN mpiup install --names all /usr/local/bin && ln -s a b":    "mpiup install --names all /usr/local/bin",
		"T0=$(date +%s%N) mpiup run -n 4 -x T0 ./hello":                "mpiup run -n 4 -x T0 ./hello",
		`  command: ["mpiup", "run", "-n", "16", "./train"]`:           "mpiup run -n 16 ./train",
		"  exec: {command: [mpiup, agent, --check]}":                   "mpiup agent --check",
		"kubectl exec pi-0 -- mpiup ps --json | jq":                    "mpiup ps --json",
		"mpirun -np 16 --map-by ppr:8:node ./train        # operators": "mpirun -np 16 --map-by ppr:8:node ./train",
		"mpirun.mpich -launcher ssh":                                   "",
		"mpiup: waited 3s (--wait) for 2 hosts":                        "",
	} {
		if got, ok := written(line); ok != (want != "") || ok && got != want {
			t.Errorf("in %s is %q, %v", line, got, ok)
		}
	}
}
