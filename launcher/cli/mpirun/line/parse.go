package line

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
)

// Rules are what a family's command lines have of their own.
type Rules struct {
	Family  Family
	Dialect hostlist.Dialect
	Rows    []Row // all options
	// Split takes an option's word apart; nil: one hyphen or two, then the name, and a value may follow "=".
	Split func(word string) (name, value string, joined bool)
	// Other is the options of the other family; nil: there is none.
	Other func() []Row
	// Folded is told an option that was found only in lower case; nil: case counts.
	Folded func(option string)
	// Anywhere says that all options may stand before any program.
	Anywhere bool
	// Hasty says that who asks for help or the version wants nothing else, whatever stands behind.
	Hasty bool
	// Program is the words of the one program, where they do not stand behind the options: torchrun and horovodrun know
	// no ":" that begins another, so nothing in these words is looked at. nil: programs stand on the line.
	Program []string
	// ReadPrograms reads the text of a file of programs.
	ReadPrograms func(file, text string) error
	// Hosts reads a hostfile.
	Hosts func(file string) ([]hostlist.Entry, error)
}

// Parser reads one command line. A family's rows set its fields.
type Parser struct {
	Rules Rules
	Line  Line
	Out   Outside
	Ctx   Context // the program that is being read
	First bool    // Ctx is the first

	Given    map[string]bool // options, by their usual names
	Listed   []string        // values of lists of hosts
	Hostfile string          // "": none given
	Slots    int             // of hosts without a number; 0: their own
	ForAll   []string        // NAME=value for every program

	table   map[string]*Row
	appfile string
	said    map[string]bool // options that do not count any more where a file has them; nil outside of MoreOptions
}

// Read reads the words after the launcher's own name, and then takes the steps, which join what was said in several
// places. Errors are the user's.
func (p *Parser) Read(r Rules, args []string, o Outside, steps ...func() error) (Line, error) {
	p.begin(r)
	p.Out, p.Line.Family = o, r.Family
	if err := p.Programs(args); err != nil {
		return Line{}, err
	}
	if p.Line.Version || p.Line.Help {
		return p.Line, nil
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return Line{}, err
		}
	}
	return p.Line, nil
}

func (p *Parser) begin(r Rules) {
	if r.Split == nil {
		r.Split = split
	}
	p.Rules, p.table, p.Given = r, Index(r.Rows), map[string]bool{}
}

// Options reads the options at the front of args alone, and returns the program's words.
func (p *Parser) Options(r Rules, args []string) ([]string, error) {
	p.begin(r)
	p.First = true
	return p.options(args)
}

// MoreOptions reads options of a file for the program in Ctx. Those that were said already, by their usual names, do not count. It returns the words
// behind them.
func (p *Parser) MoreOptions(words []string, said map[string]bool) ([]string, error) {
	if len(words) > MaxWords {
		return nil, fmt.Errorf("%d words; %d are possible", len(words), MaxWords)
	}
	p.said, p.First = said, true
	defer func() { p.said = nil }()
	return p.options(words)
}

// FirstFound is the first of some files that is there, with its text; "": none is. One that cannot be read is told of: the real launcher, whose name
// is given, would read it.
func (p *Parser) FirstFound(launcher string, places []string) (name, text string) {
	for _, place := range places {
		content, err := p.Out.FoundFile(place)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			p.Warn("%s, which the real %s reads, is not read: %v", place, launcher, err)
		default:
			return place, string(content)
		}
	}
	return "", ""
}

// MaxWords bounds a command line with all its files.
const MaxWords = 1 << 20

// Programs reads programs up to the end of args. A ":" at the end begins none.
func (p *Parser) Programs(args []string) error {
	if len(args) > MaxWords {
		return fmt.Errorf("a command line of %d words; %d are possible", len(args), MaxWords)
	}
	if p.Rules.Program != nil {
		return p.oneProgram(args)
	}
	for p.First = true; ; p.First = false {
		words, rest, more := Cut(args)
		if err := p.Program(words); err != nil {
			return err
		}
		only := p.Line.Version || p.Line.Help // which need no program
		switch {
		case len(p.Ctx.Argv) > 0:
			p.Line.Contexts = append(p.Line.Contexts, p.Ctx)
		case only:
		case more || len(words) > 0 && !p.First:
			return fmt.Errorf("program %d has no name; a program stands on each side of \":\"", len(p.Line.Contexts)+1)
		}
		if !more || only {
			return nil
		}
		args = rest
	}
}

// Program reads one program with the options before it.
func (p *Parser) Program(words []string) (err error) {
	p.Ctx = Context{}
	p.Ctx.Argv, err = p.options(words)
	if err == nil && len(p.Ctx.Argv) > 0 && p.Ctx.Argv[0] == "" {
		err = fmt.Errorf("program %d has an empty name", len(p.Line.Contexts)+1)
	}
	return err
}

// oneProgram reads the options of a line whose program is Rules.Program, word by word.
func (p *Parser) oneProgram(args []string) error {
	p.First = true
	p.Ctx = Context{}

	behind, err := p.options(args)
	if err != nil {
		return err
	}
	if len(behind) > 0 {
		return fmt.Errorf("%.60q stands between the options and the program", behind[0])
	}

	p.Ctx.Argv = slices.Clone(p.Rules.Program)
	if p.Ctx.Argv[0] == "" {
		return fmt.Errorf("the program has an empty name")
	}
	p.Line.Contexts = append(p.Line.Contexts, p.Ctx)
	return nil
}

// Cut divides words at the first ":".
func Cut(args []string) (before, after []string, found bool) {
	if i := slices.Index(args, ":"); i >= 0 {
		return args[:i], args[i+1:], true
	}
	return args, nil, false
}

// options takes the options at the front of words and returns the program's.
func (p *Parser) options(words []string) ([]string, error) {
	for len(words) > 0 {
		word := words[0]
		if len(word) < 2 || word[0] != '-' {
			return words, nil
		}
		rest := words[1:]
		if word == "--" {
			return rest, nil
		}
		name, value, joined := p.Rules.Split(word)
		r, values, err := p.find(word, name, value, joined)
		switch {
		case err != nil:
			return nil, err
		case r.Level == Refused: // whatever values it has
			return nil, p.Take(r, Option{Words: words[:1]})
		}
		take := min(r.Args-len(values), len(rest))
		values = append(values, rest[:take]...)
		if r.Joins && len(values) > 0 && strings.Contains(values[0], "=") {
			take -= len(values) - 1 // a second word that was taken is not needed
			name, v, _ := strings.Cut(values[0], "=")
			values = []string{name, v}
		}
		if len(values) < r.Args {
			return nil, fmt.Errorf("%s needs %s", word, Values(r.Args))
		}
		o := Option{Name: name, Values: values, Words: words[:1+take]}
		p.Line.Options = append(p.Line.Options, o)
		words = rest[take:]
		if err := p.Take(r, o); err != nil || p.Rules.Hasty && (p.Line.Version || p.Line.Help) {
			return nil, err
		}
	}
	return nil, nil
}

func split(word string) (name, value string, joined bool) {
	bare := strings.TrimLeft(word, "-")
	if len(word)-len(bare) > 2 {
		return "", "", false
	}
	return strings.Cut(bare, "=")
}

// find is an option's row, and its value where that is part of the word.
func (p *Parser) find(word, name, value string, joined bool) (*Row, []string, error) {
	if name == "" {
		return nil, nil, fmt.Errorf("unknown option %.60s", word)
	}
	r := p.table[name]
	if r == nil && p.Rules.Folded != nil {
		if r = p.table[strings.ToLower(name)]; r != nil {
			p.Rules.Folded(name)
		}
	}
	switch {
	case r == nil:
		return nil, nil, p.unknown(word, name)
	case !joined:
		return r, nil, nil
	case r.Level == Refused, r.Args == 1, r.Joins:
		return r, []string{value}, nil
	case r.Args == 0:
		return nil, nil, fmt.Errorf("%.60s: %s%s takes no value", word, Hyphens(name), name)
	}
	return nil, nil, fmt.Errorf("%.60s: %s%s takes %s, in words of their own", word, Hyphens(name), name, Values(r.Args))
}

func (p *Parser) unknown(word, name string) error {
	if f := p.Rules.Family; p.Rules.Other != nil && Index(p.Rules.Other())[name] != nil {
		return fmt.Errorf("unknown option %.60s: it is %s's, and this is read as %s's command line (MPIUP_FAMILY=openmpi or hydra chooses)", word, f.Other(), f)
	}
	return unknown(word, name, p.table)
}

// Take does what an option says, or a variable in its place, whose one word is NAME=value.
func (p *Parser) Take(r *Row, o Option) error {
	word, written := o.Words[0], strings.Join(o.Words, " ")
	switch {
	case p.said[r.Name()]:
		return nil
	case r.Level == Refused:
		return fmt.Errorf("%.60s: %s", word, r.Means)
	case r.Level == NoEffect:
		p.Without(written)
	case r.Level == Warned:
		p.Warn("%.200s has no effect: %s", written, plain(r.Means))
	case !r.Local && !p.First && !p.Rules.Anywhere:
		return fmt.Errorf("%s concerns all programs here and stands before the first", word)
	}
	p.Given[r.Name()] = true
	if r.Set == nil {
		return nil
	}
	if err := r.Set(o.Values); err != nil {
		return fmt.Errorf("%.200s: %w", written, err)
	}
	return nil
}

// Settle makes directories absolute and gives every program what is for all.
func (p *Parser) Settle() error {
	for i := range p.Line.Contexts {
		c := &p.Line.Contexts[i]
		if c.Wdir != "" {
			c.Wdir = p.Absolute(c.Wdir)
		}
		c.Env = Distinct(append(slices.Clone(p.ForAll), c.Env...))
	}
	return nil
}

// Absolute is a path as seen from the launcher's directory.
func (p *Parser) Absolute(path string) string { return Under(p.Out.Dir, path) }

// Under is a path as seen from a directory.
func Under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// Distinct leaves of several NAME=value of one name the last, in the place of the first.
func Distinct(env []string) (out []string) {
	at := make(map[string]int, len(env))
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if i, again := at[name]; again {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}

// Values says how many values an option has.
func Values(n int) string {
	if n == 1 {
		return "a value"
	}
	return fmt.Sprintf("%d values", n)
}
