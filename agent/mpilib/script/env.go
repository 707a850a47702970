package script

import "maps"

// Unset stands for a variable that is not there. No value can hold a zero byte.
const Unset = "\x00"

// Env is the environment of one command: that of the beginning and what wrappers and scripts changed.
// It is a value; With and Without return another. The zero Env is empty.
type Env struct {
	base  func(name string) string // a value, or Unset; nil: empty
	above map[string]string
}

// EnvOf is the environment that base looks up; base returns Unset for what is not there.
func EnvOf(base func(name string) string) Env { return Env{base: base} }

func (e Env) Lookup(name string) (value string, ok bool) {
	v, ok := e.above[name]
	if !ok {
		v = Unset
		if e.base != nil {
			v = e.base(name)
		}
	}
	if v == Unset {
		return "", false
	}
	return v, true
}

func (e Env) Get(name string) string {
	v, _ := e.Lookup(name)
	return v
}

// Size is about the bytes that another of it takes.
func (e Env) Size() int { return 64 * len(e.above) }

func (e Env) With(name, value string) Env {
	above := maps.Clone(e.above)
	if above == nil {
		above = map[string]string{}
	}
	above[name] = value
	return Env{e.base, above}
}

func (e Env) Without(name string) Env { return e.With(name, Unset) }
