// Package policy says what an agent starts for whom: a table of kinds of start and roles of
// certificates. Without a policy it is
//
//	         launcher  agent
//	run      yes       no     ranks of jobs
//	exec     yes       no     mpiup exec
//	shell    yes       no     commands and shells by the name of ssh
//	copy     yes       no     files for ranks (--preload-binary, --preload-files)
//	spawn    yes       no     ranks that ranks ask for (MPI_Comm_spawn)
//	look     yes       no     what ranks do and where they are (mpiup ps, mpiup stacks); launchers only, whatever a policy says
//
// A policy is written as rules, one a line in a file, in any order:
//
//	# what          whose certificate
//	allow run,exec  launcher
//	deny  shell     *
//
// An agent refuses what no rule allows, and what a rule denies it refuses whatever others allow. So a file lists all
// that may be started, and a kind of start that a later mpiup learns is refused until the file names it.
//
// A Policy does not change; it may be used by any number of goroutines. The package reads no files.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/identity"
)

// Kind is what is to be started.
type Kind uint8

// The kinds of start.
const (
	Run   Kind = iota // ranks
	Exec              // a command, as words
	Shell             // a command as text for the user's shell, or a shell
	Copy              // files
	Spawn             // ranks that ranks ask for
	Look              // at what ranks do
	kinds = iota
)

var kindNames = [kinds]string{"run", "exec", "shell", "copy", "spawn", "look"}

func (k Kind) String() string { return kindNames[k] }

// roles are the table's columns.
var roles = [...]identity.Role{identity.RoleLauncher, identity.RoleAgent}

// cell is one entry of the table: the rules that name it, "" for none.
type cell struct{ allow, deny string }

// Policy is the table. nil is the default.
type Policy struct {
	from    string // file, or the flag as it was written
	nothing string // the rule for what no other rule names
	cells   [kinds][len(roles)]cell
}

// Refusal is a start that the policy does not allow.
type Refusal struct {
	Kind Kind
	Role identity.Role
	Rule string // as a person finds it: `--deny exec`, `line 3 of /etc/policy, "deny exec *"`
	Else string // what the role may start, "run, exec"; "" is nothing
}

// Error says what is refused and what to do, without the host.
func (r *Refusal) Error() string {
	instead := "nothing else"
	if r.Else != "" {
		instead = r.Else
	}
	return fmt.Sprintf("the agent's policy refuses %v to %ss (%s) and allows them %s; whoever starts the agent can change that",
		r.Kind, r.Role, r.Rule, instead)
}

// Check returns a *Refusal unless who may start things of the kind. A certificate of two roles may start what
// either of them may.
func (p *Policy) Check(k Kind, who identity.Peer) error {
	if p.allows(k, who.Role) || who.Also != "" && p.allows(k, who.Also) {
		return nil
	}
	r := &Refusal{Kind: k, Role: who.Role, Rule: "the default, without --policy", Else: p.list(who.Role, Look)}
	if p != nil {
		r.Rule = p.nothing
		if c := column(who.Role); c >= 0 && p.cells[k][c].deny != "" {
			r.Rule = p.cells[k][c].deny
		}
	}
	return r
}

// Callers are the roles that may start anything at all. Launchers are always among them, since an agent tells
// them what they may not start.
func (p *Policy) Callers() []identity.Role {
	return slices.DeleteFunc(slices.Clone(roles[:]), func(r identity.Role) bool { return r != identity.RoleLauncher && p.list(r, Shell) == "" })
}

// String is the policy for a log.
func (p *Policy) String() string {
	if p == nil {
		return "launcher: everything"
	}
	var b strings.Builder
	for _, r := range roles {
		if l := p.list(r, Look); l != "" {
			fmt.Fprintf(&b, "%s: %s; ", r, l)
		}
	}
	return b.String() + "all else is refused (" + p.from + ")"
}

func (p *Policy) allows(k Kind, r identity.Role) bool {
	c := column(r)
	if p == nil || c < 0 {
		return r == identity.RoleLauncher
	}
	if k == Look && r == identity.RoleAgent { // whatever the rules say: what runs here is no neighbour's business
		return false
	}
	return p.cells[k][c].allow != "" && p.cells[k][c].deny == ""
}

// list is what a role may start, of the kinds up to last.
func (p *Policy) list(r identity.Role, last Kind) string {
	var names []string
	for k := range last + 1 {
		if p.allows(k, r) {
			names = append(names, k.String())
		}
	}
	return strings.Join(names, ", ")
}

// column is a role's place in the table, -1 for one that it does not have.
func column(role identity.Role) int { return slices.Index(roles[:], role) }
