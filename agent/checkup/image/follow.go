package image

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/mpilib/script"
	"github.com/mpiup/mpiup/agent/reap/program"
)

// What ranks will run beyond the first word of their command is followed as far as files tell it:
//
//	env X=1 nice -n 5 python3 -u train.py ──▶ env ▶ nice ▶ python3 ▶ train.py ▶ the frameworks that it imports
//	bash -c "cd /data && ./a.out" ──────────▶ bash ▶ not checked: only a shell knows
//
// Each step says that what it names is there, that it is not, or that it was not checked. Nothing is guessed: an option of a
// wrapper that is not in the table ends the way.

// maxFollowed bounds the steps; scripts of scripts end before (Linux follows 5).
const maxFollowed = 16

// follow goes from a command to the last program that is known. fit says that each on the way can be executed; what cannot be is a finding.
func (i *image) follow(q mpilib.Query) (last mpilib.Query, fit bool) {
	by := ""
	for range maxFollowed {
		exe, _, _ := i.libs.Missing(q)
		if exe == "" {
			text, fix := fmt.Sprintf("%.200s is not here", q.Argv[0]), "install it, or put its directory on PATH"
			if strings.Contains(q.Argv[0], "/") && i.stat(script.Absolute(q.Dir, q.Argv[0])) != nil {
				text, fix = fmt.Sprintf("%.200s is not executable", q.Argv[0]), "chmod +x; or name what is to run it first, as in python3 train.py"
			}
			if by != "" {
				text += "; " + by + " is to run it"
			}
			i.add("program", checkup.Fail, text, fix)
			return q, false
		}
		var unfit *program.Error
		if err := program.Image(exe, i.head); errors.As(err, &unfit) {
			i.add("program", checkup.Fail, fmt.Sprintf("%.200s %s", exe, unfit.Cause), unfit.Hint)
			return q, false
		}
		next, more := i.step(exe, q)
		if !more {
			return q, true
		}
		q, by = next, path.Base(exe)
	}
	i.unchecked("what " + by + " runs in the end")
	return q, true
}

func (i *image) unchecked(what string) {
	i.add("not checked", checkup.Unknown, fmt.Sprintf("%.200s: only a run shows it", what), "")
}

// step is the command that a program will run by its own words; false: it runs none, or nobody knows.
func (i *image) step(exe string, q mpilib.Query) (next mpilib.Query, more bool) {
	name := path.Base(exe)
	head, err := i.head(exe)
	python := pythonName().MatchString(name)
	if line, ok := strings.CutPrefix(string(head), "#!"); err == nil && ok {
		line, _, _ = strings.Cut(line, "\n")
		by, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := []string{by}
		if arg = strings.TrimSpace(arg); arg != "" {
			words = append(words, arg)
		}
		if python && !strings.Contains(line, "python") { // pyenv's, which choose one as they run
			i.python("", q)
			i.unchecked("which Python " + exe + " starts, and so what packages it has")
			return q, false
		}
		q.Argv = slices.Concat(words, []string{exe}, q.Argv[1:])
		return q, true
	}
	args := q.Argv[1:]
	switch how, wraps := wrappers[name]; {
	case name == "env":
		next, ok := enved(q)
		if !ok && len(args) > 0 {
			i.unchecked("what env with these options runs")
		}
		return next, ok
	case wraps:
		rest, ok := how.command(args)
		if !ok {
			i.unchecked("what " + name + " with these options runs")
			return q, false
		}
		q.Argv = rest
		return q, true
	case slices.Contains(starters, name):
		i.unchecked("what " + name + " runs")
	case python:
		i.python(exe, q)
	case slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "zsh", "mksh"}, name):
		return i.shell(name, q)
	}
	return q, false
}

// starters run what their arguments name, in ways of their own.
var starters = []string{"accelerate", "apptainer", "catchsegv", "conda", "deepspeed", "gdb", "gdbserver", "horovodrun", "jsrun", "ltrace", "mamba",
	"micromamba", "mpiexec", "mpirun", "ncu", "nsys", "parallel", "perf", "poetry", "rocprof", "rocprofv3", "singularity", "srun", "strace", "sudo",
	"torchrun", "uv", "valgrind", "vtune", "xargs", "xvfb-run"}

// wrapper is the command line of a program that runs another one: OPTIONS OPERANDS PROGRAM ARGS.
type wrapper struct {
	valued   string   // letters of options with a value
	long     []string // their long names
	ends     string   // letters of options with which it runs nothing
	operands int      // words before the program
}

// wrappers are as GNU coreutils 9.1, util-linux 2.38, numactl 2.0.16, tini 0.19 and dumb-init 1.2 have them.
var wrappers = map[string]wrapper{
	"chrt":      {valued: "TPD", long: []string{"sched-runtime", "sched-period", "sched-deadline"}, ends: "pm", operands: 1},
	"dumb-init": {valued: "r", long: []string{"rewrite"}},
	"gosu":      {operands: 1},
	"ionice":    {valued: "cn", long: []string{"class", "classdata"}, ends: "pPu"},
	"nice":      {valued: "n", long: []string{"adjustment"}},
	"nohup":     {},
	"numactl": {valued: "iwpPCNm", long: []string{"interleave", "preferred", "preferred-many", "physcpubind", "cpunodebind", "membind"},
		ends: "sH"},
	"setsid":  {},
	"stdbuf":  {valued: "ioe", long: []string{"input", "output", "error"}},
	"su-exec": {operands: 1},
	"taskset": {ends: "p", operands: 1},
	"timeout": {valued: "ks", long: []string{"kill-after", "signal"}, operands: 1},
	"tini":    {valued: "pe", ends: "l"},
}

// command is what stands behind the options and operands.
func (w wrapper) command(args []string) (rest []string, ok bool) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		word := args[0]
		args = args[1:]
		long, isLong := strings.CutPrefix(word, "--")
		switch {
		case word == "--":
			if len(args) <= w.operands {
				return nil, false
			}
			return args[w.operands:], true
		case isLong:
			if slices.Contains(w.long, long) && len(args) > 0 {
				args = args[1:]
			}
			continue
		case strings.ContainsAny(word, w.ends):
			return nil, false
		}
		if at := strings.IndexAny(word, w.valued); w.valued != "" && at == len(word)-1 && len(args) > 0 {
			args = args[1:]
		}
	}
	if len(args) <= w.operands {
		return nil, false
	}
	return args[w.operands:], true
}

// enved is the command of env(1), with what it does to the environment and the directory.
func enved(q mpilib.Query) (next mpilib.Query, ok bool) {
	q.Env = slices.Clone(q.Env)
	for args := q.Argv[1:]; len(args) > 0; {
		word := args[0]
		args = args[1:]
		name, value, assigns := strings.Cut(word, "=")
		switch {
		case word == "-" || word == "-i" || word == "--ignore-environment":
			q.Env = nil
		case word == "--" || word == "-v" || word == "--debug":
		case (word == "-u" || word == "--unset") && len(args) > 0:
			q.Env, args = without(q.Env, args[0]), args[1:]
		case (word == "-C" || word == "--chdir") && len(args) > 0:
			q.Dir, args = script.Absolute(q.Dir, args[0]), args[1:]
		case name == "--unset":
			q.Env = without(q.Env, value)
		case name == "--chdir":
			q.Dir = script.Absolute(q.Dir, value)
		case strings.HasPrefix(word, "-S") && !strings.ContainsAny(word, `\"'$`):
			args = append(strings.Fields(word[2:]), args...)
		case strings.HasPrefix(word, "-"):
			return q, false
		case assigns:
			q.Env = append(q.Env, word)
		default:
			q.Argv = append([]string{word}, args...)
			return q, true
		}
	}
	return q, false
}

func without(env []string, name string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// shell looks at what a shell is told to run: a file, or a text that is one command without anything that only a shell knows.
func (i *image) shell(name string, q mpilib.Query) (next mpilib.Query, more bool) {
	text, file, _ := script.Invoked(script.Command{Argv: q.Argv, Dir: q.Dir})
	switch words := strings.Fields(text); {
	case file != "":
		if i.script(file, name) {
			i.add("script", checkup.Pass, fmt.Sprintf("%.200s is here, for %s", file, name), "")
			i.unchecked("what " + file + " runs")
		}
	case len(words) == 0:
		i.unchecked("what " + name + " reads from its standard input")
	case strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+@%- ") != "" || builtin(words[0]):
		i.unchecked("what " + name + " -c runs")
	default:
		q.Argv = words
		if words[0] == "exec" && len(words) > 1 {
			q.Argv = words[1:]
		}
		return q, true
	}
	return q, false
}

// builtin says that a shell may run a word itself.
func builtin(word string) bool {
	return slices.Contains([]string{".", ":", "alias", "cd", "command", "eval", "exit", "export", "false", "for", "if", "kill", "printf", "pwd", "read", "set",
		"source", "time", "trap", "true", "type", "ulimit", "umask", "wait", "while", "echo", "test", "builtin", "case", "until"}, word)
}

// script says that a file is there that an interpreter is to read.
func (i *image) script(file, by string) bool {
	const fix = "copy it into the image, or correct its path; a file that a volume brings is only in the pod: mpiup doctor"
	info := i.stat(file)
	if info == nil {
		i.add("script", checkup.Fail, fmt.Sprintf("%.200s is not here; %s is to run it", file, by), fix)
		return false
	}
	if info.IsDir() {
		if pythonName().MatchString(by) && i.stat(path.Join(file, "__main__.py")) != nil {
			return true
		}
		i.add("script", checkup.Fail, fmt.Sprintf("%.200s is a directory, which %s cannot run", file, by), "name the script in it")
		return false
	}
	if !info.Mode().IsRegular() {
		i.unchecked(fmt.Sprintf("what %s reads from %.200s, which is no file", by, file))
		return false
	}
	if _, err := i.beginning(file, 0); err != nil {
		i.add("script", checkup.Fail, fmt.Sprintf("uid %d cannot read %.200s, which %s is to run", i.UID, file, by), "chmod a+r, or COPY --chmod=644")
		return false
	}
	return true
}
