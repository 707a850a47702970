package mpilib

import (
	"maps"
	"strings"
)

// asked is the variables of a look's beginning, and those that were asked for: a choice holds as
// long as they are the same.
type asked struct {
	vars map[string]string
	seen map[string]string // what was asked for; of one that is not set: unset
}

// unset stands for a variable that is not there. No value can hold a zero byte.
const unset = "\x00"

// anyMCA stands for all variables with parameters of Open MPI, such as mpirun -mca makes. No
// variable that a process has asked for by name is called so.
const anyMCA = "OMPI_MCA_*"

func parseEnv(env []string) map[string]string {
	vars := make(map[string]string, len(env))
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			vars[name] = value
			if strings.HasPrefix(name, "OMPI_MCA_") {
				vars[anyMCA] = "set"
			}
		}
	}
	return vars
}

func (a *asked) lookup(name string) string {
	v, ok := a.vars[name]
	if !ok {
		v = unset
	}
	a.seen[name] = v
	return v
}

// environ is the environment of one command: the look's own and what wrappers and scripts changed.
// It is a value; with and clear return another.
type environ struct {
	base  *asked // nil: empty
	above map[string]string
}

func (e environ) lookup(name string) (value string, ok bool) {
	v, ok := e.above[name]
	if !ok {
		v = unset
		if e.base != nil {
			v = e.base.lookup(name)
		}
	}
	if v == unset {
		return "", false
	}
	return v, true
}

func (e environ) get(name string) string {
	v, _ := e.lookup(name)
	return v
}

// size is about the bytes that another of it takes.
func (e environ) size() int { return 64 * len(e.above) }

func (e environ) with(name, value string) environ {
	above := maps.Clone(e.above)
	if above == nil {
		above = map[string]string{}
	}
	above[name] = value
	return environ{e.base, above}
}

func (e environ) without(name string) environ { return e.with(name, unset) }
