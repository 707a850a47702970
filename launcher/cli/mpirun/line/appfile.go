package line

import (
	"fmt"
	"reflect"
)

// ProgramFile names a file with programs and their options.
func (p *Parser) ProgramFile(v []string) error {
	p.appfile = v[0]
	return nil
}

// Appfile takes the programs of such a file. Neither launcher knows quotes there: words stand between blanks.
func (p *Parser) Appfile() error {
	switch {
	case p.appfile == "":
		return nil
	case len(p.Line.Contexts) > 0:
		return fmt.Errorf("programs are named on the command line and in %s; name them in one place", p.appfile)
	case !reflect.DeepEqual(p.Ctx, Context{Listed: p.Ctx.Listed}):
		return fmt.Errorf("the options of a program stand beside %s, and those of its programs in it; write them there", p.appfile)
	}
	file := p.appfile
	p.Listed = append(p.Listed, p.Ctx.Listed...)
	text, err := p.Out.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := p.Rules.ReadPrograms(file, string(text)); err != nil {
		return err
	}
	switch {
	case len(p.Line.Contexts) == 0:
		return fmt.Errorf("%s names no program", file)
	case p.appfile != file:
		return fmt.Errorf("%s names another file of programs, %s", file, p.appfile)
	}
	return nil
}
