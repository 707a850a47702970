package mpirun

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Parse reads the words after the launcher's own name. Errors are the user's.
func Parse(f Family, args []string, o Outside) (Line, error) {
	p := &parser{line: Line{Family: f}, out: o, table: index(tableOf(f)), params: map[string]string{}, given: map[string]bool{}}
	if err := p.programs(args); err != nil {
		return Line{}, err
	}
	return p.finish()
}

type parser struct {
	line  Line
	out   Outside
	table table
	ctx   Context // that is being read
	first bool    // ctx is the first

	given    map[string]bool   // options, by their usual names
	listed   []string          // values of -H and the like
	hostfile string            // "": none given
	slots    int               // of hosts without a number; 0: their own
	params   map[string]string // Open MPI: parameters of all programs given on the command line
	own      map[string]string // and of ctx alone, where it is not the first
	common   []string          // NAME=value for every program
	appfile  string
	tuned    []string // files of parameters

	mask          []string // Hydra: words of what sets the file mode mask
	seqFile       string   // of --map-by seq:FILE=; "": none
	seqMapper     bool     // --mca rmaps seq
	kernelNumbers bool     // CPUs in rankfiles are the kernel's
	hydraBind     string   // Hydra's -bind-to and -map-by, as given
	hydraMap      string
}

// maxWords bounds a command line with all its files.
const maxWords = 1 << 20

// programs reads programs up to the end of args. A ":" at the end begins none.
func (p *parser) programs(args []string) error {
	if len(args) > maxWords {
		return fmt.Errorf("a command line of %d words; %d are possible", len(args), maxWords)
	}
	for p.first = true; ; p.first = false {
		words, rest, more := cut(args)
		if err := p.program(words); err != nil || p.line.Version || p.line.Help {
			return err
		}
		switch {
		case len(p.ctx.Argv) > 0:
			p.line.Contexts = append(p.line.Contexts, p.ctx)
		case more || len(words) > 0 && !p.first:
			return fmt.Errorf("program %d has no name; a program stands on each side of \":\"", len(p.line.Contexts)+1)
		}
		if !more {
			return nil
		}
		args = rest
	}
}

// program reads one program with the options before it.
func (p *parser) program(words []string) (err error) {
	p.ctx, p.own = Context{}, map[string]string{}
	p.ctx.Argv, err = p.options(words)
	if err == nil && len(p.ctx.Argv) > 0 && p.ctx.Argv[0] == "" {
		err = fmt.Errorf("program %d has an empty name", len(p.line.Contexts)+1)
	}
	return err
}

func cut(args []string) (before, after []string, found bool) {
	if i := slices.Index(args, ":"); i >= 0 {
		return args[:i], args[i+1:], true
	}
	return args, nil, false
}

// options takes the options at the front of words and returns the program's.
func (p *parser) options(words []string) ([]string, error) {
	for len(words) > 0 {
		word := words[0]
		if len(word) < 2 || word[0] != '-' {
			return words, nil
		}
		words = words[1:]
		if word == "--" {
			return words, nil
		}
		r, value, err := p.find(word)
		if err != nil {
			return nil, err
		}
		if r.level == Refused {
			return nil, fmt.Errorf("%s: %s", word, r.means)
		}
		take := min(r.args-len(value), len(words))
		value = append(value, words[:take]...)
		if name, v, ok := strings.Cut(first(value), "="); ok && r.joins {
			take -= len(value) - 1 // a second word that was taken is not needed
			value = []string{name, v}
		}
		if len(value) < r.args {
			return nil, fmt.Errorf("%s needs %s", word, values(r.args))
		}
		words = words[take:]
		if err := p.take(word, r, value); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// find is an option's row, and its value where that is part of the word. Hydra does not look at
// case (HYDU_parse_array).
func (p *parser) find(word string) (*row, []string, error) {
	bare := strings.TrimLeft(word, "-")
	if len(word)-len(bare) > 2 || bare == "" {
		return nil, nil, fmt.Errorf("unknown option %.60s", word)
	}
	name, value, joined := strings.Cut(bare, "=")
	r := p.table[name]
	if r == nil && p.line.Family == Hydra {
		r = p.table[strings.ToLower(name)]
		if name == "H" {
			p.line.Warnings = append(p.line.Warnings, "-H is -help to Hydra; write the hosts as -hosts a,b:2, or in a file, -f FILE")
		}
	}
	switch {
	case r == nil:
		return nil, nil, p.unknown(word, name)
	case !joined:
		return r, nil, nil
	case r.level == Refused, r.args == 1, r.args == 2 && p.line.Family == Hydra:
		return r, []string{value}, nil
	case r.args == 0:
		return nil, nil, fmt.Errorf("%.60s: %s%s takes no value", word, hyphens(name), name)
	}
	return nil, nil, fmt.Errorf("%.60s: %s%s takes %s, in words of their own", word, hyphens(name), name, values(r.args))
}

func (p *parser) unknown(word, name string) error {
	for _, f := range []Family{OpenMPI, Hydra} {
		if f != p.line.Family && index(tableOf(f))[name] != nil {
			return fmt.Errorf("unknown option %.60s: it is %s's, and this is read as %s's command line (MPIUP_FAMILY=openmpi or hydra chooses)", word, f, p.line.Family)
		}
	}
	return fmt.Errorf("unknown option %.60s; --help lists them", word)
}

func (p *parser) take(word string, r *row, value []string) error {
	written := strings.Join(append([]string{word}, value...), " ")
	if len(value) > 0 && strings.Contains(word, "=") {
		written = word
	}
	switch {
	case r.level == NoEffect:
		p.without(written)
	case !r.local && !p.first && p.line.Family == OpenMPI:
		return fmt.Errorf("%s concerns all programs here and stands before the first", word)
	}
	p.given[r.name()] = true
	if r.set == nil {
		return nil
	}
	if err := r.set(p, value); err != nil {
		return fmt.Errorf("%.200s: %w", written, err)
	}
	return nil
}

// finish joins what was said in several places.
func (p *parser) finish() (Line, error) {
	l := &p.line
	if l.Version || l.Help {
		return *l, nil
	}
	for _, step := range []func() error{p.readAppfile, p.tune, p.environment, p.hosts, p.needProgram, p.sequence, p.binds} {
		if err := step(); err != nil {
			return Line{}, err
		}
	}
	p.masked()
	if l.OutputDir != "" {
		l.OutputDir = p.absolute(l.OutputDir)
	}
	for i := range l.Contexts {
		c := &l.Contexts[i]
		if c.Wdir != "" {
			c.Wdir = p.absolute(c.Wdir)
		}
		c.Env = distinct(append(slices.Clone(p.common), c.Env...))
		p.setPrefix(c)
	}
	return *l, nil
}

func (p *parser) needProgram() error {
	if len(p.line.Contexts) == 0 {
		return errors.New("which program? write mpirun -n 4 ./a.out")
	}
	return nil
}

func (p *parser) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(p.out.Dir, path)
}

// distinct leaves of several NAME=value of one name the last, in the place of the first.
func distinct(env []string) (out []string) {
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

func values(n int) string {
	if n == 1 {
		return "a value"
	}
	return fmt.Sprintf("%d values", n)
}
