package cli

import (
	"strings"

	"github.com/spf13/pflag"
)

// Dashes gives long flags written with one dash their second: "-np 4" and "-hostfile f", as
// both MPI families take them and every script has them. It stops at the first word that is
// the program's, at "--" and at an unknown flag. "-n4", "-Nx" and "-vv" stay what they are. The two
// words of --wrap become one.
func Dashes(fs *pflag.FlagSet, args []string) []string {
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		word := args[i]
		if len(word) < 2 || word[0] != '-' || word == "--" {
			return append(out, args[i:]...)
		}
		var takes, known bool // the flag takes a value that is the next word
		if body := strings.TrimPrefix(word, "-"); body[0] == '-' {
			takes, known = longFlag(fs, body[1:])
		} else if takes, known = longFlag(fs, body); known && len(body) > 1 && body[1] != '=' {
			word = "-" + word
		} else {
			takes, known = shortFlags(fs, body)
		}
		if !known {
			// A long flag misspelt whose first letter is a flag too: the error is to name all of it.
			if letter := word[1]; len(word) > 3 && (letter == 'h' || letter != '-' && fs.ShorthandLookup(word[1:2]) != nil) {
				word = "-" + word
			}
			return append(append(out, word), args[i+1:]...)
		}
		out = append(out, word)
		if takes && i+1 < len(args) {
			i++
			value := args[i]
			if word == "--wrap" && !strings.Contains(value, " ") && i+1 < len(args) { // two words, which are one to pflag
				i++
				value += " " + args[i]
			}
			out = append(out, value)
		}
	}
	return out
}

// longFlag looks at "name" or "name=value".
func longFlag(fs *pflag.FlagSet, body string) (takes, known bool) {
	name, _, has := strings.Cut(body, "=")
	if name == "" {
		return false, false
	}
	if name == "help" {
		return false, true // cobra adds it late
	}
	f := fs.Lookup(name)
	return f != nil && f.NoOptDefVal == "" && !has, f != nil
}

// shortFlags looks at "v", "vv", "n4", "n=4" or "vn".
func shortFlags(fs *pflag.FlagSet, body string) (takes, known bool) {
	for i := range len(body) {
		if body[i] == 'h' {
			continue
		}
		f := fs.ShorthandLookup(body[i : i+1])
		if f == nil {
			return false, false
		}
		if f.NoOptDefVal == "" {
			return i == len(body)-1, true
		}
	}
	return false, true
}
