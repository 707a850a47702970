package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Preload notes what is to be copied to the hosts before the ranks of a program start: the program
// itself, and files of lists with commas. A relative name is the same below the session's directory
// there; an absolute one is a place. find looks for a program on PATH.
func Preload(app *job.App, program bool, lists []string, dir string, find func(name string) (string, error)) error {
	if program {
		from := app.Argv[0]
		if !strings.Contains(from, "/") {
			var err error
			if from, err = find(from); err != nil {
				return fmt.Errorf("--preload-binary: %w", err)
			}
		}
		app.Program = &job.File{From: line.Under(dir, from), Name: filepath.Base(from)}
		app.SessionDir = true
	}
	for item := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		if item == "" {
			continue
		}
		name := filepath.Clean(item)
		if name == "." || name == "/" || name == ".." || strings.HasPrefix(name, "../") || strings.HasSuffix(item, "/") {
			return fmt.Errorf("--preload-files: %.100q is no file below this directory: name it by its absolute path to have it there, or change to its directory", item)
		}
		if f := (job.File{From: line.Under(dir, item), Name: name}); !slices.Contains(app.Files, f) {
			app.Files = append(app.Files, f)
		}
	}
	return nil
}
