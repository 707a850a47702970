package script

import (
	"path"
	"strings"
)

// lexer cuts the text of a shell script into simple commands, with the words that can be known
// without running it. It knows quotes, comments, here-documents, redirections, variables and the
// substitutions by which scripts find their own directory; what else there is becomes an empty,
// unknown word.
type lexer struct {
	world     World
	text      string
	at        int
	env       Env
	args      []string // $0, $1, ...
	dir       string
	strange   map[string]bool // variables whose values are not known
	documents []string        // ends of here-documents that begin at the next line
	depth     int
}

// maxNested bounds substitutions within substitutions.
const maxNested = 6

// word is one word of a command, or several that stood for one.
type word struct {
	parts   []string
	current strings.Builder
	begun   bool // something was written, perhaps an empty string
	unknown bool
	plain   bool // nothing of it was quoted or filled in
}

const (
	blanks = " \t\r"
	meta   = " \t\r\n;&|()<>"
)

// next is the next command's words, unknown ones as "", assignments of what is not known as
// NAME=Unset. more is false at the end.
func (x *lexer) next() (words []string, more bool) {
	for x.at < len(x.text) && x.step(1) {
		switch c := x.text[x.at]; {
		case strings.IndexByte(blanks, c) >= 0:
			x.at++
		case c == '\\' && strings.HasPrefix(x.text[x.at:], "\\\n"):
			x.at += 2
		case c == '#':
			x.to('\n')
		case c == '\n':
			x.at++
			x.skipDocuments()
			if len(words) > 0 {
				return words, true
			}
		case c == '<' || c == '>' || c == '&' && strings.HasPrefix(x.text[x.at:], "&>"):
			x.redirection()
		case strings.IndexByte(";&|()", c) >= 0:
			x.at++
			if len(words) > 0 {
				return words, true
			}
		default:
			w := x.word()
			if x.at < len(x.text) && (x.text[x.at] == '<' || x.text[x.at] == '>') && w.plain && digits(w.current.String()) {
				continue // 2>file
			}
			words = append(words, w.list()...)
		}
	}
	return words, len(words) > 0 && x.step(0)
}

// step counts n bytes that are read or made; false: there were too many, and the text is at its end.
func (x *lexer) step(n int) bool {
	if x.world.Step(n) {
		return true
	}
	x.at = len(x.text)
	return false
}

func (x *lexer) joined(words []string) string {
	n := 0
	for _, w := range words {
		n += len(w) + 1
	}
	if !x.step(n) {
		return ""
	}
	return strings.Join(words, " ")
}

func (x *lexer) chdir(to string) {
	if len(x.dir)+len(to) < maxPath && x.step(len(x.dir)+len(to)) {
		x.dir = Absolute(x.dir, to)
	}
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (w *word) list() []string {
	if w.unknown {
		if name, _, ok := assignment(w.current.String()); ok {
			return []string{name + "=" + Unset}
		}
		return []string{""}
	}
	if w.begun || w.current.Len() > 0 {
		return append(w.parts, w.current.String())
	}
	return w.parts
}

// to goes on to the next byte c, or the end.
func (x *lexer) to(c byte) string {
	rest := x.text[x.at:]
	if i := strings.IndexByte(rest, c); i >= 0 {
		rest = rest[:i]
	}
	x.at += len(rest)
	x.step(len(rest))
	return rest
}

func (x *lexer) redirection() {
	begin := x.at
	for x.at < len(x.text) && strings.IndexByte("<>&|-", x.text[x.at]) >= 0 {
		x.at++
	}
	op := x.text[begin:x.at]
	for x.at < len(x.text) && strings.IndexByte(blanks, x.text[x.at]) >= 0 {
		x.at++
	}
	if x.at >= len(x.text) || strings.IndexByte("\n;|)", x.text[x.at]) >= 0 || x.text[x.at] == '(' {
		return
	}
	w := x.word()
	if op == "<<" || op == "<<-" {
		if len(x.documents) < maxNested {
			x.documents = append(x.documents, strings.Join(w.list(), ""))
		}
	}
}

// skipDocuments skips the here-documents that begin here.
func (x *lexer) skipDocuments() {
	for _, end := range x.documents {
		for x.at < len(x.text) {
			line := x.to('\n')
			x.at++
			if strings.TrimLeft(line, "\t") == end {
				break
			}
		}
	}
	x.at = min(x.at, len(x.text))
	x.documents = nil
}

func (x *lexer) word() *word {
	w := &word{plain: true}
	x.step(16)
	for x.at < len(x.text) && x.step(1) {
		c := x.text[x.at]
		if strings.IndexByte(meta, c) >= 0 {
			break
		}
		x.at++
		switch c {
		case '\'':
			w.begun, w.plain = true, false
			w.current.WriteString(x.to('\''))
			x.at++
		case '"':
			w.begun, w.plain = true, false
			x.quoted(w)
		case '\\':
			w.plain = false
			if x.at < len(x.text) && x.text[x.at] != '\n' {
				w.current.WriteByte(x.text[x.at])
			}
			x.at++
		case '$', '`':
			w.plain = false
			x.expansion(w, c, false)
		default:
			w.current.WriteByte(c)
		}
	}
	x.at = min(x.at, len(x.text))
	return w
}

func (x *lexer) quoted(w *word) {
	for x.at < len(x.text) && x.step(1) {
		c := x.text[x.at]
		x.at++
		switch c {
		case '"':
			return
		case '\\':
			if x.at < len(x.text) {
				if c := x.text[x.at]; c != '\n' {
					w.current.WriteByte(c)
				}
				x.at++
			}
		case '$', '`':
			x.expansion(w, c, true)
		default:
			w.current.WriteByte(c)
		}
	}
}

// expansion fills in what begins with $ or `, which was read.
func (x *lexer) expansion(w *word, c byte, quoted bool) {
	rest := x.text[x.at:]
	switch {
	case c == '`':
		x.fill(w, x.to('`'), x.substitution, quoted)
		x.at++
	case strings.HasPrefix(rest, "(("):
		x.closed(')')
		w.unknown = true
	case strings.HasPrefix(rest, "("):
		x.fill(w, x.closed(')'), x.substitution, quoted)
	case strings.HasPrefix(rest, "{"):
		x.parameters(w, x.closed('}'), quoted)
	default:
		n := 0
		for n < len(rest) && nameByte(rest[n], n) {
			n++
		}
		if n == 0 && rest != "" && strings.IndexByte("@*#?$!-0123456789", rest[0]) >= 0 {
			n = 1
		}
		if n == 0 {
			w.current.WriteByte('$')
			return
		}
		x.at += n
		x.parameters(w, rest[:n], quoted)
	}
}

func nameByte(c byte, i int) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || i > 0 && c >= '0' && c <= '9'
}

// closed is the text up to the bracket that closes the one here.
func (x *lexer) closed(end byte) string {
	open := x.text[x.at]
	begin, nested := x.at+1, 0
	for ; x.at < len(x.text) && x.step(1); x.at++ {
		switch x.text[x.at] {
		case open:
			nested++
		case end:
			if nested--; nested == 0 {
				x.at++
				return x.text[begin : x.at-1]
			}
		}
	}
	return ""
}

// fill adds a value to a word; outside quotes its blanks part words.
func (x *lexer) fill(w *word, text string, value func(string) (string, bool), quoted bool) {
	v, ok := value(text)
	if !ok || !x.step(len(v)) {
		w.unknown = true
		return
	}
	fields := strings.Fields(v)
	if quoted || len(fields) < 2 {
		w.current.WriteString(v)
		return
	}
	const most = 256
	for _, f := range fields[:len(fields)-1] {
		w.current.WriteString(f)
		if len(w.parts) < most {
			w.parts = append(w.parts, w.current.String())
		}
		w.current.Reset()
	}
	w.current.WriteString(fields[len(fields)-1])
}

// parameters fills in a variable, or all arguments.
func (x *lexer) parameters(w *word, expr string, quoted bool) {
	rest, n := x.args[min(1, len(x.args)):], 0
	switch expr {
	case "@", "*", "@:1":
	case "@:2":
		n = 1
	default:
		x.fill(w, expr, x.parameter, quoted)
		return
	}
	rest = rest[min(n, len(rest)):]
	if !x.step(16 * len(rest)) {
		return
	}
	w.parts = append(w.parts, rest...)
	w.begun = false
}

// parameter is the value of $NAME or ${NAME...}.
func (x *lexer) parameter(expr string) (string, bool) {
	n := 0
	for n < len(expr) && nameByte(expr[n], n) {
		n++
	}
	name, op := expr[:n], expr[n:]
	value, set, known := "", false, true
	switch {
	case name != "":
		value, set = x.env.Lookup(name)
		known = !x.strange[name]
		if name == "BASH_SOURCE" {
			value, set, op = x.script(), true, strings.TrimPrefix(op, "[0]")
		}
		if name == "PWD" {
			value, set = x.dir, true
		}
	case op == "0" || strings.HasPrefix(op, "0%"):
		value, set, op = x.script(), true, op[1:]
	case digits(op):
		i := int(op[0] - '0')
		if len(op) > 1 || i >= len(x.args) {
			return "", len(op) == 1
		}
		return x.args[i], true
	default:
		return "", false
	}
	switch {
	case op == "":
		return value, known
	case op == "%/*":
		return path.Dir(value), known && set
	case strings.HasPrefix(op, ":-"), strings.HasPrefix(op, ":="), strings.HasPrefix(op, "-"), strings.HasPrefix(op, "="):
		if value != "" {
			return value, known
		}
		return x.sub(strings.TrimLeft(op, ":-=")).one()
	case strings.HasPrefix(op, ":+"), strings.HasPrefix(op, "+"):
		if value == "" {
			return "", known
		}
		return x.sub(strings.TrimLeft(op, ":+")).one()
	}
	return "", false
}

func (x *lexer) script() string {
	if len(x.args) == 0 {
		return ""
	}
	return x.args[0]
}

// sub reads a text within this one.
func (x *lexer) sub(text string) *lexer {
	x.step(64)
	return &lexer{world: x.world, text: text, env: x.env, args: x.args, dir: x.dir, strange: x.strange, depth: x.depth + 1}
}

// one is a text as a double-quoted word.
func (x *lexer) one() (string, bool) {
	if x.depth > maxNested {
		return "", false
	}
	w := &word{}
	x.quoted(w)
	return x.joined(append(w.parts, w.current.String())), !w.unknown
}

// substitution is the output of the commands by which scripts find programs and themselves.
func (x *lexer) substitution(text string) (value string, known bool) {
	if x.depth > maxNested {
		return "", false
	}
	s := x.sub(text)
	for words, more := s.next(); more; words, more = s.next() {
		last := words[len(words)-1]
		switch {
		case last == "":
			return "", false
		case words[0] == "pwd":
			value = s.dir
		case len(words) < 2:
			return "", false
		case words[0] == "dirname":
			value = path.Dir(last)
		case words[0] == "cd":
			s.chdir(last)
			value = s.dir
		case words[0] == "realpath", words[0] == "readlink":
			value = x.world.Real(Absolute(s.dir, last))
		case words[0] == "which", words[0] == "command" && words[1] == "-v", words[0] == "type" && words[1] == "-p":
			value = x.world.Resolve(last, s.env, s.dir)
		case words[0] == "echo":
			value = s.joined(words[1:])
		default:
			return "", false
		}
	}
	return value, value != ""
}
