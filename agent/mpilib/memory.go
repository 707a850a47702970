package mpilib

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/mpilib/script"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
)

// Query is a command as a rank will be started.
type Query struct {
	Argv []string
	Env  []string // NAME=value, the whole environment
	Dir  string   // absolute
}

// Memory looks, and remembers. What it found holds as long as the files and variables it asked for
// are as they were.
type Memory struct {
	fsys fs.FS

	mu      sync.Mutex
	choices map[string]*remembered // by command and directory, guarded by mu
}

// remembered is a choice and what it was made of. It does not change.
type remembered struct {
	choice Choice
	files  map[string]state
	vars   map[string]string
}

// NewMemory makes an empty one. fsys is the tree that the programs see, bounded.Tree("/").
func NewMemory(fsys fs.FS) *Memory {
	return &Memory{fsys: fsys, choices: map[string]*remembered{}}
}

// Look says which protocol a command's ranks need. It returns within two seconds, whatever the
// file systems do: one that does not answer costs a goroutine until it does.
func (m *Memory) Look(q Query) Choice {
	if len(q.Argv) == 0 {
		return Choice{Protocol: job.PMI1, Why: "no program is named"}
	}
	q.Argv = slices.Clone(q.Argv[:min(len(q.Argv), maxArgs)])
	return answered(func() Choice { return m.look(q) },
		Choice{Protocol: job.PMI1, OldHwloc: true,
			Why: fmt.Sprintf("the file system of %s or its libraries did not answer within %v", printable(q.Argv[0]), lookDeadline)})
}

// answered is what f returns, or otherwise where it does not within the deadline. f's goroutine
// ends when the file system answers.
func answered[T any](f func() T, otherwise T) T {
	if got, in := awake.Call(lookDeadline, f); in {
		return got
	}
	return otherwise
}

func (m *Memory) look(q Query) Choice {
	key := strings.Join(q.Argv, "\x00") + "\x00\x00" + q.Dir
	vars := parseEnv(q.Env)
	if c, ok := m.remember(key, vars); ok {
		return c
	}
	asked := &asked{vars: vars, seen: map[string]string{}}
	k := &look{files: newFiles(m.fsys, time.Now().Add(lookDeadline))}
	c := command{Argv: q.Argv, Env: script.EnvOf(asked.lookup), Dir: q.Dir}
	r := &remembered{choice: k.choose(c, k.command(c, 0)), files: k.files.seen, vars: asked.seen}
	if k.files.spent() {
		if r.choice.Library == "" {
			r.choice.Why = "looking for an MPI library in " + printable(q.Argv[0]) + " took too long"
		}
		return r.choice
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.choices) >= maxRemember {
		clear(m.choices)
	}
	m.choices[key] = r
	return r.choice
}

// remember answers from memory, if all is as it was.
func (m *Memory) remember(key string, vars map[string]string) (Choice, bool) {
	m.mu.Lock()
	r := m.choices[key]
	m.mu.Unlock()
	if r == nil {
		return Choice{}, false
	}
	now := &asked{vars: vars, seen: map[string]string{}}
	for name, v := range r.vars {
		if now.lookup(name) != v {
			return Choice{}, false
		}
	}
	for p, s := range r.files {
		if stateOf(m.fsys, p) != s {
			return Choice{}, false
		}
	}
	return r.choice, true
}

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
