package capture

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"github.com/mpiup/mpiup/internal/idset"
)

// Limits of an archive that is read or written.
const (
	MaxBytes = 16 << 20 // of its text
	maxFiles = 1 << 18
)

// Parse reads an archive.
func Parse(text []byte) (Files, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("an archive of %d bytes; the limit is %d", len(text), MaxBytes)
	}
	files := Files{}
	for _, f := range txtar.Parse(text).Files {
		name, target, link := strings.Cut(f.Name, " -> ")
		name, binary := strings.CutSuffix(name, " (hex)")
		file := File{Data: f.Data, Link: target}
		if binary {
			data, err := hex.DecodeString(strings.Join(strings.Fields(string(f.Data)), ""))
			if err != nil {
				return nil, fmt.Errorf("%.80s: %w", f.Name, err)
			}
			file.Data = data
		}
		if link && target == "" {
			return nil, fmt.Errorf("%.80s: a link to nothing", f.Name)
		}
		names, err := expand(name)
		if err != nil {
			return nil, fmt.Errorf("%.80s: %w", f.Name, err)
		}
		for _, name := range names {
			if _, twice := files[name]; twice || !fs.ValidPath(name) || name == "." || len(name) > maxName {
				return nil, fmt.Errorf("%.80s: not the name of a file, or there twice", name)
			}
			files[name] = file
		}
		if len(files) > maxFiles {
			return nil, fmt.Errorf("more than %d files", maxFiles)
		}
	}
	return files, nil
}

// expand gives the names that "cpu{0-2}/online" stands for.
func expand(name string) ([]string, error) {
	before, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}, nil
	}
	list, after, ok := strings.Cut(rest, "}")
	if !ok {
		return nil, fmt.Errorf("{ without }")
	}
	ids, err := idset.Parse(list)
	if err != nil {
		return nil, err
	}
	if ids.Len() > maxFiles {
		return nil, fmt.Errorf("more than %d files", maxFiles)
	}
	var names []string
	for id := range ids.All() {
		names = append(names, before+strconv.Itoa(id)+after)
	}
	return names, nil
}

// counted finds the number in a name that is most often the only difference between files.
var counted = regexp.MustCompile(`^(sys/devices/system/(?:cpu/cpu|node/node))(\d+)(/.*)$`)

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
		m := counted.FindStringSubmatch(name)
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
