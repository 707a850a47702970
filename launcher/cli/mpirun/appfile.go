package mpirun

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// readAppfile takes the programs of --app or -configfile. Neither launcher knows quotes there: words
// stand between blanks. "#" begins a comment, with Open MPI "//" too (parse_appfile of orterun).
//
// Open MPI reads each line as one program. Hydra reads the lines as if ":" stood between them; a
// line that ends in a "\" of its own goes on.
func (p *parser) readAppfile() error {
	switch {
	case p.appfile == "":
		return nil
	case len(p.line.Contexts) > 0:
		return fmt.Errorf("programs are named on the command line and in %s; name them in one place", p.appfile)
	case !reflect.DeepEqual(p.ctx, Context{listed: p.ctx.listed}):
		return fmt.Errorf("the options of a program stand beside %s, and those of its programs in it; write them there", p.appfile)
	}
	file := p.appfile
	p.listed = append(p.listed, p.ctx.listed...)
	text, err := p.out.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if p.line.Family == Hydra {
		if err := p.programs(configured(string(text))); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	} else if err := p.listedPrograms(string(text)); err != nil {
		return fmt.Errorf("%s %w", file, err)
	}
	switch {
	case len(p.line.Contexts) == 0:
		return fmt.Errorf("%s names no program", file)
	case p.appfile != file:
		return fmt.Errorf("%s names another file of programs, %s", file, p.appfile)
	}
	return nil
}

func (p *parser) listedPrograms(text string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		p.first = len(p.line.Contexts) == 0
		err := p.program(words)
		if err == nil && len(p.ctx.Argv) == 0 {
			err = errors.New("no program is named")
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		p.line.Contexts = append(p.line.Contexts, p.ctx)
	}
	return nil
}

// configured is the words of Hydra's configuration file.
func configured(text string) (words []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		more := strings.Fields(line)
		last := len(words) - 1
		switch {
		case len(more) == 0:
			continue
		case last >= 0 && words[last] == "\\":
			words = words[:last]
		case last >= 0 && words[last] != ":":
			words = append(words, ":")
		}
		words = append(words, more...)
	}
	return words
}
