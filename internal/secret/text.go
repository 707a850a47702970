package secret

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/pattern"
)

// MaskText is text without the secrets that show themselves in it: what a URL has for a user's password, keys by their makers' beginnings, private
// keys, and what follows a name that says so.
func MaskText(text string) string {
	if strings.Contains(text, "-----BEGIN") {
		text = privateKey().ReplaceAllLiteralString(text, Mask)
	}
	if strings.Contains(text, "://") {
		text = replaceMatches(inURL(), text, func(g []string) string {
			if port, _, _ := strings.Cut(g[2], "/"); g[2] != "" && strings.Trim(port, "0123456789") == "" && port != g[2] {
				return g[0] // host:port/path@version
			}
			return "://" + Mask + "@"
		})
	}
	if strings.ContainsAny(text, "?&") {
		text = inQuery().ReplaceAllString(text, "${1}"+Mask)
	}
	text = maskNamed(maskKeys(text))
	if strings.Contains(text, "-u") || strings.Contains(text, "-user") {
		text = ofUser().ReplaceAllString(text, "${1}"+Mask)
	}
	return maskOptions(text)
}

// maskOptions takes out what programs are told by options whose names do not say that it is a secret (programOptions).
func maskOptions(text string) string {
	if !strings.Contains(text, "-") { // most lines: no option stands there
		return text
	}
	inText := func(word string) bool { return strings.Contains(text, word) }
	for i, of := range programOptions {
		hasOption := slices.ContainsFunc(of.options, inText) || slices.ContainsFunc(of.attached, inText)
		if hasOption && slices.ContainsFunc(of.programs, inText) {
			text = optionsInText()[i]().ReplaceAllString(text, "${1}"+Mask)
		}
	}
	return text
}

// optionsInText finds the first secret of each of programOptions in a command line that stands in a text, in a shell's words or as a list of quoted
// ones: the program, at most so many other words, the option, and what follows it.
var optionsInText = sync.OnceValue(func() (list []func() *regexp.Regexp) {
	const (
		others = `(?:[\s,'"]+[^\s,'"|;&]+){0,12}?` // as few as can be
		value  = `(?:'[^']*'|"[^"]*"|[^\s,'"|;&]+)`
	)
	for _, of := range programOptions {
		var ways []string
		for _, option := range of.options {
			ways = append(ways, regexp.QuoteMeta(option)+`(?:['"][\s,]+|[\s,=]+)`)
		}
		for _, option := range of.attached {
			ways = append(ways, regexp.QuoteMeta(option))
		}
		before := `(?:^|[^\w.-])(?:` + strings.Join(of.programs, "|") + `)['"]?`
		if of.subcommand != "" {
			before += others + `[\s,'"]+` + of.subcommand + `['"]?`
		}
		user := ""
		if of.behind != "" {
			user = `['"]?[^\s,'"` + of.behind + `]+` + of.behind
		}
		list = append(list, pattern.Of(`(`+before+others+`[\s,'"]+(?:`+strings.Join(ways, "|")+`)`+user+`)`+value))
	}
	return list
})

// shortestKey is how long a key is, its beginning with it.
const shortestKey = 19

// maskKeys takes keys out by their beginnings. They are looked for in long words only.
func maskKeys(text string) string {
	part := func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-.+/=~:", c) >= 0
	}
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		from := i
		for i < len(text) && part(text[i]) {
			i++
		}
		if i-from < shortestKey {
			continue
		}
		b.WriteString(text[done:from])
		b.WriteString(replaceMatches(beginnings(), text[from:i], func(g []string) string {
			if c := g[0][0]; !inWord(c) { // what stands before it
				return g[0][:1] + Mask
			}
			return Mask
		}))
		done = i
	}
	if done == 0 {
		return text
	}
	return b.String() + text[done:]
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

func inName(c byte) bool { return inWord(c) || c == '-' || c == '.' }

// secretFollows says that a secret follows a name.
func secretFollows(name string) bool {
	const most = 64 // bytes of it that count
	var b strings.Builder
	for _, c := range []byte(name[max(0, len(name)-most):]) {
		if c != '-' && c != '_' && c != '.' {
			b.WriteByte(c)
		}
	}
	is := strings.ToLower(b.String())
	return is != "pwd" && is != "oldpwd" && slices.ContainsFunc(secretNames, func(end string) bool { return strings.HasSuffix(is, end) })
}

// maskNamed takes out what follows a name and ':' or '=', or an option's.
func maskNamed(text string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		if !inName(text[i]) {
			continue
		}
		from := i
		for i < len(text) && inName(text[i]) {
			i++
		}
		name := text[from:i]
		variable := i < len(text) && text[i] == '=' && isVariableName(name) && namesSecret(name)
		if !variable && !secretFollows(name) {
			continue
		}
		at := valueStart(text, i, name[0] == '-')
		if at < 0 {
			continue
		}
		for _, s := range schemes {
			if len(text)-at > len(s) && strings.EqualFold(text[at:at+len(s)], s) {
				at += len(s)
				break
			}
		}
		end := valueEnd(text, at)
		if variable && strings.HasSuffix(name, "HEADERS") { // all of them: api-key=x, authorization=Basic y
			end = lineEnd(text, at)
		}
		if is := text[at:end]; is == "" || tellsNothing(name, is) || name[0] == '-' && isOption(is) {
			i = max(i, at) - 1
			continue
		}
		b.WriteString(text[done:at])
		b.WriteString(maskQuoted(text[at:end]))
		done, i = end, end-1
	}
	if done == 0 {
		return text
	}
	return b.String() + text[done:]
}

// isVariableName says that a name is written as variables are: in capital letters.
func isVariableName(name string) bool {
	return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// lineEnd is where a value ends that goes on to the end of its line, or of its quotes.
func lineEnd(text string, at int) int {
	if at < len(text) && (text[at] == '"' || text[at] == '\'') {
		return valueEnd(text, at)
	}
	if n := strings.IndexAny(text[at:], "\n\r\"'"); n >= 0 {
		return at + n
	}
	return len(text)
}

// valueStart is where the value of a name begins that ends at i, or -1: behind quotes and brackets that close, and ':', '=', ':=' or '=>', or a space
// behind an option.
func valueStart(text string, i int, option bool) int {
	skip := func(of string) (n int) {
		for i < len(text) && strings.IndexByte(of, text[i]) >= 0 {
			i++
			n++
		}
		return n
	}
	skip("\\\"']")
	spaces := skip(" \t")
	joins := 0
	for joins < 2 && i < len(text) && strings.IndexByte(":=>", text[i]) >= 0 {
		i++
		joins++
	}
	if joins == 0 && option { // --token x; ['--token', 'x']
		spaces += skip(", \t")
		joins = spaces
	}
	if joins == 0 {
		return -1
	}
	skip(" \t")
	skip("\\")
	return i
}

// valueEnd is where a value ends that begins at i.
func valueEnd(text string, i int) int {
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		quote := text[i]
		for i++; i < len(text); i++ {
			switch text[i] {
			case '\\':
				if i+1 < len(text) && text[i+1] == quote { // of a text in a text: it ends here, too
					return i + 2
				}
			case quote:
				return i + 1
			}
		}
		return i
	}
	for i < len(text) && strings.IndexByte(" \t\n\r\"',;&", text[i]) < 0 {
		i++
	}
	return i
}

// maskQuoted is the mask in the quotes of what it stands for.
func maskQuoted(value string) string {
	q := value[:1]
	switch {
	case q != `"` && q != `'`:
		return Mask
	case strings.HasSuffix(value, `\`+q):
		return q + Mask + `\` + q
	}
	return q + Mask + q
}

// replaceMatches is text with each match replaced, which do is given with its groups.
func replaceMatches(re *regexp.Regexp, text string, do func(groups []string) string) string {
	found := re.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return text
	}
	var b strings.Builder
	done := 0
	for _, at := range found {
		groups := make([]string, len(at)/2)
		for i := range groups {
			if at[2*i] >= 0 {
				groups[i] = text[at[2*i]:at[2*i+1]]
			}
		}
		b.WriteString(text[done:at[0]])
		b.WriteString(do(groups))
		done = at[1]
	}
	b.WriteString(text[done:])
	return b.String()
}
