package mpilib

import (
	"strings"
)

// maxTries is how many commands of one script are looked at, the last ones.
const maxTries = 16

// shell follows a shell's arguments: -c text, or a script.
func (k *look) shell(c command, depth int) hit {
	args := c.argv[1:]
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		word := args[0]
		args = args[1:]
		switch {
		case strings.HasPrefix(word, "--"):
		case strings.HasSuffix(word, "o"), strings.HasSuffix(word, "O"): // -o pipefail
			args = args[min(1, len(args)):]
		case strings.Contains(word, "c") && len(args) > 0:
			args0 := args[1:]
			if len(args0) == 0 {
				args0 = []string{c.argv[0]}
			}
			return k.script(args[0], command{args0, c.env, c.dir}, depth)
		}
	}
	if len(args) == 0 {
		return hit{}
	}
	file := absolute(c.dir, args[0])
	return k.script(string(k.files.head(file, maxScript)), command{append([]string{file}, args[1:]...), c.env, c.dir}, depth)
}

// script looks at the commands of a script, the last first: that is the one it is there for.
func (k *look) script(text string, c command, depth int) hit {
	s := &script{lexer: lexer{look: k, text: text, env: c.env, args: c.argv, dir: c.dir, strange: map[string]bool{}}}
	s.read()
	for i := len(s.commands) - 1; i >= max(0, len(s.commands)-maxTries); i-- {
		if h := k.command(s.commands[i], depth+1); h.found() {
			h.sure = h.sure && i == len(s.commands)-1
			return h
		}
	}
	return hit{}
}

// script gathers the commands of a script that may be programs, each with the environment and
// directory as far as they are known where it stands. Conditions are taken as true, functions as
// if they were called where they are defined.
type script struct {
	lexer
	commands []command
	changes  int
	sourced  int
}

// Bounds of one script.
const (
	maxChanges = 128 // of its environment
	maxSourced = 4
)

func (s *script) read() {
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

// simple takes one simple command.
func (s *script) simple(words []string) {
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
		if !s.step(env.size()) {
			return
		}
		env = env.with(name, value)
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
			s.env = s.look.activated(s.env, s.dir, words[2])
		} else if len(words) > 1 && words[1] == "run" {
			s.add(command{words, env, s.dir})
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
			s.add(command{words, env, s.dir})
		}
	}
}

func (s *script) add(c command) {
	if s.commands = append(s.commands, c); len(s.commands) > 2*maxTries {
		s.commands = append(s.commands[:0], s.commands[maxTries:]...)
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
func (s *script) set(name, value string) {
	if value == unset {
		s.strange[name] = true
		return
	}
	if s.changes++; s.changes > maxChanges || len(value) > maxName || !s.step(s.env.size()+len(value)) {
		return
	}
	switch name {
	case "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "HOME":
		if strings.Trim(value, ":") == "" {
			return
		}
	}
	delete(s.strange, name)
	s.env = s.env.with(name, value)
}

// source reads another script into this one; "source activate NAME" is conda's.
func (s *script) source(words []string) {
	if len(words) == 0 || words[0] == "" || s.sourced >= maxSourced {
		return
	}
	s.sourced++
	if len(words) > 1 && strings.HasSuffix(words[0], "activate") && words[1] != "" {
		s.env = s.look.activated(s.env, s.dir, words[1])
		return
	}
	text := string(s.look.files.head(absolute(s.dir, words[0]), maxScript))
	inner := &script{lexer: *s.sub(text), changes: s.changes, sourced: s.sourced}
	inner.args = append([]string{absolute(s.dir, words[0])}, s.args[min(1, len(s.args)):]...)
	inner.read()
	s.env, s.dir, s.changes, s.sourced = inner.env, inner.dir, inner.changes, inner.sourced
	for _, c := range inner.commands {
		s.add(c)
	}
}
