package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/spf13/pflag"
)

// policyFlags say what an agent starts for whom. Lists add up, so that no repetition of a flag
// allows what the one before it took.
type policyFlags struct {
	file        string
	allow, deny []string
	set         *pflag.FlagSet
}

func (f *policyFlags) register(fs *pflag.FlagSet) {
	f.set = fs
	fs.StringVar(&f.file, "policy", "", "`FILE` that says what launchers may start here, read once (default: $MPIUP_POLICY, else everything)")
	fs.StringArrayVar(&f.allow, "allow", nil, "let launchers do only what `LIST` names of run, exec, shell, copy, spawn and look")
	fs.StringArrayVar(&f.deny, "deny", nil, "let launchers do everything but what `LIST` names of run, exec, shell, copy, spawn and look")
}

// read is the policy that flags or environment give, nil if none. Two are an error, and so is a
// name that turned out empty, of the flag or the variable: either may hide a rule that somebody relies on.
func (f *policyFlags) read(lookup func(string) (string, bool)) (*policy.Policy, error) {
	file, given := lookup("MPIUP_POLICY")
	var names []string
	if given && file == "" {
		return nil, errors.New("MPIUP_POLICY is set and empty: name a file, or unset it where launchers may start everything")
	}
	if given {
		names = append(names, "MPIUP_POLICY")
	}
	for _, name := range []string{"policy", "allow", "deny"} {
		if f.set.Changed(name) {
			names = append(names, "--"+name)
		}
	}
	if len(names) > 1 {
		return nil, fmt.Errorf("%s exclude each other: an agent has one policy", strings.Join(names, " and "))
	}
	switch {
	case len(names) == 0:
		return nil, nil
	case f.set.Changed("allow"):
		return policy.Allow(strings.Join(f.allow, ","))
	case f.set.Changed("deny"):
		return policy.Deny(strings.Join(f.deny, ","))
	case !given:
		if file = f.file; file == "" {
			return nil, errors.New("--policy: the value is empty; name a file")
		}
	}
	p, err := readPolicy(file)
	if err != nil && given {
		err = fmt.Errorf("MPIUP_POLICY: %w", err)
	}
	return p, err
}

func readPolicy(name string) (*policy.Policy, error) {
	text, err := bounded.File(name, policy.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	p, err := policy.Parse(name, string(text))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return p, nil
}
