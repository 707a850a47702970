package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/internal/pattern"
)

var (
	flagWord = pattern.Of(`--[a-z][a-z0-9-]*[a-z0-9]`)
	variable = pattern.Of(`\$(MPIUP_[A-Z_]+)`)
	typed    = pattern.Of(`mpiup [a-z-]+[^;,()]*`) // a command of mpiup's, whose flags are its own
)

// Foreign is a sentence for who typed another command than mpiup's, such as torchrun. Flags of mpiup run in it that the command has not are
// told of at its end, with the variables that say the same. help lists the command's own options.
func Foreign(sentence, command, help string) string {
	words := flagWord().FindAllString(typed().ReplaceAllString(sentence, ""), -1)
	if len(words) == 0 {
		return sentence
	}
	own, run := flagWord().FindAllString(help, -1), pflag.NewFlagSet("", pflag.ContinueOnError)
	new(RunFlags).Register(run)
	var lacking, variables []string
	for _, word := range words {
		f := run.Lookup(word[2:])
		if f == nil || slices.Contains(own, word) || slices.Contains(lacking, word) {
			continue
		}
		lacking = append(lacking, word)
		if v := variable().FindStringSubmatch(f.Usage); v != nil && !slices.Contains(variables, v[1]) {
			variables = append(variables, v[1])
		}
	}
	switch {
	case lacking == nil:
		return sentence
	case variables == nil:
		return fmt.Sprintf("%s (%s: of mpiup run, not of %s)", sentence, strings.Join(lacking, ", "), command)
	}
	return fmt.Sprintf("%s (%s has no %s: set %s)", sentence, command, strings.Join(lacking, ", "), strings.Join(variables, ", "))
}
