// Package secret takes secrets out of what is shown to people and kept in files: variables, command lines and lines of output.
//
//	NAME=value ──MaskVariable──▶ NAME=***        by the name (table.go), else as text
//	argv       ──MaskCommand───▶ --password ***  by what stands before a word, and by the program (sshpass -p)
//	text       ──MaskText──────▶ ...             URLs' passwords, keys by their makers' beginnings, private keys, what follows a name that says so
//	lines      ──LineMasker────▶ ...             as text, and private keys of several lines
//
// Whatever prints a command line or a variable goes through it. It errs on the side of saying too little: a value that is no secret may be masked,
// as that of a variable which is called like one.
//
// PURE: functions share nothing, and may be called from any goroutine. Nothing is known of a secret that neither its name, nor its place, nor its form shows.
package secret

import (
	"path"
	"slices"
	"strings"
)

// Mask stands for what is not told.
const Mask = "***"

// MaskVariable is NAME=value without the value where the name says that it is a secret, else with the value as MaskText leaves it. A text that is
// no variable is masked as text.
func MaskVariable(kv string) string {
	name, value, ok := strings.Cut(kv, "=")
	switch {
	case !ok:
		return MaskText(kv)
	case value != "" && namesSecret(name):
		return name + "=" + Mask
	}
	return name + "=" + MaskText(value)
}

// IsVariable says that NAME=value may hold a secret, by its name or its value.
func IsVariable(kv string) bool {
	name, value, _ := strings.Cut(kv, "=")
	return namesSecret(name) || MaskText(value) != value
}

// namesSecret says that a variable's value is a secret, by its name.
func namesSecret(name string) bool {
	name = strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	contains := func(word string) bool { return strings.Contains(name, word) }
	endsIn := func(end string) bool { return strings.HasSuffix(name, end) }

	if slices.Contains(openNames, name) || slices.ContainsFunc(openEnds, endsIn) {
		return false
	}
	return slices.ContainsFunc(secretWords, contains) || slices.ContainsFunc(secretEnds, endsIn)
}

// MaskCommand is the words of a command line without its secrets: NAME=value is a variable, --password is followed by a secret, and so is what the table
// of programs has.
func MaskCommand(words []string) []string {
	out := make([]string, len(words))
	ofProgram := maskOfPrograms(words)
	for i, word := range words {
		masked, known := ofProgram[i]
		switch {
		case known:
			out[i] = masked
		case i > 0 && followsOption(words[i-1], word):
			out[i] = Mask
		case isAssignment(word):
			out[i] = MaskVariable(word)
		default:
			out[i] = MaskText(word)
		}
	}
	return out
}

// maskOfPrograms finds the words of a command line that are, or hold, a secret by the program that takes them, and what is shown of each. A
// program may stand behind others, as in env A=b sshpass -p it ssh host.
func maskOfPrograms(words []string) map[int]string {
	found := map[int]string{}
	for i, word := range words {
		program := path.Base(word)
		for _, of := range programOptions {
			if slices.Contains(of.programs, program) {
				of.maskFirst(words, i+1, found)
			}
		}
	}
	return found
}

// maskFirst adds to found the first secret of a program among the words from one on: a further option of that name is another program's, as in
// sshpass -p it ssh -p 22.
func (o *programOption) maskFirst(words []string, from int, found map[int]string) {
	if o.subcommand != "" {
		at := slices.Index(words[from:], o.subcommand)
		if at < 0 {
			return
		}
		from += at + 1
	}
	for i := from; i < len(words); i++ {
		if slices.Contains(o.options, words[i]) && i+1 < len(words) {
			user, _, both := strings.Cut(words[i+1], o.behind)
			switch {
			case o.behind == "":
				found[i+1] = Mask
			case both:
				found[i+1] = user + o.behind + Mask
			}
			return
		}
		for _, option := range o.attached {
			if strings.HasPrefix(words[i], option) && len(words[i]) > len(option) && !strings.HasPrefix(words[i], "--") {
				found[i] = option + Mask
				return
			}
		}
	}
}

// followsOption says that the word behind an option is a secret, by the option's name.
func followsOption(option, word string) bool {
	return strings.HasPrefix(option, "-") && secretFollows(option) && word != "" && !isOption(word) && !tellsNothing(option, word)
}

// isOption says that a word is an option, and not the value of the one before it.
func isOption(word string) bool {
	return strings.HasPrefix(word, "--") || len(word) == 2 && word[0] == '-'
}

// isAssignment says that a word is NAME=value.
func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	inNames := func(r rune) bool {
		return r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
	}
	return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !inNames(r) })
}

// tellsNothing says that a value tells nothing: it says that there is none, where it comes from, or is a count of tokens.
func tellsNothing(name, value string) bool {
	value = strings.Trim(value, `"'\)]}.`)
	switch strings.ToLower(value) {
	case "", "none", "null", "nil", "true", "false", "undefined", Mask:
		return true
	}
	number := strings.Trim(value, "0123456789.,%") == ""
	return strings.HasPrefix(value, "$") || number && len(value) < 9 && strings.Contains(strings.ToLower(name), "token")
}
