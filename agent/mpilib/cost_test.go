package mpilib

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/mpilib/script"
	"github.com/mpiup/mpiup/test/cost"
)

// Scripts that were made to be followed for long, or into much memory.
var costly = []struct{ name, text string }{
	{"evals within evals", nested("$A$A$A$A$A$A$A$A$A$A$A$A$A$A$A$A")},
	{"a value that doubles", strings.Repeat("X=$X$X;", 64) + "X=aaaaaaaaaaaaaaaa\n" + strings.Repeat("X=$X$X\n", 5000)},
	{"a large value again and again", "X=" + strings.Repeat("x", 30_000) + "\n" + strings.Repeat("$X", 15_000)},
	{"a large value in echoes", "X=" + strings.Repeat("x", 30_000) + "\n" + strings.Repeat("$(echo $X $X)", 2_000)},
	{"all arguments again and again", strings.Repeat("$@ ", 20_000)},
	{"all arguments in evals", strings.Repeat("eval eval eval eval $@ $@ $@ $@\n", 2_000)},
	{"assignments before a command", strings.Repeat("a=1 ", 15_000) + "./mpich"},
	{"different assignments before a command", assignments(" ") + "./mpich"},
	{"different assignments", assignments("\n")},
	{"env and its words", "env -S '" + assignments(" ") + "' ./mpich"},
	{"directories below directories", strings.Repeat("cd a\n", 12_000)},
	{"directories within substitutions", "$(" + strings.Repeat("cd a;", 12_000) + ")"},
	{"a long path that is resolved", "$(realpath " + strings.Repeat("a/", 30_000) + ")"},
	{"a long PATH", "PATH=" + strings.Repeat("a:", 15_000) + "\n" + strings.Repeat("$(which b)", 3_000)},
	{"defaults within defaults", strings.Repeat("${A:-", 5_000) + strings.Repeat("}", 5_000) + strings.Repeat("${A:-}", 5_000)},
	{"brackets that never close", strings.Repeat("$(", 30_000)},
	{"a script that reads itself", strings.Repeat(". ./run.sh\n", 100)},
	{"a script that runs itself", strings.Repeat("./run.sh\n", 100)},
}

func nested(eight string) string {
	text := "A='" + strings.Repeat("x ", 100) + "'\n"
	for range 6 {
		text += "A='eval " + eight + "'\n"
	}
	return text + strings.Repeat("eval \"eval \\\"eval '$A $A $A' $A $A\\\" $A $A\"\n", 200)
}

func assignments(between string) string {
	var b strings.Builder
	for i := range 6_000 {
		fmt.Fprintf(&b, "v%d=1%s", i, between)
	}
	return b.String()
}

// budget is what one look may cost, whatever it looks at: its steps and files are bounded.
var budget = cost.Bound{Fixed: 96 << 20}

// Whatever a script says, the steps that it is followed for are bounded, and so is the memory.
func TestScriptsCost(t *testing.T) {
	for _, tt := range costly {
		t.Run(tt.name, func(t *testing.T) {
			files := both.with(tree{"work/run.sh": "#!/bin/sh\n" + tt.text}).fs()
			args := strings.Fields("./run.sh " + strings.Repeat("eval ", maxArgs-2) + strings.Repeat("y", 20_000))
			c := command{Argv: args, Env: script.EnvOf((&asked{vars: map[string]string{"PATH": "/bin:/usr/bin"}, seen: map[string]string{}}).lookup), Dir: "/work"}
			k := &look{files: newFiles(files, time.Now().Add(time.Hour))}
			cost.AtMost(t, budget, 0, func() { k.command(c, 0) })
			k.within(t)
			t.Logf("%d steps", k.files.steps)
		})
	}
}

// within fails the test where a look has done more than the limits allow, but for what was under way.
func (k *look) within(t *testing.T) {
	t.Helper()
	if f := k.files; f.steps > maxSteps+1<<20 || len(f.seen) > maxFiles+1 || f.opened > maxOpen+1 || f.bytes > maxBytes+maxLdCache || k.commands > maxCommands*(maxArgs+maxTries+1) {
		t.Errorf("%d steps, %d paths, %d files with %d bytes, %d commands", f.steps, len(f.seen), f.opened, f.bytes, k.commands)
	}
}

// After the deadline a look does no more.
func TestScriptsEndAtTheDeadline(t *testing.T) {
	for _, tt := range costly {
		k := &look{files: newFiles(both.fs(), time.Now().Add(-time.Second))}
		if got := script.Commands(tt.text, command{Argv: []string{"./run.sh"}, Dir: "/work"}, maxTries, k); len(got) > 0 || len(k.files.seen) > 0 {
			t.Errorf("%s: %d commands, %d files", tt.name, len(got), len(k.files.seen))
		}
	}
}
