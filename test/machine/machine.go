// Package machine gives tests whole machines as text: the files of /sys and /proc that matter,
// in txtar form under testdata.
//
//	-- sys/devices/system/cpu/cpu{0-3}/topology/physical_package_id --
//	0
//	-- sys/class/net/ib0 -> ../../devices/pci0000:00/0000:00:01.0/net/ib0 --
//	-- sys/devices/pci0000:00/0000:00:01.0/config (hex) --
//	8680573d
//
// {LIST} stands for one file of the same content for each number of the list, and may be there
// once in a name; " -> " makes a symbolic link of the name; (hex) is a file of bytes. Everything
// before the first file is a comment.
//
// Machines with eight GPUs and eight HCAs are under testdata/gpu, "gpu/NAME" to Load.
//
// It is for tests only.
package machine

import (
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/mpiup/mpiup/internal/idset"
)

//go:embed testdata/*.txtar testdata/gpu/*.txtar
var corpus embed.FS

// Names is the machines there are.
func Names(t testing.TB) (names []string) {
	t.Helper()
	files, err := fs.Glob(corpus, "testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(path.Base(f), ".txtar"))
	}
	return names
}

// Load is the files of a machine of the corpus.
func Load(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	text, err := corpus.ReadFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	return Parse(t, string(text))
}

// Parse is the files of a machine written as txtar.
func Parse(t testing.TB, text string) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(text)).Files {
		name, target, link := strings.Cut(f.Name, " -> ")
		name, binary := strings.CutSuffix(name, " (hex)")
		data := f.Data
		if binary {
			var err error
			if data, err = hex.DecodeString(strings.Join(strings.Fields(string(data)), "")); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
		}
		names, err := expand(name)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		for _, name := range names {
			if !fs.ValidPath(name) || m[name] != nil {
				t.Fatalf("%s: not a path, or there twice", name)
			}
			if link {
				m[name] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(target)}
			} else {
				m[name] = &fstest.MapFile{Mode: 0o444, Data: data}
			}
		}
	}
	return m
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
	var names []string
	for id := range ids.All() {
		names = append(names, before+strconv.Itoa(id)+after)
	}
	return names, nil
}

// Unpack writes files below a new directory, for programs that read a machine there
// ($HWLOC_FSROOT), and returns it.
func Unpack(t testing.TB, files fstest.MapFS) string {
	t.Helper()
	root := t.TempDir()
	for name, f := range files {
		to := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			if f.Mode&fs.ModeSymlink != 0 {
				err = os.Symlink(string(f.Data), to)
			} else {
				err = os.WriteFile(to, f.Data, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}
