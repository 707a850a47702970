package discover

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/pattern"
)

// Limits of an archive that is read or written.
const (
	MaxBytes  = 16 << 20     // of its text
	maxFiles  = 1 << 18      // with their directories
	maxTotal  = 4 * MaxBytes // of names and texts, each {LIST} written out
	maxNumber = 1<<16 - 1    // of a {LIST}; Linux has at most 8,192 CPUs
)

// Parse reads an archive. What it may become is bounded before it is made: a line of some bytes can
// stand for any number of files with long names.
func Parse(text []byte) (Files, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("an archive of %d bytes; the limit is %d", len(text), MaxBytes)
	}
	files, room := Files{}, newRoom()
	for _, f := range txtar.Parse(text).Files {
		name, target, link := strings.Cut(f.Name, " -> ")
		name, binary := strings.CutSuffix(name, " (hex)")
		file := File{Data: f.Data, Link: target}
		if binary {
			digits := bytes.Map(func(r rune) rune {
				if unicode.IsSpace(r) {
					return -1
				}
				return r
			}, f.Data)
			n, err := hex.Decode(digits, digits)
			if err != nil {
				return nil, fmt.Errorf("%.80s: %w", f.Name, err)
			}
			file.Data = digits[:n]
		}
		if link && target == "" {
			return nil, fmt.Errorf("%.80s: a link to nothing", f.Name)
		}
		for name, err := range expand(name) {
			if _, twice := files[name]; err == nil && (twice || !fs.ValidPath(name) || name == "." || len(name) > maxName) {
				err = errors.New("not the name of a file, or there twice")
			}
			if err == nil {
				err = room.take(name, file)
			}
			if err != nil {
				return nil, fmt.Errorf("%.80s: %w", cmp.Or(name, f.Name), err)
			}
			files[name] = file
		}
	}
	return files, nil
}

// expand yields the names that "cpu{0-2}/online" stands for, or an error.
func expand(name string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		before, rest, ok := strings.Cut(name, "{")
		if !ok {
			yield(name, nil)
			return
		}
		list, after, ok := strings.Cut(rest, "}")
		if !ok {
			yield("", errors.New("{ without }"))
			return
		}
		ids, err := idset.Parse(list)
		switch {
		case err == nil && ids.Last() > maxNumber:
			err = fmt.Errorf("{} holds %d; the limit is %d", ids.Last(), maxNumber)
		case strings.Contains(after, "{"): // which would be a list when the archive is written and read again
			err = errors.New("a name holds one {} at most")
		case len(before)+len(after) >= maxName:
			err = fmt.Errorf("a name of more than %d bytes", maxName)
		}
		if err != nil {
			yield("", err)
			return
		}
		for id := range ids.All() {
			if !yield(before+strconv.Itoa(id)+after, nil) {
				return
			}
		}
	}
}

// room is what is left of the limits for a machine's files.
type room struct {
	files, bytes int
	dirs         map[string]bool
}

func newRoom() *room { return &room{files: maxFiles, bytes: maxTotal, dirs: map[string]bool{}} }

// take counts a file and the directories above it, or says that it is too much.
func (r *room) take(name string, f File) error {
	r.files--
	for end := strings.LastIndexByte(name, '/'); end > 0 && !r.dirs[name[:end]] && r.files >= 0; end = strings.LastIndexByte(name[:end], '/') {
		r.dirs[name[:end]] = true
		r.files--
	}
	if r.bytes -= len(name) + len(f.Data) + len(f.Link); r.bytes < 0 || r.files < 0 {
		return fmt.Errorf("with it there would be more than %d files and directories, or %d bytes of names and texts", maxFiles, maxTotal)
	}
	return nil
}

// counted finds the number in a name that is most often the only difference between files.
var counted = pattern.Of(`^(sys/devices/system/(?:cpu/cpu|node/node))(\d+)(/.*)$`)

// Format writes an archive, with a comment before it. The same files give the same bytes.
func Format(comment string, files Files) []byte {
	type group struct {
		first string // name, for the order
		name  string // with {} for the numbers
		ids   idset.Set
		file  File
	}
	groups := make(map[string]*group)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := files[name]
		key := name
		m := counted().FindStringSubmatch(name)
		n := -1
		if m != nil {
			if number, err := strconv.Atoi(m[2]); err == nil && number <= idset.MaxID && strconv.Itoa(number) == m[2] {
				n, key = number, m[1]+"{}"+m[3]+"\x00"+file.Link+"\x00"+string(file.Data)
			}
		}
		g := groups[key]
		if g == nil {
			g = &group{first: name, name: name, file: file}
			groups[key] = g
		}
		if n >= 0 {
			g.name = m[1] + "{}" + m[3]
			g.ids.Add(n)
		}
	}
	sorted := slices.SortedFunc(maps.Values(groups), func(x, y *group) int { return cmp.Compare(x.first, y.first) })
	a := txtar.Archive{Comment: []byte(comment + "\n\n")}
	for _, g := range sorted {
		name := g.first
		if g.ids.Len() > 1 {
			name = strings.Replace(g.name, "{}", "{"+g.ids.String()+"}", 1)
		}
		a.Files = append(a.Files, archived(name, g.file))
	}
	return txtar.Format(&a)
}

// archived is a file as the archive has it.
func archived(name string, f File) txtar.File {
	switch {
	case f.Link != "":
		return txtar.File{Name: name + " -> " + f.Link}
	case !utf8.Valid(f.Data) || bytes.ContainsRune(f.Data, 0) || bytes.HasPrefix(f.Data, []byte("-- ")) || bytes.Contains(f.Data, []byte("\n-- ")):
		return txtar.File{Name: name + " (hex)", Data: []byte(hex.EncodeToString(f.Data) + "\n")}
	}
	return txtar.File{Name: name, Data: f.Data}
}
