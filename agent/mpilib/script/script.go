// Package script reads the text of a shell script for the programs that it runs.
//
//	text ──lexer──▶ words of a simple command, unknown ones "" ──▶ NAME=value, export, cd, conda ──▶ environment, directory
//	                                                           ──▶ source, eval ──▶ more text
//	                                                           ──▶ what may be a program ──▶ Command
//
// Conditions are taken as true, functions as if they were called where they are defined. A text may be cut off
// anywhere: what is there is read. It may also be made to cost much. So each byte that is read or made is one step of
// the World's budget, and nothing is read once that is spent.
//
// PURE: the World that is handed in reads files and looks up programs. Nothing is kept between two calls.
//
// It executes nothing, and knows of substitutions only those by which scripts find programs and their own directory.
package script

import (
	"path"
	"strings"
)

// Command is a program with its arguments, environment and directory.
type Command struct {
	Argv []string
	Env  Env
	Dir  string // absolute
}

// World is what a script asks of where it would run.
type World interface {
	// Step counts n bytes that are read or made; false: there were too many.
	Step(n int) bool
	// Read is the beginning of another script, "" if there is none.
	Read(file string) string
	// Real is a path without symbolic links.
	Real(path string) string
	// Resolve finds a program as execvp(3) does; "" if there is none.
	Resolve(name string, e Env, dir string) string
	// Activated is the environment after "conda activate NAME".
	Activated(e Env, dir, name string) Env
}

// Invoked is what a shell is told to run: a text, or a file with one, and that script's $0, $1, ...
func Invoked(shell Command) (text, file string, argv []string) {
	args := shell.Argv[1:]
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		word := args[0]
		args = args[1:]
		switch {
		case strings.HasPrefix(word, "--"):
		case strings.HasSuffix(word, "o"), strings.HasSuffix(word, "O"): // -o pipefail
			args = args[min(1, len(args)):]
		case strings.Contains(word, "c") && len(args) > 0:
			if argv = args[1:]; len(argv) == 0 {
				argv = shell.Argv[:1]
			}
			return args[0], "", argv
		}
	}
	if len(args) == 0 {
		return "", "", nil
	}
	file = Absolute(shell.Dir, args[0])
	return "", file, append([]string{file}, args[1:]...)
}

// Absolute is a path as a process in dir understands it.
func Absolute(dir, p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join("/", dir, p)
}

// Commands are the last commands of a script that may be programs, at most most of them. Each comes with the
// environment and directory as far as they are known where it stands. c has the script's $0, $1, ... for Argv.
func Commands(text string, c Command, most int, w World) []Command {
	r := &reader{lexer: lexer{world: w, text: text, env: c.Env, args: c.Argv, dir: c.Dir, strange: map[string]bool{}}, most: most}
	r.read()
	return r.commands[max(0, len(r.commands)-most):]
}

// reader gathers commands.
type reader struct {
	lexer
	commands []Command
	most     int
	changes  int
	sourced  int
}

// Bounds of one script.
const (
	maxPath    = 4096     // bytes (PATH_MAX of Linux)
	maxValue   = 64 << 10 // bytes of a variable
	maxChanges = 128      // of its environment
	maxSourced = 4
)

func (s *reader) read() {
	for words, more := s.next(); more; words, more = s.next() {
		s.simple(words)
	}
}

// keywords stand before a command.
var keywords = map[string]bool{"if": true, "then": true, "else": true, "elif": true, "do": true, "while": true, "until": true,
	"!": true, "{": true, "}": true, "fi": true, "done": true, "esac": true, "time": true, "exec": true, "command": true,
	"builtin": true, "nohup": true}

// idle are commands of the shell, and small programs that many scripts use, which load no MPI.
var idle = map[string]bool{"[": true, "[[": true, ":": true, "alias": true, "awk": true, "basename": true, "break": true,
	"case": true, "cat": true, "chmod": true, "chown": true, "continue": true, "cp": true, "cut": true, "date": true,
	"dirname": true, "echo": true, "exit": true, "false": true, "find": true, "function": true, "grep": true, "hash": true,
	"head": true, "hostname": true, "id": true, "in": true, "kill": true, "let": true, "ln": true, "ls": true, "mkdir": true,
	"module": true, "ml": true, "mv": true, "printf": true, "ps": true, "pwd": true, "read": true, "return": true, "rm": true,
	"sed": true, "set": true, "shift": true, "shopt": true, "sleep": true, "sort": true, "tail": true, "tee": true, "test": true,
	"touch": true, "tr": true, "trap": true, "true": true, "type": true, "ulimit": true, "umask": true, "uname": true,
	"uniq": true, "unset": true, "wait": true, "wc": true, "which": true, "whoami": true}

func (s *reader) simple(words []string) {
	for len(words) > 0 && keywords[words[0]] {
		words = words[1:]
	}
	env := s.env
	for len(words) > 0 {
		name, value, ok := assignment(words[0])
		if !ok {
			break
		}
		words = words[1:]
		if len(words) == 0 {
			s.set(name, value)
			return
		}
		if !s.step(env.Size()) {
			return
		}
		env = env.With(name, value)
	}
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "":
	case "export", "declare", "local", "readonly", "typeset":
		for _, w := range words[1:] {
			if name, value, ok := assignment(w); ok {
				s.set(name, value)
			}
		}
	case "cd", "pushd":
		if last := words[len(words)-1]; last != "" && len(words) > 1 {
			s.chdir(last)
		}
	case "for", "read", "select":
		for _, w := range words[1:min(2, len(words))] {
			s.strange[w] = true
		}
	case ".", "source":
		s.source(words[1:])
	case "conda", "mamba", "micromamba":
		if len(words) > 2 && words[1] == "activate" {
			s.env = s.world.Activated(s.env, s.dir, words[2])
		} else if len(words) > 1 && words[1] == "run" {
			s.add(Command{words, env, s.dir})
		}
	case "eval":
		if s.depth++; s.depth <= maxNested {
			sub := s.sub(s.joined(words[1:]))
			for more, ok := sub.next(); ok; more, ok = sub.next() {
				s.simple(more)
			}
		}
		s.depth--
	default:
		if !idle[words[0]] {
			s.add(Command{words, env, s.dir})
		}
	}
}

func (s *reader) add(c Command) {
	if s.commands = append(s.commands, c); len(s.commands) > 2*s.most {
		s.commands = append(s.commands[:0], s.commands[s.most:]...)
	}
}

// assignment splits NAME=value.
func assignment(w string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(w, "=")
	for i := range len(name) {
		if !nameByte(name[i], i) {
			return "", "", false
		}
	}
	return name, value, ok && name != ""
}

// set changes a variable. Paths that would become empty are more likely not understood.
func (s *reader) set(name, value string) {
	if value == Unset {
		s.strange[name] = true
		return
	}
	if s.changes++; s.changes > maxChanges || len(value) > maxValue || !s.step(s.env.Size()+len(value)) {
		return
	}
	switch name {
	case "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "HOME":
		if strings.Trim(value, ":") == "" {
			return
		}
	}
	delete(s.strange, name)
	s.env = s.env.With(name, value)
}

// source reads another script into this one; "source activate NAME" is conda's.
func (s *reader) source(words []string) {
	if len(words) == 0 || words[0] == "" || s.sourced >= maxSourced {
		return
	}
	s.sourced++
	if len(words) > 1 && strings.HasSuffix(words[0], "activate") && words[1] != "" {
		s.env = s.world.Activated(s.env, s.dir, words[1])
		return
	}
	text := s.world.Read(Absolute(s.dir, words[0]))
	inner := &reader{lexer: *s.sub(text), most: s.most, changes: s.changes, sourced: s.sourced}
	inner.args = append([]string{Absolute(s.dir, words[0])}, s.args[min(1, len(s.args)):]...)
	inner.read()
	s.env, s.dir, s.changes, s.sourced = inner.env, inner.dir, inner.changes, inner.sourced
	for _, c := range inner.commands {
		s.add(c)
	}
}
