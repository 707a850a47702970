package visible

import "testing"

// A name that somebody pastes into a shell is one word, and no option.
func TestPath(t *testing.T) {
	for file, want := range map[string]string{
		"key": "key", "/var/run/key": "/var/run/key", "-rf": "./-rf", "my key": "'my key'", "a$(reboot)": "'a$(reboot)'", "it's": `'it'\''s'`, "a\nb": `$'a\x0ab'`,
		"caf\xe9 it's \\n": `$'caf\xe9 it\'s \\n'`, "é": "'é'",
	} {
		if got := Path(file); got != want {
			t.Errorf("%q: %s, want %s", file, got, want)
		}
	}
}
