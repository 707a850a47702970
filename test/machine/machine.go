// Package machine gives tests whole machines as text: the files of /sys and /proc that matter, in
// topology/discover's form, in testdata/NAME.txtar. So binding, placement, GPUs and HCAs of machines that nobody has
// at hand are tested without them.
//
//	FS, Load, Text, Parse   a machine of the corpus, to read or to change
//	NCCL, Archive           machines out of others' files: NCCL's topology, hwloc's collection
//	Unpack                  a machine as a directory, for programs ($HWLOC_FSROOT)
//
// It needs nothing and is for tests only. A new machine is a file that "mpiup topo --capture" wrote there; tests over
// Names then read it too. testdata/NAME.plan is what mpiup run shows on one; go test -update writes it.
//
// Package live, below it, needs root: it makes this machine look like one of two NUMA nodes.
package machine

import (
	"embed"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mpiup/mpiup/topology/discover"
)

//go:embed testdata/*.txtar
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

// FS is a machine of the corpus to be read.
func FS(t testing.TB, name string) fs.FS {
	t.Helper()
	return parse(t, Text(t, name)).FS()
}

// Load is the files of a machine of the corpus, which a test may change.
func Load(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	return Parse(t, Text(t, name))
}

// Text is a machine of the corpus as it is written.
func Text(t testing.TB, name string) string {
	t.Helper()
	text, err := corpus.ReadFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(t testing.TB, text string) discover.Files {
	t.Helper()
	files, err := discover.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Parse is the files of a machine written as txtar.
func Parse(t testing.TB, text string) fstest.MapFS {
	t.Helper()
	return MapFS(parse(t, text))
}

// MapFS is files that a test can change.
func MapFS(files discover.Files) fstest.MapFS {
	m := fstest.MapFS{}
	for name, f := range files {
		m[name] = &fstest.MapFile{Mode: 0o444, Data: f.Data}
		if f.Link != "" {
			m[name] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(f.Link)}
		}
	}
	return m
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
