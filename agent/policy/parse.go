package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/identity"
)

// MaxFile bounds a policy file, in bytes.
const MaxFile = 64 << 10

const anything = "*" // every kind, or every role

// Parse reads the rules of a file; name is what messages call it. A file that allows nothing is
// an error: an empty one is mostly a mistake.
func Parse(name, text string) (*Policy, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("%s: a policy of more than %d bytes", name, MaxFile)
	}
	p := &Policy{from: name, nothing: "no line of " + name + " allows it"}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		rule := fmt.Sprintf("line %d of %s, %.80q", n, name, strings.Join(words, " "))
		if err := p.rule(words, rule); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
	}
	return p, p.check()
}

// Allow is the policy of --allow: only what the items name, "run,exec,shell:agent". An item is a
// kind and, after a colon, a role, which is launcher where none is written.
func Allow(items string) (*Policy, error) {
	p := &Policy{from: "--allow " + items}
	p.nothing = p.from
	return p.items(items, p.from, false)
}

// Deny is the policy of --deny: what agents do without a policy, but for the items.
func Deny(items string) (*Policy, error) {
	p := &Policy{from: "--deny " + items, nothing: "the default"}
	for k := range p.cells {
		p.cells[k][column(identity.RoleLauncher)].allow = "the default"
	}
	return p.items(items, p.from, true)
}

func (p *Policy) items(items, rule string, deny bool) (*Policy, error) {
	for item := range strings.SplitSeq(items, ",") {
		kind, role, given := strings.Cut(strings.TrimSpace(item), ":")
		if !given {
			role = string(identity.RoleLauncher)
		}
		if err := p.set(kind, role, rule, deny); err != nil {
			return nil, fmt.Errorf("%s: %w", rule, err)
		}
	}
	return p, p.check()
}

func (p *Policy) rule(words []string, rule string) error {
	if len(words) != 3 {
		return fmt.Errorf("%d words, and a rule has three; write for example: allow run,exec launcher", len(words))
	}
	deny := words[0] == "deny"
	if !deny && words[0] != "allow" {
		return fmt.Errorf("%.40q is neither allow nor deny", words[0])
	}
	for kind := range strings.SplitSeq(words[1], ",") {
		for role := range strings.SplitSeq(words[2], ",") {
			if err := p.set(kind, role, rule, deny); err != nil {
				return err
			}
		}
	}
	return nil
}

// set notes a rule in the cells that it names; the first of several counts.
func (p *Policy) set(kind, role, rule string, deny bool) error {
	kindKnown, roleKnown := kind == anything, role == anything
	for k, kindName := range kindNames {
		if kind != anything && kind != kindName {
			continue
		}
		kindKnown = true
		for c, roleName := range roles {
			if role != anything && role != string(roleName) {
				continue
			}
			roleKnown = true
			at := &p.cells[k][c].allow
			if deny {
				at = &p.cells[k][c].deny
			}
			if *at == "" {
				*at = rule
			}
		}
	}
	switch {
	case !kindKnown:
		return fmt.Errorf("%.40q is nothing that an agent starts; use run, exec, shell, copy, spawn, look or *", kind)
	case !roleKnown:
		return fmt.Errorf("%.40q is no role; use launcher, agent or *", role)
	}
	return nil
}

// check refuses a policy with which an agent would be of no use.
func (p *Policy) check() error {
	if slices.ContainsFunc(roles[:], func(r identity.Role) bool { return p.list(r, Shell) != "" }) {
		return nil
	}
	return fmt.Errorf("%s: nobody could start anything; allow run to launchers at least", p.from)
}
