package mpirun

import (
	"fmt"
	"strings"
)

// readAppfile takes the programs of --app or -configfile: on each line what stands between two ":"
// of a command line. Blank lines and those that begin with "#" are none.
func (p *parser) readAppfile() error {
	if len(p.line.Contexts) > 0 {
		return fmt.Errorf("programs are named on the command line and in %s; name them in one place", p.appfile)
	}
	text, err := p.out.ReadFile(p.appfile)
	if err != nil {
		return fmt.Errorf("%s: %w", p.appfile, err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words, err := split(line)
		if err == nil {
			p.ctx, p.first = Context{}, len(p.line.Contexts) == 0
			p.ctx.Argv, err = p.options(words)
		}
		if err == nil && len(p.ctx.Argv) == 0 {
			err = fmt.Errorf("no program is named")
		}
		if err != nil {
			return fmt.Errorf("%s line %d: %w", p.appfile, n, err)
		}
		p.line.Contexts = append(p.line.Contexts, p.ctx)
	}
	return nil
}

// split cuts a line into words at blanks that no quotes hold.
func split(line string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	in := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t':
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}
