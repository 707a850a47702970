package mpilib

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/agent/mpilib/script"
)

// interp is a Python interpreter.
type interp struct {
	exe    string
	venv   string   // prefix of its virtual environment; "" none
	base   string   // prefix of its installation
	user   string   // base of the user's own packages; "" not used
	sites  []string // where it looks for packages, in order
	binary *opened
}

// python looks for MPI in the packages of an interpreter.
func (k *look) python(exe string, c command, depth int) hit {
	text, file, first := k.pythonArgs(c)
	k.said = text
	says := bytes.Contains(text, []byte("mpi4py")) || bytes.Contains(text, []byte("horovod")) || bytes.Contains(text, []byte("petsc4py"))
	in := k.interpreter(exe, c, file)
	for _, site := range in.sites {
		k.nccl.wheel(k.files, site)
		k.torchWheel(site)
	}
	var own hit
	if o, err := k.files.openObject(exe); err == nil {
		defer o.close()
		in.binary = o
		own = k.packages(in, c)
	}
	own.sure, own.mention = says, says
	if own.found() && says {
		return own
	}
	if h := k.arguments(c, first, false, depth); h.found() {
		return h
	}
	return own
}

// pythonArgs is what Python's command line shows of the program: its text as far as it is read, or its module's name,
// the script's path, and where in argv its own arguments begin.
func (k *look) pythonArgs(c command) (text []byte, file string, first int) {
	for i := 1; i < len(c.Argv); i++ {
		switch word := c.Argv[i]; {
		case word == "-c" || word == "-m":
			if i+1 < len(c.Argv) {
				text = []byte(c.Argv[i+1])
			}
			return text, "", i + 2
		case word == "-W" || word == "-X" || word == "--check-hash-based-pycs":
			i++
		case strings.HasPrefix(word, "-"):
		default:
			file = script.Absolute(c.Dir, word)
			return k.files.head(file, maxScript), file, i + 1
		}
	}
	return nil, "", len(c.Argv)
}

// interpreter says where an interpreter looks for packages (CPython's getpath and site).
func (k *look) interpreter(exe string, c command, file string) interp {
	in := interp{exe: exe}
	system := true
	for _, dir := range []string{path.Dir(exe), path.Dir(path.Dir(exe))} {
		cfg := k.files.head(path.Join(dir, "pyvenv.cfg"), maxScript)
		if cfg == nil {
			continue
		}
		in.venv, system = dir, setting(cfg, "include-system-site-packages") == "true"
		in.base = path.Dir(setting(cfg, "home"))
		break
	}
	version := path.Base(k.files.real(exe))
	if in.venv == "" {
		in.base = path.Dir(path.Dir(k.files.real(exe)))
	}
	if home := c.Env.Get("PYTHONHOME"); home != "" && in.venv == "" {
		in.base, _, _ = strings.Cut(home, ":")
	}
	if home := c.Env.Get("HOME"); system && c.Env.Get("PYTHONNOUSERSITE") == "" && home != "" {
		in.user = path.Join(home, ".local")
		if v := c.Env.Get("PYTHONUSERBASE"); v != "" {
			in.user = v
		}
	}
	in.sites = append(in.sites, c.Dir)
	if file != "" {
		in.sites[0] = path.Dir(file)
	}
	for _, p := range strings.Split(c.Env.Get("PYTHONPATH"), ":") {
		if p != "" {
			in.sites = append(in.sites, script.Absolute(c.Dir, p))
		}
	}
	prefixes := []string{in.venv, in.user}
	if system && in.base == "/usr" { // Debian's order
		prefixes = append(prefixes, "/usr/local")
	}
	if system {
		prefixes = append(prefixes, in.base)
	}
	for _, p := range prefixes {
		if p != "" {
			in.sites = append(in.sites, k.siteDirs(p, version)...)
		}
	}
	return in
}

// Places are the directories in which an interpreter finds modules, as far as files tell: that of its script, file, or where that is ""
// the working directory, PYTHONPATH's, those of its packages, and its own library's. What .pth files add is not among them.
func (m *Memory) Places(q Query, exe, file string) []string {
	return answered(func() []string {
		k := &look{files: newFiles(m.fsys, time.Now().Add(lookDeadline))}
		asked := &asked{vars: parseEnv(q.Env), seen: map[string]string{}}
		in := k.interpreter(exe, command{Argv: q.Argv, Env: script.EnvOf(asked.lookup), Dir: q.Dir}, file)
		lib := path.Join(in.base, "lib", path.Base(k.files.real(exe)))
		return append(in.sites, lib, path.Join(lib, "lib-dynload"))
	}, nil)
}

// setting is a value of pyvenv.cfg.
func setting(cfg []byte, key string) string {
	for line := range strings.Lines(string(cfg)) {
		if k, v, ok := strings.Cut(line, "="); ok && strings.EqualFold(strings.TrimSpace(k), key) {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// siteDirs are the directories of packages under a prefix: of the interpreter's own version where
// that is known, lib/python3.11, else of all that are there.
func (k *look) siteDirs(prefix, version string) (dirs []string) {
	for _, lib := range []string{"lib", "lib64"} {
		root := path.Join(prefix, lib)
		versions := []string{path.Join(root, version)}
		if !strings.Contains(version, ".") || !k.files.stat(versions[0]).dir() {
			versions = k.files.match(root, "python3.*")
		}
		for _, v := range append(versions, path.Join(root, "python3")) {
			for _, name := range []string{"site-packages", "dist-packages"} {
				if d := path.Join(v, name); k.files.stat(d).dir() {
					dirs = append(dirs, d)
				}
			}
		}
	}
	return dirs
}

// modules are packages with MPI in them besides mpi4py, and their files that need it.
var modules = []struct{ name, dir, pattern string }{
	{"horovod", "horovod/torch", "mpi_lib*.so"},
	{"horovod", "horovod/tensorflow", "mpi_lib*.so"},
	{"petsc4py", "petsc4py/lib", "PETSc*.so"},
	{"h5py", "h5py", "defs*.so"},
}

// packages finds the MPI of an interpreter's packages.
func (k *look) packages(in interp, c command) hit {
	for _, site := range in.sites {
		k.horovod = k.horovod || k.files.stat(path.Join(site, "horovod")).dir()
	}
	for _, site := range in.sites {
		if !k.files.step(len(site)) {
			break
		}
		if dir := path.Join(site, "mpi4py"); k.files.stat(dir).dir() {
			if l, ok := k.mpi4py(in, dir, c); ok {
				return hit{mpi: l, program: in.exe, module: "mpi4py"}
			}
		}
		for _, m := range modules {
			dir := path.Join(site, m.dir)
			if !k.files.stat(dir).dir() {
				continue
			}
			for _, file := range k.files.match(dir, m.pattern) {
				if l, ok := k.extension(in, file, c); ok {
					return hit{mpi: l, program: in.exe, module: m.name}
				}
			}
		}
	}
	return hit{}
}

// extension is the MPI library of a Python extension.
func (k *look) extension(in interp, file string, c command) (library, bool) {
	o, err := k.files.openObject(file)
	if err != nil {
		return library{}, false
	}
	defer o.close()
	return newLoader(k, in.binary, c.Env, c.Dir).mpi(o, nil)
}

// mpi4py is the MPI library of a package. Its wheels hold extensions for several (MPI.mpich.*.so,
// MPI.openmpi.*.so) and take the one that fits the first libmpi they can open, in this order
// (mpi4py 4.1, _mpiabi.py): MPI4PY_LIBMPI; lib in the virtual environment, the user's base, the
// installation unless it is /usr; wherever the loader finds it.
func (k *look) mpi4py(in interp, dir string, c command) (library, bool) {
	files := k.files.match(dir, "MPI.*so")
	variant := func(file string) string {
		fields := strings.Split(path.Base(file), ".")
		if len(fields) > 3 && !strings.HasPrefix(fields[1], "cpython") && !strings.HasPrefix(fields[1], "pypy") {
			return fields[1]
		}
		return ""
	}
	if i := slices.IndexFunc(files, func(f string) bool { return variant(f) == "" }); i >= 0 {
		return k.extension(in, files[i], c)
	}
	if len(files) == 0 {
		return library{}, false
	}
	if abi := c.Env.Get("MPI4PY_MPIABI"); abi != "" {
		abi = strings.ToLower(strings.NewReplacer(" ", "", "-", "", "_", "").Replace(abi))
		if abi == "impi" {
			abi = "mpich"
		}
		if i := slices.IndexFunc(files, func(f string) bool { return variant(f) == abi }); i >= 0 {
			return k.extension(in, files[i], c)
		}
		return library{}, false
	}
	return k.openedMPI(in, c)
}

// openedMPI is what mpi4py's wheel finds.
func (k *look) openedMPI(in interp, c command) (library, bool) {
	var entries []string
	if v := c.Env.Get("MPI4PY_LIBMPI"); v != "" {
		entries = strings.Split(v, ":")
	} else {
		prefixes := []string{in.venv, in.user}
		if in.base != "/usr" {
			prefixes = append(prefixes, in.base)
		}
		for _, prefix := range prefixes {
			if prefix != "" {
				entries = append(entries, path.Join(prefix, "lib"))
			}
		}
		entries = append(entries, "")
	}
	d := newLoader(k, in.binary, c.Env, c.Dir)
	root := d.load(in.binary, nil)
	for _, e := range entries {
		names := []string{e}
		if dir := script.Absolute(c.Dir, e); e == "" || k.files.stat(dir).dir() {
			names = names[:0]
			for _, n := range []string{"libmpi.so", "libmpi.so.12", "libmpi.so.40"} {
				if e != "" {
					n = path.Join(dir, n)
				}
				names = append(names, n)
			}
		}
		for _, n := range names {
			if o, ok := d.find(n, root); ok {
				l := recognise(o, d.needs(o, root))
				d.mpi(o, nil) // for its hwloc
				o.close()
				return l, true
			}
		}
	}
	return library{}, false
}
