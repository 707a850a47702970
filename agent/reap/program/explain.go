package program

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

// Explain finds the reason behind the errno of an exec of path in dir, which does not say what failed.
func Explain(path, dir string, argv, env []string, errno syscall.Errno) error {
	if dir != "" {
		if err := checkDir(dir); err != nil {
			return err
		}
	}
	prog := path
	if len(argv) > 0 {
		prog = argv[0]
	}
	switch errno {
	case syscall.ENOEXEC, syscall.ENOENT, syscall.ELIBBAD, syscall.EACCES, syscall.EINVAL:
		if err := checkAccess(path); err != nil {
			return interpreted(prog, err)
		}
		if err := Image(path, here); err != nil {
			return interpreted(prog, err)
		}
	case syscall.E2BIG:
		if err := tooLong(path, argv, env); err != nil {
			return err
		}
	case syscall.ENOTTY, syscall.EIO:
		return &Error{Phase: PhaseInit, Path: path, Errno: errno, Cause: "the terminal cannot become its controlling terminal"}
	}
	return execError(path, errno)
}

// interpreters start files that people name as if they were programs.
var interpreters = map[string]string{".py": "python3", ".jl": "julia", ".R": "Rscript"}

// interpreted is an error of a file that cannot be executed, with what to write instead where its name tells what it is. prog is the name as its
// user wrote it.
func interpreted(prog string, err error) error {
	e, ok := err.(*Error)
	by := interpreters[filepath.Ext(prog)]
	if !ok || by == "" || e.Cause != notExecutable && e.Errno != syscall.ENOEXEC {
		return err
	}
	told := *e
	told.Hint = fmt.Sprintf("write %s %s", by, prog)
	told.Text = false // no shell's
	return &told
}

// maxString is what no argument and no variable may be as long as, with its final zero byte
// (MAX_ARG_STRLEN of linux/binfmts.h).
const maxString = 32 * 4096

// tooLong names a word that no exec takes, however much room there is for all together.
func tooLong(path string, argv, env []string) error {
	for i, list := range [][]string{argv, env} {
		for _, s := range list {
			if len(s) < maxString {
				continue
			}
			what := "an argument"
			if i == 1 {
				name, _, _ := strings.Cut(s, "=")
				what = fmt.Sprintf("variable %.40s", name)
			}
			return &Error{Phase: PhaseExec, Path: path, Errno: syscall.E2BIG,
				Cause: fmt.Sprintf("%s of %d bytes is longer than the %d that the kernel takes", what, len(s), maxString-1),
				Hint:  "hand it over in a file, or on standard input"}
		}
	}
	return nil
}
