package iof

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mpiup/mpiup/internal/outfile"
)

// places are the directories that a user named for output, held open: ranks may write to them too, and to those above.
type places struct {
	dir   *outfile.Dir  // of Config.Dir; nil: none
	files [2]patternDir // of Config.Files
}

// patternDir is where a pattern's files are: what stands before its first place is the user's own, the rest is filled in.
type patternDir struct {
	prefix string // of the pattern, with its last slash
	dir    *outfile.Dir
	named  *outfile.File // a pattern without places is one path
}

// Open opens the directories of Dir and Files, makes those that are missing, and sees whether files can be made there. What begins again
// with this Config, as New for ranks that start again, has the same.
func (c *Config) Open() (err error) {
	if c.places != nil {
		return nil
	}
	c.places = &places{}
	if c.Dir != "" {
		if c.places.dir, err = outfile.Open(c.Dir, 0o777); err == nil {
			err = c.places.dir.Try()
		}
		if err != nil {
			return err
		}
	}
	for s, p := range c.Files {
		if p != "" {
			if c.places.files[s], err = openPattern(string(p)); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	return nil
}

func openPattern(p string) (d patternDir, err error) {
	at := strings.IndexByte(p, '%')
	if strings.IndexByte(strings.ReplaceAll(p, "%%", ""), '%') < 0 {
		path := strings.ReplaceAll(p, "%%", "%")
		if err = outfile.MakeAll(filepath.Dir(path), 0o777); err == nil {
			d.named, err = outfile.At(path)
		}
		if err == nil {
			err = d.named.Try()
		}
		return d, err
	}
	d.prefix = p[:strings.LastIndexByte(p[:at], '/')+1]
	if d.dir, err = outfile.Open(filepath.Clean(d.prefix), 0o777); err == nil && !strings.Contains(p[at:], "/") {
		err = d.dir.Try()
	}
	return d, err
}

// create opens the file of a pattern that is filled in.
func (d *patternDir) create(path string, how int) (*os.File, error) {
	if d.named != nil {
		return d.named.Open(how | os.O_CREATE)
	}
	return d.dir.Create(path[len(d.prefix):], how)
}

// maxAttempts bounds the directories that are looked at.
const maxAttempts = 10000

// NextAttempt goes where a run may write that must not change what earlier ones wrote below Dir. That is Dir itself,
// or, if a run's files are there already, its attempt-2 and so on, which it makes. (A pod that is tried again has the
// same command line, and often the same volume.) A Config that was copied before goes on from the Dir that it had.
func (c *Config) NextAttempt() error {
	if err := c.Open(); err != nil {
		return err
	}
	names, err := c.places.dir.Names()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "rank.") || strings.HasPrefix(n, "job.") }) {
		return nil
	}
	for n := 2; n <= maxAttempts; n++ {
		next, err := c.places.dir.Make(fmt.Sprintf("attempt-%d", n))
		switch {
		case errors.Is(err, fs.ErrExist): // its maker has it, also beside others
		case err != nil:
			return err
		default:
			c.places, c.Dir = &places{dir: next, files: c.places.files}, next.Path()
			return nil
		}
	}
	return fmt.Errorf("%s has %d attempts already: name another directory", c.Dir, maxAttempts)
}

// how is a file that is empty, or has what an earlier attempt wrote.
func (fs *files) how() int {
	if fs.cfg.Append {
		return os.O_APPEND
	}
	return 0
}

// plenty says what helps against too many files.
func plenty(err error) error {
	if errors.Is(err, syscall.EMFILE) {
		err = fmt.Errorf("%w: raise the limit of open files (ulimit -n), two a rank are needed", err)
	}
	return err
}
