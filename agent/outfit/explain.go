package outfit

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
)

// Given is one variable of a rank, and where it comes from, as `mpiup env` shows it.
type Given struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // "container", "user" (-x and what the launcher exports), "mpiup"
	Why   string `json:"why,omitempty"`
}

// ExplainVariable holds the Givens of a rank as JSON, for the process that shows them in the rank's place.
const ExplainVariable = "MPIUP_EXPLAIN"

// source is variables that mpiup computed for one reason.
type source struct {
	why  string
	vars []string // NAME=value
}

// explain says of each variable of an environment where it comes from: what stands last in the lists it was
// made of.
func explain(env, user []string, sources []source) []Given {
	list := make([]Given, 0, len(env))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		g := Given{Name: visible.UTF8(name), Value: visible.UTF8(value), From: "container"} // JSON would lose another byte
		if slices.Contains(user, kv) {
			g.From, g.Why = "user", "-x, --env or what the launcher exports"
		}
		for _, s := range sources {
			if slices.Contains(s.vars, kv) {
				g.From, g.Why = "mpiup", s.why
			}
		}
		list = append(list, g)
	}
	slices.SortStableFunc(list, func(a, b Given) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// explain makes of a rank what is started in its place when environments are to be shown: this program, which prints
// the explanation of one rank and nothing of the others.
func (r *Rank) explain(shown bool, user []string, sources []source) {
	if shown {
		text, _ := json.Marshal(explain(r.Env, user, sources)) // of texts alone: it does not fail
		r.Env = append(r.Env, ExplainVariable+"="+string(text))
	}
	r.Argv, r.Path = []string{"mpiup", "env", "--here"}, "/proc/self/exe"
}
