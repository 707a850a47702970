package mpilib

import (
	"debug/elf"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/mpilib/script"
)

// loader finds the libraries of one program as the dynamic loader does (ld.so(8)): DT_RPATH of
// what needs them and of what loaded that, LD_LIBRARY_PATH, DT_RUNPATH, the cache, the default
// directories. Directories of ld.so.conf count through the cache only, as there.
type loader struct {
	look    *look
	machine elf.Machine
	musl    bool
	path    []string // LD_LIBRARY_PATH
	objects int
}

// loaded is an object and what loaded it.
type loaded struct {
	path    string
	rpath   []string // DT_RPATH where there is no DT_RUNPATH, origin filled in
	runpath []string
	needed  []string
	by      *loaded
}

func newLoader(k *look, program *opened, e script.Env, dir string) *loader {
	d := &loader{look: k, machine: program.Machine, musl: strings.Contains(program.Interp, "ld-musl-")}
	for _, p := range strings.FieldsFunc(e.Get("LD_LIBRARY_PATH"), func(r rune) bool { return r == ':' || r == ';' }) {
		d.path = append(d.path, script.Absolute(dir, p))
	}
	return d
}

// load notes what an opened object needs, and where that is searched.
func (d *loader) load(o *opened, by *loaded) *loaded {
	fill := func(dirs []string) (out []string) {
		for _, s := range dirs {
			out = append(out, d.substitute(s, path.Dir(o.path)))
		}
		return out
	}
	l := &loaded{path: o.path, needed: o.Needed, runpath: fill(o.RunPath), by: by}
	if len(l.runpath) == 0 {
		l.rpath = fill(o.RPath)
	}
	return l
}

// substitute fills in $ORIGIN and $LIB, as far as they are known without the loader.
func (d *loader) substitute(s, origin string) string {
	if !strings.Contains(s, "$") {
		return s
	}
	return strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin, "$LIB", "lib64", "${LIB}", "lib64").Replace(s)
}

// mpi finds the first MPI library, breadth first as symbols are, that an object needs. preloaded
// names come before its own. It goes on until an hwloc is seen too: which one that is counts (hwlocs).
func (d *loader) mpi(o *opened, preloaded []string) (library, bool) {
	root := d.load(o, nil)
	root.needed = slices.Concat(preloaded, root.needed)
	queue, seen := []*loaded{root}, map[string]bool{}
	var mpi, other library // other: PMI or PMIx without MPI
	for len(queue) > 0 && (mpi.family == noFamily || d.look.hwloc == hwlocs{}) {
		l := queue[0]
		queue = queue[1:]
		for _, name := range l.needed {
			base := path.Base(name)
			d.look.hwloc.note(base)
			if seen[name] || systemLibrary().MatchString(base) {
				continue
			}
			seen[name] = true
			switch {
			case mpi.family == noFamily && mpiLibrary().MatchString(base):
				mpi = d.recognised(name, l)
			case pmixLibrary().MatchString(base):
				other = library{family: pmixClient, path: name}
			case pmiLibrary().MatchString(base) && other.family == noFamily:
				other = library{family: pmiClient, path: name}
			}
			if next, ok := d.find(name, l); ok {
				if base == ncclName {
					d.look.nccl.file(d.look.files, next.path)
				}
				queue = append(queue, d.load(next, l))
				next.close()
			}
		}
	}
	if mpi.family != noFamily {
		return mpi, true
	}
	return other, other.family != noFamily
}

// recognised opens an MPI library and says what it is.
func (d *loader) recognised(name string, by *loaded) library {
	o, ok := d.find(name, by)
	if !ok {
		return byName(path.Base(name))
	}
	defer o.close()
	return recognise(o, d.needs(o, by))
}

// needs is the names of what an MPI library needs, and of what those need that bear its protocol.
func (d *loader) needs(o *opened, by *loaded) []string {
	names := slices.Clone(o.Needed)
	l := d.load(o, by)
	for _, name := range o.Needed {
		if base := path.Base(name); strings.HasPrefix(base, "libmpi") || strings.HasPrefix(base, "libopen-rte.") || pmiLibrary().MatchString(base) {
			if next, ok := d.find(name, l); ok {
				names = append(names, next.Needed...)
				next.close()
			}
		}
	}
	return names
}

// find opens a library that an object needs.
func (d *loader) find(name string, by *loaded) (*opened, bool) {
	if strings.Contains(name, "/") {
		return d.open(name)
	}
	if len(by.runpath) == 0 {
		for l := by; l != nil; l = l.by {
			if o, ok := d.in(l.rpath, name); ok {
				return o, true
			}
		}
	}
	for _, dirs := range [][]string{d.path, by.runpath} {
		if o, ok := d.in(dirs, name); ok {
			return o, true
		}
	}
	if !d.musl {
		for _, p := range d.look.ldCache().find(name) {
			if o, ok := d.open(p); ok {
				return o, true
			}
		}
	}
	return d.in(d.defaults(), name)
}

func (d *loader) in(dirs []string, name string) (*opened, bool) {
	for _, dir := range dirs {
		if !d.look.files.step(len(name)) {
			break
		}
		if o, ok := d.open(path.Join(dir, name)); ok {
			return o, true
		}
	}
	return nil, false
}

// open opens a library, unless it is of another machine.
func (d *loader) open(p string) (*opened, bool) {
	if d.objects >= maxObjects || !d.look.files.stat(p).regular() {
		return nil, false
	}
	o, err := d.look.files.openObject(p)
	if err != nil {
		return nil, false
	}
	if o.Machine != d.machine {
		o.close()
		return nil, false
	}
	d.objects++
	return o, true
}

// multiarch are Debian's names of machines, which its glibc has in the default directories.
var multiarch = map[elf.Machine]string{elf.EM_X86_64: "x86_64-linux-gnu", elf.EM_AARCH64: "aarch64-linux-gnu",
	elf.EM_PPC64: "powerpc64le-linux-gnu", elf.EM_RISCV: "riscv64-linux-gnu"}

func (d *loader) defaults() []string {
	if d.musl {
		return []string{"/lib", "/usr/local/lib", "/usr/lib"}
	}
	dirs := []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib"}
	if m := multiarch[d.machine]; m != "" {
		dirs = append([]string{"/lib/" + m, "/usr/lib/" + m}, dirs...)
	}
	return dirs
}

// Lack is a library that the loader would not find.
type Lack struct{ Name, By string }

// Missing finds the program of a command, as execvp does, and what of the libraries that it needs, itself or through others,
// is not there; of a script it is the interpreter's. exe is "" where there is no program. Where the limits end the search, or a file
// system that does not answer, whole is false.
func (m *Memory) Missing(q Query) (exe string, missing []Lack, whole bool) {
	type answer struct {
		exe     string
		missing []Lack
		whole   bool
	}
	if len(q.Argv) == 0 {
		return "", nil, true
	}
	a := answered(func() (a answer) {
		k := &look{files: newFiles(m.fsys, time.Now().Add(lookDeadline))}
		asked := &asked{vars: parseEnv(q.Env), seen: map[string]string{}}
		env := script.EnvOf(asked.lookup)
		if a.exe = k.Resolve(q.Argv[0], env, q.Dir); a.exe != "" {
			a.missing, a.whole = lacking(k, a.exe, env, q.Dir)
		}
		return a
	}, answer{exe: q.Argv[0]})
	return a.exe, a.missing, a.whole
}

func lacking(k *look, exe string, e script.Env, dir string) (missing []Lack, whole bool) {
	for range 4 { // an interpreter may be a script
		head := k.files.head(exe, 256)
		if len(head) < 2 || string(head[:2]) != "#!" {
			break
		}
		words := interpreter(head)
		name := words[0]
		if path.Base(name) == "env" && len(words) > 1 { // env -S python3 -u
			for _, w := range strings.Fields(words[1]) {
				if name = w; !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
					break
				}
			}
		}
		by := exe
		if exe = k.Resolve(name, e, dir); exe == "" {
			return []Lack{{printable(name), "the #! line of " + printable(by)}}, true
		}
	}
	o, err := k.files.openObject(exe)
	if err != nil {
		return nil, !k.files.spent()
	}
	d := newLoader(k, o, e, dir)
	queue, seen := []*loaded{d.load(o, nil)}, map[string]bool{}
	o.close()
	for len(queue) > 0 {
		l := queue[0]
		queue = queue[1:]
		for _, name := range l.needed {
			if seen[name] {
				continue
			}
			seen[name] = true
			next, ok := d.find(name, l)
			switch {
			case ok:
				queue = append(queue, d.load(next, l))
				next.close()
			case d.objects >= maxObjects || k.files.spent():
				return missing, false
			default:
				missing = append(missing, Lack{printable(name), printable(l.path)})
			}
		}
	}
	return missing, true
}
