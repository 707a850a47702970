package agent

import (
	"encoding/json"
	"slices"
	"strings"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/rdma"
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

// because makes a source of each variable that has a reason of its own.
func because(list []rdma.Variable) (sources []source) {
	for _, v := range list {
		sources = append(sources, source{v.Why, []string{v.Name + "=" + v.Value}})
	}
	return sources
}

// all is the sources' variables, in their order.
func all(sources []source) (vars []string) {
	for _, s := range sources {
		vars = append(vars, s.vars...)
	}
	return vars
}

// explain says of each variable of an environment where it comes from: what stands last in the lists it was
// made of.
func explain(env, user []string, sources []source) []Given {
	list := make([]Given, 0, len(env))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		g := Given{Name: name, Value: value, From: "container"}
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

// explanation is the variable that carries it.
func explanation(env, user []string, sources []source) string {
	text, err := json.Marshal(explain(env, user, sources))
	if err != nil {
		return ExplainVariable + "=[]"
	}
	return ExplainVariable + "=" + string(text)
}

// sources are what mpiup computes for a rank. Later ones win over earlier ones.
func (p *proc) sources(app *apiv1.App, wire []string) []source {
	st := p.step
	network := "--mpi-ports"
	if st.net.choice.Name != "" {
		network = "MPI uses interface " + st.net.choice.Name + ", since " + st.net.choice.Why
	}
	list := []source{
		{"which rank of which job this is", computedEnv(st.s.id, p.dir, st.launch, p.spec)},
		{"how the rank's MPI library reaches its agent", wire},
		{"the host's topology, so that libraries need not read /sys", p.hwlocVariables(app)},
		{network, p.networkVariables(app)},
		{"what a Python program has printed is not lost when it is ended", p.unbuffered(app)},
	}
	list = append(list, because(p.fabricVariables(app))...)
	for _, v := range p.meetingVariables(app) {
		list = append(list, source{v.Why, []string{v.Name + "=" + v.Value}})
	}
	return append(list,
		source{"the GPUs that the rank is given", p.gpuVariables(app)},
		source{"the CPUs that the rank is bound to", p.bindingVariables(app)},
		source{"where the launcher's files were copied to", st.fileVariables()})
}

// explained is what is started in a rank's place when environments are to be shown: this program, which prints
// the explanation of one rank and nothing of the others.
func (p *proc) explained(env, user []string, sources []source) (argv []string, path string, with []string) {
	if p.spec.Rank+1 == p.step.launch.Job.Explain {
		env = append(env, explanation(env, user, sources))
	}
	return []string{"mpiup", "env", "--here"}, "/proc/self/exe", env
}
