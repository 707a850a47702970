package mpilib

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// errSpent ends a look that asked for more than the limits allow.
var errSpent = errors.New("more files than it may look at")

// files reads a tree within the limits and notes what was asked for. Paths are absolute, as a
// process of that tree would use them.
type files struct {
	fsys     fs.FS
	deadline time.Time
	seen     map[string]state
	opened   int
	bytes    int64
	steps    int
	late     int // steps after which the time is looked at
}

// state is what is remembered of a path: the zero value is one that is not there.
type state struct {
	mode  fs.FileMode
	mtime time.Time
	size  int64
}

func newFiles(fsys fs.FS, deadline time.Time) *files {
	return &files{fsys: fsys, deadline: deadline, seen: map[string]state{}}
}

// inTree is a path's name in the tree.
func inTree(p string) string {
	if p = strings.TrimPrefix(path.Clean("/"+p), "/"); p == "" {
		return "."
	}
	return p
}

func stateOf(fsys fs.FS, p string) state {
	fi, err := fs.Stat(fsys, inTree(p))
	if err != nil {
		return state{}
	}
	s := state{mode: fi.Mode(), mtime: fi.ModTime(), size: fi.Size()}
	if s.mode == 0 { // there, unlike the zero value
		s.mode = fs.ModeIrregular
	}
	return s
}

func (s state) regular() bool { return s != state{} && s.mode.IsRegular() }
func (s state) dir() bool     { return s.mode.IsDir() }

// stat is what a path is, links followed. Beyond the limits nothing is there.
func (f *files) stat(p string) state {
	if len(p) > maxPath || !f.step(len(p)) {
		return state{}
	}
	p = path.Clean(p)
	if s, ok := f.seen[p]; ok {
		return s
	}
	if f.spent() {
		return state{}
	}
	s := stateOf(f.fsys, p)
	f.seen[p] = s
	return s
}

func (f *files) spent() bool {
	return len(f.seen) >= maxFiles || f.opened >= maxOpen || f.bytes >= maxBytes || f.steps >= maxSteps || time.Now().After(f.deadline)
}

// step counts n bytes of work that no file system does; false: the limits are reached.
func (f *files) step(n int) bool {
	f.steps += n
	if f.steps < f.late {
		return true
	}
	if f.spent() {
		f.steps = maxSteps
		return false
	}
	f.late = f.steps + maxSteps/256
	return true
}

// reader is an open file whose reads count.
type reader struct {
	files *files
	file  fs.File
	size  int64
}

func (f *files) open(p string) (*reader, error) {
	s := f.stat(p)
	switch {
	case f.spent():
		return nil, errSpent
	case !s.regular():
		return nil, fs.ErrNotExist
	}
	f.opened++
	file, err := f.fsys.Open(inTree(p))
	if err != nil {
		return nil, err
	}
	return &reader{files: f, file: file, size: s.size}, nil
}

func (r *reader) close() { r.file.Close() }

// ReadAt is io.ReaderAt's, within the limits.
func (r *reader) ReadAt(b []byte, offset int64) (int, error) {
	if r.files.bytes += int64(len(b)); r.files.spent() {
		return 0, errSpent
	}
	ra, ok := r.file.(io.ReaderAt)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if offset < 0 || offset >= r.size {
		return 0, io.EOF
	}
	return ra.ReadAt(b, offset)
}

// opened is a program or library.
type opened struct {
	*Object
	*reader
	path string
}

// openObject reads what a program or library needs. The caller closes it.
func (f *files) openObject(p string) (*opened, error) {
	r, err := f.open(p)
	if err != nil {
		return nil, err
	}
	o, err := Read(r)
	if err != nil {
		r.close()
		return nil, err
	}
	return &opened{Object: o, path: p, reader: r}, nil
}

// head is the beginning of a file, at most most bytes; nil if it cannot be read.
func (f *files) head(p string, most int64) []byte {
	r, err := f.open(p)
	if err != nil {
		return nil
	}
	defer r.close()
	b := make([]byte, min(most, r.size))
	n, err := r.ReadAt(b, 0)
	if n == 0 || err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return b[:n]
}

// match lists what fits a pattern of path.Match in one directory, in order. The directory's own
// state stands for the result.
func (f *files) match(dir, pattern string) (paths []string) {
	if !f.stat(dir).dir() || f.spent() {
		return nil
	}
	f.opened++
	entries, err := fs.ReadDir(f.fsys, inTree(dir))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if ok, _ := path.Match(pattern, e.Name()); ok {
			paths = append(paths, path.Join(dir, e.Name()))
		}
	}
	return paths
}

// real is a path without symbolic links; p itself where they cannot be followed.
func (f *files) real(p string) string {
	const most = 40 // links, as in Linux
	if len(p) > maxPath {
		return p
	}
	done, rest := "/", strings.Split(strings.Trim(path.Clean(p), "/"), "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		target, err := fs.ReadLink(f.fsys, inTree(next))
		if err != nil {
			done = next
			continue
		}
		if links++; links > most || len(target) > maxPath || f.spent() {
			return p
		}
		if path.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(strings.Trim(path.Clean(target), "/"), "/"), rest...)
	}
	return done
}
