package verdict

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
)

// Start is with what a process is started, as far as it decides which program and which modules are found. The zero value is not known.
type Start struct {
	Path string // PATH
	Venv string // VIRTUAL_ENV or CONDA_PREFIX; "": none
}

// NoteStart notes with what a process was started that failed, of as many as faults are kept.
func (c *Case) NoteStart(id int, s Start) {
	if s.Path == "" || len(c.starts) >= maxFaults {
		return
	}
	if c.starts == nil {
		c.starts = map[int]Start{}
	}
	c.starts[id] = s
}

// otherStart says where a rank was started with another PATH or virtual environment than the launcher's, where a program or module was not found, and
// what to do; "": it was not, or that is not known.
func (c *Case) otherStart(f Fault, said Finding) (text, do string) {
	there, known := c.starts[f.ID]
	here := c.Here
	module := strings.Contains(said.Line, "No module named ") || strings.Contains(said.Line, "PackageNotFoundError")
	program := said.Kind == ProgramNotFound || f.Event == NotStarted && notStarted(f) == ProgramNotFound
	if !known || here.Path == "" || !module && !program {
		return "", ""
	}
	if here.Venv != "" && here.Venv != there.Venv {
		has := "has no virtual environment"
		if there.Venv != "" {
			has = "is in the virtual environment " + visible.Line(there.Venv)
		}
		text = fmt.Sprintf("%s %s, and mpiup in %s", f.who(), has, visible.Line(here.Venv))
		return text, fmt.Sprintf("name its program by its path, as %s, or give ranks the launcher's: -x PATH -x VIRTUAL_ENV", visible.Line(path.Join(here.Venv, "bin", "python3")))
	}
	lacks := slices.DeleteFunc(strings.Split(here.Path, ":"), func(dir string) bool {
		return dir == "" || slices.Contains(strings.Split(there.Path, ":"), dir)
	})
	if len(lacks) == 0 || module {
		return "", ""
	}
	const most = 3
	for i := range lacks {
		lacks[i] = visible.Line(lacks[i])
	}
	return fmt.Sprintf("the PATH of %s lacks %s, which mpiup's own has", f.who(), visible.Few(lacks, most, ", ")),
		"name the program by its path, or give ranks the launcher's PATH: -x PATH"
}

// who is the process of a fault and its host.
func (f Fault) who() string { return f.Process.String() + " on " + f.Host }
