package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// A policy that somebody meant to give is never none: a variable from an empty ConfigMap key, or a flag.
func TestPolicyThatIsEmpty(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(file, []byte("allow run launcher\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		env  map[string]string
		args []string
		err  string // "": none
		is   string // "": no policy
	}{
		{name: "nothing"},
		{name: "the variable names a file", env: map[string]string{"MPIUP_POLICY": file}, is: "run"},
		{name: "the variable is empty", env: map[string]string{"MPIUP_POLICY": ""}, err: "MPIUP_POLICY is set and empty"},
		{name: "the variable is empty beside a flag", env: map[string]string{"MPIUP_POLICY": ""}, args: []string{"--deny=exec"}, err: "MPIUP_POLICY is set and empty"},
		{name: "the flag is empty", args: []string{"--policy="}, err: "--policy: the value is empty"},
		{name: "both", env: map[string]string{"MPIUP_POLICY": file}, args: []string{"--deny=exec"}, err: "exclude each other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f policyFlags
			fs := pflag.NewFlagSet("agent", pflag.ContinueOnError)
			f.register(fs)
			if err := fs.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			p, err := f.read(func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok })
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, %v; want %q", p, err, tt.err)
				}
				return
			}
			if err != nil || (p != nil) != (tt.is != "") || p != nil && !strings.Contains(p.String(), tt.is) {
				t.Errorf("%v, %v", p, err)
			}
		})
	}
}
