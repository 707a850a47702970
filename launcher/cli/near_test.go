package cli

import (
	"testing"

	"github.com/spf13/pflag"
)

// Words that were mistyped are told what is near: a letter more, less or another, and two that changed places.
func TestNearWords(t *testing.T) {
	commands := []string{"help", "keygen", "logs", "peers", "ps", "run", "stacks", "why"}
	for word, want := range map[string]string{"hlep": "mpiup help", "stack": "mpiup stacks", "lgos": "mpiup logs", "wyh": "mpiup why", "keyegn": "mpiup keygen", "xyz": "",
		"kubectl": "kubectl mpiup COMMAND (mpiup help kubectl)", "train.py": "mpiup run -n N python3 train.py"} {
		if got := Meant(word, commands); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.String("key", "", "")
	fs.String("wait", "", "")
	for word, want := range map[string]string{"kye": "--key", "wiat": "--wait", "keys": "--key", "kex": "--key", "k": "", "yek": ""} {
		if got := nearest(fs, word); got != want {
			t.Errorf("--%s: %q, want %q", word, got, want)
		}
	}
}
