package mpilib

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/agent/mpilib/script"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// look is one search for the library of a command.
type look struct {
	files    *files
	commands int
	cache    ldCache // once read
	cached   bool
	hwloc    hwlocs
	horovod  bool   // a Python was seen that has it
	said     []byte // text of the last Python script that was seen
	nccl     nccl
	torch    string // version of a Python's torch; "": none was found
	first    string // the runtime of AddressSanitizer that a program needs; "": none
	guessed  job.Guess
}

// hit is a library that was found, and where.
type hit struct {
	mpi     library
	program string // that loads it
	module  string // of Python, which does: mpi4py; "" none
	mention bool   // sure, since a script names its module
	sure    bool   // the command will run the program, as far as one can see
}

func (h hit) found() bool { return h.mpi.family != noFamily }

type command = script.Command

func (k *look) ldCache() ldCache {
	if !k.cached {
		k.cached = true
		k.cache = parseLdCache(k.files.head("/etc/ld.so.cache", maxLdCache))
	}
	return k.cache
}

// Programs that are known by name, with a version behind it perhaps.
var (
	pythonName = pattern.Of(`^(python|pypy)[0-9.]*$`)
	shellName  = pattern.Of(`^(ba|da|k|mk|z|a)?sh[0-9.]*$`)
)

// wrappers run the program that their arguments name, whatever their options are. None of them needs an MPI library itself, so that a program of
// such a name which does is no wrapper but somebody's MPI program.
var wrappers = map[string]bool{"catchsegv": true, "chrt": true, "ddt": true, "dumb-init": true, "gdb": true, "gdbserver": true,
	"gosu": true, "hpcrun": true, "ionice": true, "ltrace": true, "map": true, "ncu": true, "nice": true, "nohup": true,
	"nsys": true, "numactl": true, "perf": true, "prlimit": true, "rocprof": true, "rocprofv3": true, "setarch": true,
	"setpriv": true, "setsid": true, "stdbuf": true, "strace": true, "su-exec": true, "taskset": true, "tau_exec": true,
	"time": true, "timeout": true, "tini": true, "valgrind": true, "vtune": true, "xvfb-run": true}

// command looks for the library of a command.
func (k *look) command(c command, depth int) hit {
	if k.commands++; len(c.Argv) == 0 || depth > maxDepth || k.commands > maxCommands {
		return hit{}
	}
	c.Argv = c.Argv[:min(len(c.Argv), maxArgs)]
	exe := k.Resolve(c.Argv[0], c.Env, c.Dir)
	if exe == "" { // a script's wrapper that some module brings perhaps
		return k.arguments(c, 1, false, depth)
	}
	head := k.files.head(exe, 512)
	if bytes.HasPrefix(head, []byte("#!")) {
		argv := append(interpreter(head), exe)
		return k.command(command{Argv: slices.Concat(argv, c.Argv[1:]), Env: c.Env, Dir: c.Dir}, depth+1)
	}
	if len(head) > 0 && !bytes.HasPrefix(head, []byte("\x7fELF")) && bytes.IndexByte(head, 0) < 0 { // a shell's, as execvp(3) takes it
		return k.shell(command{Argv: slices.Concat([]string{"sh", exe}, c.Argv[1:]), Env: c.Env, Dir: c.Dir}, depth+1)
	}
	name := path.Base(exe)
	runs := k.runsOthers(name, c)
	if runs == nil {
		if h := k.elf(exe, c, true); h.found() {
			return h
		}
		return k.arguments(c, 1, false, depth)
	}
	// The name says that it runs another program, but anybody may call an MPI program perf, time or env.
	if h := k.elf(exe, c, false); h.found() {
		return h
	}
	if h := runs(exe, c, depth); h.found() {
		return h
	}
	if pythonName().MatchString(name) { // tens of megabytes
		return hit{}
	}
	return k.elf(exe, c, true)
}

// runsOthers is how to look for what a program runs that is known by its name to run others; nil: it is not known for that.
func (k *look) runsOthers(name string, c command) func(exe string, c command, depth int) hit {
	switch {
	case name == "env":
		return func(_ string, c command, depth int) hit { return k.env(c, depth) }
	case pythonName().MatchString(name):
		return k.python
	case shellName().MatchString(name):
		return func(_ string, c command, depth int) hit { return k.shell(c, depth) }
	case (name == "conda" || name == "mamba" || name == "micromamba") && len(c.Argv) > 1 && c.Argv[1] == "run":
		return func(_ string, c command, depth int) hit { return k.condaRun(c, depth) }
	case wrappers[name]:
		return func(_ string, c command, depth int) hit { return k.arguments(c, 1, true, depth) }
	}
	return nil
}

// Resolve finds a program as execvp(3) does; "" if there is none.
func (k *look) Resolve(name string, e script.Env, dir string) string {
	if name == "" || len(name) > maxPath {
		return ""
	}
	runs := func(p string) bool {
		s := k.files.stat(p)
		return s.regular() && s.mode.Perm()&0o111 != 0
	}
	if strings.Contains(name, "/") {
		if p := script.Absolute(dir, name); runs(p) {
			return p
		}
		return ""
	}
	for d := range strings.SplitSeq(e.Get("PATH"), ":") {
		if len(d) > maxPath || !k.files.step(len(name)) {
			continue
		}
		if p := script.Absolute(dir, path.Join(d, name)); runs(p) {
			return p
		}
	}
	return ""
}

// interpreter is the words of a #! line: the interpreter, and one argument at most.
func interpreter(head []byte) []string {
	line, _, _ := bytes.Cut(head[2:], []byte("\n"))
	name, arg, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	if arg = strings.TrimSpace(arg); arg == "" {
		return []string{name}
	}
	return []string{name, arg}
}

// elf looks at a program's own file: which MPI library it needs, and with inside also, by its texts, which is part of it.
func (k *look) elf(exe string, c command, inside bool) hit {
	o, err := k.files.openObject(exe)
	if err != nil {
		return hit{}
	}
	defer o.close()
	if at := slices.IndexFunc(o.Needed, isASan); at >= 0 {
		k.first = o.Needed[at]
	}
	var preloaded []string
	if len(o.Needed) > 0 {
		preloaded = strings.FieldsFunc(c.Env.Get("LD_PRELOAD"), func(r rune) bool { return r == ' ' || r == ':' })
	}
	l, ok := newLoader(k, o, c.Env, c.Dir).mpi(o, preloaded)
	if !ok && inside {
		l, ok = within(o)
	}
	if !ok {
		return hit{}
	}
	return hit{mpi: l, program: exe, sure: true}
}

// isASan says that a library is gcc's or clang's runtime of AddressSanitizer, which ends the program where another is loaded before it
// (compiler-rt's asan_linux.cpp: "ASan runtime does not come first in initial library list"). Those of other sanitizers bear one.
func isASan(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, "libasan.so") || strings.HasPrefix(base, "libclang_rt.asan")
}

// arguments tries the words of a command, from the from-th on, as a command.
func (k *look) arguments(c command, from int, sure bool, depth int) hit {
	for i := from; i < min(len(c.Argv), maxArgs); i++ {
		if word := c.Argv[i]; strings.HasPrefix(word, "-") || k.Resolve(word, c.Env, c.Dir) == "" {
			continue
		}
		if h := k.command(command{Argv: c.Argv[i:], Env: c.Env, Dir: c.Dir}, depth+1); h.found() {
			h.sure = h.sure && sure
			return h
		}
	}
	return hit{}
}

func (k *look) env(c command, depth int) hit {
	args := c.Argv[1:]
	for len(args) > 0 && k.files.step(c.Env.Size()+16*len(args)) {
		word := args[0]
		args = args[1:]
		value := func(long string) (string, bool) { // of -u NAME, -uNAME, --unset=NAME
			short := long[2:3]
			if long == "--split-string" {
				short = "S"
			} else if long == "--chdir" {
				short = "C"
			}
			if v, ok := strings.CutPrefix(word, long+"="); ok {
				return v, true
			}
			if v, ok := strings.CutPrefix(word, "-"+short); ok && v != "" {
				return v, true
			}
			if word == "-"+short && len(args) > 0 {
				v := args[0]
				args = args[1:]
				return v, true
			}
			return "", false
		}
		if word == "-i" || word == "-" || word == "--ignore-environment" {
			c.Env = script.Env{}
		} else if v, ok := value("--unset"); ok {
			c.Env = c.Env.Without(v)
		} else if v, ok := value("--chdir"); ok {
			c.Dir = script.Absolute(c.Dir, v)
		} else if v, ok := value("--split-string"); ok {
			args = append(strings.Fields(v), args...)
		} else if name, v, ok := strings.Cut(word, "="); ok && !strings.HasPrefix(word, "-") {
			c.Env = c.Env.With(name, v)
		} else if !strings.HasPrefix(word, "-") {
			c.Argv = append([]string{word}, args...)
			return k.command(c, depth+1)
		}
	}
	return hit{}
}

// maxTries is how many commands of one script are looked at, the last ones.
const maxTries = 16

// shell looks at the commands of a shell's script, the last first: that is the one it is there for.
func (k *look) shell(c command, depth int) hit {
	text, file, argv := script.Invoked(c)
	if file != "" {
		text = k.Read(file)
	}
	commands := script.Commands(text, command{Argv: argv, Env: c.Env, Dir: c.Dir}, maxTries, k)
	for i := len(commands) - 1; i >= 0; i-- {
		if h := k.command(commands[i], depth+1); h.found() {
			h.sure = h.sure && i == len(commands)-1
			return h
		}
	}
	return hit{}
}

// What a script asks of where it runs; command.go and conda.go have the rest.

func (k *look) Step(n int) bool { return k.files.step(n) }

func (k *look) Read(file string) string { return string(k.files.head(file, maxScript)) }

func (k *look) Real(p string) string { return k.files.real(p) }
