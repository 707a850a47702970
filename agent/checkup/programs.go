package checkup

import (
	"io/fs"
	"path"
	"slices"
)

// UsualPlaces are the directories below which images keep benchmarks: NVIDIA's HPC-X and nccl-tests below /opt,
// MVAPICH's and one's own builds below /usr/local, distributions' MPI below /usr/lib.
var UsualPlaces = []string{"/opt", "/usr/local", "/usr/lib", "/usr/libexec"}

// Bounds of a search: an image may have a million files.
const (
	maxEntries = 200_000
	maxDepth   = 9
)

// Find looks for programs by name: in and below first, then in the directories of PATH, then below UsualPlaces. There
// it prefers what is nearer to the top. What is found is by name; what is not there is left out. Links to directories
// are not followed.
func Find(fsys fs.FS, names, first, search []string) map[string]string {
	f := finder{fsys: fsys, want: names, most: maxEntries, found: map[string]string{}}
	for _, dir := range first {
		f.below(dir)
	}
	for _, dir := range search {
		f.in(dir)
	}
	for _, dir := range UsualPlaces {
		f.below(dir)
	}
	return f.found
}

type finder struct {
	fsys  fs.FS
	want  []string
	most  int // directory entries that are looked at
	found map[string]string
	seen  int
}

func (f *finder) done() bool { return len(f.found) == len(f.want) || f.seen >= f.most }

// rooted is the name that a tree has for an absolute path; false for another, and for the tree itself.
func rooted(name string) (string, bool) {
	if !path.IsAbs(name) {
		return "", false
	}
	name = path.Clean(name)[len("/"):]
	return name, name != ""
}

func (f *finder) in(dir string) {
	for _, name := range f.want {
		file, ok := rooted(path.Join(dir, name))
		if ok && f.found[name] == "" && f.executable(file) {
			f.found[name] = "/" + file
		}
	}
}

func (f *finder) executable(file string) bool {
	info, err := fs.Stat(f.fsys, file)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// below looks in a directory and then in those it has, level by level.
func (f *finder) below(root string) {
	dir, ok := rooted(root)
	if !ok {
		return
	}
	level := []string{dir}
	for depth := 0; depth < maxDepth && len(level) > 0; depth++ {
		var next []string
		for _, dir := range level {
			if f.done() {
				return
			}
			next = append(next, f.list(dir)...)
		}
		level = next
	}
}

// list takes what is wanted of a directory, and returns the directories in it.
func (f *finder) list(dir string) (dirs []string) {
	entries, err := fs.ReadDir(f.fsys, dir)
	if err != nil {
		return nil // not there, or not ours to read
	}
	for _, e := range entries {
		f.seen++
		name := e.Name()
		switch {
		case e.IsDir():
			dirs = append(dirs, path.Join(dir, name))
		case slices.Contains(f.want, name) && f.found[name] == "" && f.executable(path.Join(dir, name)):
			f.found[name] = "/" + path.Join(dir, name)
		}
	}
	return dirs
}
