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
	p := &parser{line: Line{Family: f}, out: o, table: index(tableOf(f)), params: map[string]string{}}
	if err := p.parameters(); err != nil {
		return Line{}, err
	}
	if err := p.contexts(args); err != nil {
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

	listed   []string          // values of -H and the like that concern the whole line
	hostfile string            // "": none given
	params   map[string]string // Open MPI: parameters given on the command line
	common   []string          // NAME=value for every program
	appfile  string
}

// maxWords bounds a command line with all its files.
const maxWords = 1 << 20

// contexts reads programs up to the end of args.
func (p *parser) contexts(args []string) error {
	if len(args) > maxWords {
		return fmt.Errorf("a command line of %d words; %d are possible", len(args), maxWords)
	}
	for p.first = true; ; p.first = false {
		p.ctx = Context{}
		words, rest, more := cut(args)
		argv, err := p.options(words)
		if err != nil {
			return err
		}
		if p.line.Version || p.line.Help {
			return nil
		}
		p.ctx.Argv = argv
		switch {
		case len(argv) > 0:
			p.line.Contexts = append(p.line.Contexts, p.ctx)
		case more || !p.first:
			return fmt.Errorf("program %d has no name; a program stands on each side of \":\"", len(p.line.Contexts)+1)
		}
		if !more {
			return nil
		}
		args = rest
	}
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
		if r.joins && len(words) > 0 {
			if name, v, ok := strings.Cut(words[0], "="); ok {
				value, words = []string{name, v}, words[1:]
			}
		}
		if r.args > len(words)+len(value) {
			return nil, fmt.Errorf("%s needs %s", word, count(r.args, "value"))
		}
		take := r.args - len(value)
		value = append(value, words[:take]...)
		words = words[take:]
		if err := p.take(word, r, value); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// find is an option's row, and its value where that is part of the word.
func (p *parser) find(word string) (*row, []string, error) {
	name := strings.TrimLeft(word, "-")
	if len(word)-len(name) > 2 || name == "" {
		return nil, nil, fmt.Errorf("unknown option %s", word)
	}
	if r := p.table[name]; r != nil {
		return r, nil, nil
	}
	if name, value, ok := strings.Cut(name, "="); ok {
		if r := p.table[name]; r != nil && r.args == 1 {
			return r, []string{value}, nil
		}
	}
	if other := p.elsewhere(name); other != "" {
		return nil, nil, fmt.Errorf("unknown option %s: it is %s's, and this is %s's mpirun (MPIUP_FAMILY chooses)", word, other, p.line.Family)
	}
	return nil, nil, fmt.Errorf("unknown option %s; docs/mpirun.md lists them", word)
}

func (p *parser) elsewhere(name string) Family {
	for _, f := range []Family{OpenMPI, Hydra} {
		if f != p.line.Family && index(tableOf(f))[name] != nil {
			return f
		}
	}
	return ""
}

func (p *parser) take(word string, r *row, value []string) error {
	switch {
	case r.level == Refused:
		return fmt.Errorf("%s: %s", word, r.means)
	case !r.local && !p.first:
		return fmt.Errorf("%s concerns all programs and stands before the first", word)
	case r.level == NoEffect:
		p.line.Without = append(p.line.Without, strings.Join(append([]string{word}, value...), " "))
	}
	if r.set == nil {
		return nil
	}
	if err := r.set(p, value); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(append([]string{word}, value...), " "), err)
	}
	return nil
}

// finish joins what was said in several places.
func (p *parser) finish() (Line, error) {
	l := &p.line
	if l.Version || l.Help {
		return *l, nil
	}
	if p.appfile != "" {
		if err := p.readAppfile(); err != nil {
			return Line{}, err
		}
	}
	if len(l.Contexts) == 0 {
		return Line{}, errors.New("which program? write mpirun -n 4 ./a.out")
	}
	if err := p.hosts(); err != nil {
		return Line{}, err
	}
	for i := range l.Contexts {
		c := &l.Contexts[i]
		if c.Wdir != "" && !filepath.IsAbs(c.Wdir) {
			c.Wdir = filepath.Join(p.out.getenv("PWD"), c.Wdir)
		}
		env := slices.Clone(p.common)
		for _, kv := range c.Env {
			env = setVar(env, kv)
		}
		c.Env = env
	}
	return *l, nil
}

// setVar adds NAME=value; a later one replaces an earlier.
func setVar(env []string, kv string) []string {
	name, _, _ := strings.Cut(kv, "=")
	for i := range env {
		if strings.HasPrefix(env[i], name+"=") {
			env[i] = kv
			return env
		}
	}
	return append(env, kv)
}

func count(n int, noun string) string {
	if n == 1 {
		return "a " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
