package ssh

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// IdentityFiles are the keys that the text of an ssh_config names for a host, as written. Settings before the first Host
// line are for every host, and so are those of a block whose patterns match it. Which hosts a Match line means is not known
// here, so what follows it counts for none. Without a host only blocks for all count. At most 64 are read.
func IdentityFiles(text, host string) (files []string) {
	applies := true
	for name, words := range directives(text) {
		switch name {
		case "host":
			applies = matches(words, host)
		case "match":
			applies = len(words) == 1 && strings.EqualFold(words[0], "all")
		case "identityfile":
			if applies && len(words) == 1 && len(files) < 64 {
				files = append(files, words[0])
			}
		}
	}
	return files
}

// matches says whether a Host line is about a host: one of its patterns matches, and none with "!".
func matches(patterns []string, host string) bool {
	match := func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(host))
		return err == nil && ok
	}
	return slices.ContainsFunc(patterns, match) && !slices.ContainsFunc(patterns, func(p string) bool {
		return strings.HasPrefix(p, "!") && match(p[1:])
	})
}

// Server is what a configuration of sshd says of keys, as written, and of ports. As with sshd the first AuthorizedKeysFile counts.
type Server struct {
	AuthorizedKeys []string
	HostKeys       []string
	Ports          []int
}

// Read takes the text of an sshd_config or of one -o, after what it holds already. What follows a Match line is for some connections only.
func (s *Server) Read(text string) {
	for name, words := range directives(text) {
		switch {
		case name == "match":
			return
		case name == "authorizedkeysfile" && s.AuthorizedKeys == nil && len(words) > 0 && len(words) <= 16:
			s.AuthorizedKeys = words
		case name == "hostkey" && len(words) == 1 && len(s.HostKeys) < 16:
			s.HostKeys = append(s.HostKeys, words[0])
		case name == "port" && len(words) > 0 && len(s.Ports) < 16:
			if n, err := strconv.ParseUint(words[0], 10, 16); err == nil && n > 0 {
				s.Ports = append(s.Ports, int(n))
			}
		}
	}
}

// directives are the lines of a configuration: the setting's name in small letters and its values, without quotes. A line
// that cannot be read is left out, for ssh itself to complain about.
func directives(text string) func(yield func(string, []string) bool) {
	return func(yield func(string, []string) bool) {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			i := strings.IndexAny(line, "= \t")
			if i <= 0 || line[0] == '#' {
				continue
			}
			rest := strings.TrimLeft(line[i:], " \t")
			rest = strings.TrimPrefix(rest, "=")
			words, err := quotedWords(strings.TrimSpace(rest))
			if err != nil {
				continue
			}
			if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "#") }); i >= 0 {
				words = words[:i]
			}
			if !yield(strings.ToLower(line[:i]), words) {
				return
			}
		}
	}
}

// Path is a file that a setting names: with "~" and the tokens for the user's directory and name (ssh_config(5), sshd_config(5)),
// and below that directory where it is relative to below. A token of another kind, or "none", names no file here.
func Path(file, home, user, below string) (string, bool) {
	if file == "none" || file == "" {
		return "", false
	}
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		file = home + "/" + rest
	}
	file, _, ok := expanded(file, map[string]string{"h": home, "d": home, "u": user, "%": "%"})
	switch {
	case !ok:
		return "", false
	case path.IsAbs(file):
		return path.Clean(file), true
	}
	return path.Join(below, file), below != ""
}

// expanded is a setting's value with its tokens (ssh_config(5), TOKENS), by the letters behind their percent signs. false: unknown is what else stands
// behind one.
func expanded(value string, tokens map[string]string) (text, unknown string, ok bool) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(value, "%")
		b.WriteString(before)
		if !found {
			return b.String(), "", true
		}
		token, known := tokens[after[:min(len(after), 1)]]
		if !known {
			return "", after, false
		}
		b.WriteString(token)
		value = after[1:]
	}
}
