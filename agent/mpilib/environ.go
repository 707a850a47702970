package mpilib

import (
	"strings"

	"github.com/mpiup/mpiup/agent/mpilib/script"
)

// asked is the variables of a look's beginning, and those that were asked for: a choice holds as
// long as they are the same.
type asked struct {
	vars map[string]string
	seen map[string]string // what was asked for; of one that is not set: script.Unset
}

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

// lookup is the value of a variable, or script.Unset.
func (a *asked) lookup(name string) string {
	v, ok := a.vars[name]
	if !ok {
		v = script.Unset
	}
	a.seen[name] = v
	return v
}
