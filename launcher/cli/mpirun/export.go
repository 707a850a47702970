package mpirun

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// maxVar is the longest variable a program can be started with (MAX_ARG_STRLEN of Linux).
const maxVar = 32*4096 - 1

// export is -x. A name that is not set is a warning, as with Open MPI. Values are taken as they are,
// quotes too.
func (p *parser) export(v []string) error {
	name, _, set := strings.Cut(v[0], "=")
	switch {
	case name == "" || strings.ContainsRune(v[0], 0):
		return errors.New("a variable has a name, and no zero byte")
	case set:
		return p.give(v[0])
	case strings.HasSuffix(name, "*"):
		for _, kv := range p.out.Environ {
			if n, _, ok := strings.Cut(kv, "="); ok && n != "" && strings.HasPrefix(n, strings.TrimSuffix(name, "*")) {
				if err := p.give(kv); err != nil {
					return err
				}
			}
		}
		return nil
	}
	value, ok := p.out.Lookup(name)
	if !ok {
		p.line.Warnings = append(p.line.Warnings, fmt.Sprintf("could not find environment variable %.100q, so ranks do not get it (-x)", name))
		return nil
	}
	return p.give(name + "=" + value)
}

// give is a variable of the program that is being read.
func (p *parser) give(kv string) error {
	if len(kv) > maxVar {
		name, _, _ := strings.Cut(kv, "=")
		return fmt.Errorf("variable %.60s has %d bytes, more than the %d that one can have", name, len(kv), maxVar)
	}
	p.ctx.Env = append(p.ctx.Env, kv)
	return nil
}

// setPrefix is what Open MPI does for --prefix DIR on a remote host.
func (p *parser) setPrefix(c *Context) {
	if c.prefix == "" {
		return
	}
	for _, d := range []struct{ name, dir string }{{"PATH", "bin"}, {"LD_LIBRARY_PATH", "lib"}} {
		value, rest := path.Join(c.prefix, d.dir), p.out.getenv(d.name)
		for _, kv := range c.Env {
			if v, ok := strings.CutPrefix(kv, d.name+"="); ok {
				rest = v
			}
		}
		if rest != "" {
			value += ":" + rest
		}
		c.Env = distinct(append(c.Env, d.name+"="+value))
	}
	c.prefix = ""
}
