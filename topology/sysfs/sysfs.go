// Package sysfs reads the small files in which the kernel describes a machine.
//
//	FS{fsys}   rooted at "/" of a machine: the host's own (Host), or a captured or written
//	           one (any fs.FS: os.Root's, a test's); names have no leading "/"
//
//	Text       one trimmed text         "0x8086\n"        → "0x8086"
//	Long       the same of a long one, as it stands
//	Int        one decimal number       "-1\n"            → -1
//	List       a CPU or node list       "0-3,8\n"         → {0, 1, 2, 3, 8}
//	Mask       a CPU mask               "00000001,0000000f\n"
//	Names      a directory's entries    sorted
//	Numbers    of entries "cpu0" ...    {0, ...}
//	Link       a symbolic link's text
//
// All of it may be missing, wrong or hostile: what is read is bounded, and an error names the
// file as the user knows it ("/sys/..."). Nothing outside the root is named; that a symbolic
// link does not lead out of it is the fs.FS's duty (os.Root keeps it, os.DirFS does not).
//
// An FS keeps no state and may be used by several goroutines when its fs.FS may.
//
// It does not know what any file means; topology/discover does.
package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/idset"
)

// MaxText bounds one file, in bytes. The longest of those we read are one page (4 KiB) of
// sysfs; a mask of 8,192 CPUs has 2.3 KiB.
const MaxText = 64 << 10

// MaxNames bounds a directory's entries that are looked at.
const MaxNames = 1 << 16

// FS is a machine's files. New and Host make one.
type FS struct {
	fsys fs.FS
	note func(error)
}

// New reads below the root of fsys.
func New(fsys fs.FS) FS { return FS{fsys: fsys} }

// Host reads this machine.
func Host() FS { return FS{fsys: host{}} }

// Noting is f that also tells of each file that is there and cannot be read or understood. What is
// missing, or not for this process, is nothing to tell of.
func (f FS) Noting(note func(error)) FS {
	f.note = note
	return f
}

// Note tells that a file was not understood.
func (f FS) Note(name, format string, args ...any) {
	f.tell(fmt.Errorf("/%s: "+format, append([]any{name}, args...)...))
}

// tell passes an error on to who wants to know, and returns it.
func (f FS) tell(err error) error {
	if f.note != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		f.note(err)
	}
	return err
}

// prefixReader is an fs.FS that reads the beginning of a file with fewer calls than Open takes.
type prefixReader interface {
	readPrefix(name string, buf []byte) (int, error)
}

// Prefix is the first at most n bytes of a file; what follows is not asked for.
func (f FS) Prefix(name string, n int) ([]byte, error) {
	n = min(n, MaxText)
	if r, ok := f.fsys.(prefixReader); ok {
		for size := min(n, page); ; size = n { // most bounds are far above what files have, if they are there at all
			buf := make([]byte, size)
			got, err := r.readPrefix(name, buf)
			if err != nil {
				return nil, f.tell(pathError("read", name, err))
			}
			if got < size || size == n {
				return buf[:got], nil
			}
		}
	}
	file, err := f.fsys.Open(name)
	if err != nil {
		return nil, f.tell(pathError("open", name, err))
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, int64(n)))
	if err != nil {
		return nil, f.tell(pathError("read", name, err))
	}
	return b, nil
}

// pathError names the file as the user does.
func pathError(op, name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return &fs.PathError{Op: op, Path: "/" + name, Err: err}
}

// usual is what most files fit into: one number, a mask of some hundred CPUs.
const usual = 512

// page is what nearly every file of sysfs fits into.
const page = 4 << 10

// Text is a whole file without the white space around it.
func (f FS) Text(name string) (string, error) {
	var b []byte
	for _, n := range []int{usual, page, MaxText} {
		var err error
		if b, err = f.Prefix(name, n); err != nil {
			return "", err
		}
		if len(b) < n {
			break
		}
	}
	if len(b) == MaxText {
		return "", f.tell(fmt.Errorf("/%s is longer than %d bytes", name, MaxText-1))
	}
	return strings.Trim(string(b), blank), nil
}

// maxLong bounds a long file, in bytes; the table of mounts of a busy node has a few hundred KiB.
const maxLong = 8 << 20

// Long is a whole file that may be longer than MaxText, as it stands.
func (f FS) Long(name string) (string, error) {
	file, err := f.fsys.Open(name)
	if err != nil {
		return "", f.tell(pathError("open", name, err))
	}
	defer file.Close()
	b, err := bounded.Read(file, maxLong)
	switch {
	case errors.Is(err, bounded.ErrTooLarge):
		return "", f.tell(fmt.Errorf("/%s is longer than %d bytes", name, maxLong))
	case err != nil:
		return "", f.tell(pathError("read", name, err))
	}
	return string(b), nil
}

// blank is what surrounds a value. Some kernels (5.15's masks) end files with a zero byte.
const blank = " \t\r\n\x00"

// Int is a file that holds one decimal number of an int32, as the kernel's "%d" and "%u" do. What
// follows the digits ("32K") is ignored.
func (f FS) Int(name string) (int, error) {
	text, err := f.Text(name)
	if err != nil {
		return 0, err
	}
	n, ok := leadingInt(text)
	if !ok {
		return 0, f.tell(fmt.Errorf("/%s: %.40q is not a number", name, text))
	}
	return n, nil
}

func leadingInt(text string) (int, bool) {
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || end == 0 && text[end] == '-') {
		end++
	}
	n, err := strconv.ParseInt(text[:end], 10, 32)
	return int(n), err == nil
}

// Field is the rest of the first line of text that begins with name, without the white space around it.
func Field(text, name string) (string, bool) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// List is a file that holds a list of numbers.
func (f FS) List(name string) (idset.Set, error) { return f.set(name, idset.Parse) }

// Mask is a file that holds a bit mask.
func (f FS) Mask(name string) (idset.Set, error) { return f.set(name, idset.ParseMask) }

func (f FS) set(name string, parse func(string) (idset.Set, error)) (idset.Set, error) {
	text, err := f.Text(name)
	if err != nil {
		return idset.Set{}, err
	}
	s, err := parse(text)
	if err != nil {
		return idset.Set{}, f.tell(fmt.Errorf("/%s: %w", name, err))
	}
	return s, nil
}

// Names is the sorted names in a directory, MaxNames of them at most.
func (f FS) Names(dir string) ([]string, error) {
	file, err := f.fsys.Open(dir)
	if err != nil {
		return nil, f.tell(pathError("open", dir, err))
	}
	defer file.Close()
	var names []string
	switch d := file.(type) {
	case *os.File: // without a look at each entry
		names, err = d.Readdirnames(MaxNames)
	case fs.ReadDirFile:
		var entries []fs.DirEntry
		entries, err = d.ReadDir(MaxNames)
		for _, e := range entries {
			names = append(names, e.Name())
		}
	default:
		err = errors.New("not a directory")
	}
	if err != nil && err != io.EOF {
		return nil, f.tell(pathError("readdir", dir, err))
	}
	slices.Sort(names)
	return names, nil
}

// Numbers are N of a directory's entries that are prefix and N, up to limit, which is at most idset.MaxID.
func (f FS) Numbers(dir, prefix string, limit int) (set idset.Set) {
	names, _ := f.Names(dir)
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.ParseUint(digits, 10, 31); ok && err == nil && int(n) <= limit {
			set.Add(int(n))
		}
	}
	return set
}

// Link is the text of a symbolic link.
func (f FS) Link(name string) (string, error) {
	text, err := fs.ReadLink(f.fsys, name)
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	if len(text) > page {
		return "", fmt.Errorf("/%s: a link of %d bytes", name, len(text))
	}
	return text, nil
}

// Exists reports whether something of that name can be seen.
func (f FS) Exists(name string) bool {
	_, err := fs.Stat(f.fsys, name)
	return err == nil
}

// Writable reports whether this process may read and write something, as it must a device that it
// is to use. Of a root that is not this machine's it is whether it is there.
func (f FS) Writable(name string) bool {
	if _, ours := f.fsys.(host); ours {
		return writable(name)
	}
	return f.Exists(name)
}
