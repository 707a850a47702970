package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/identity/keyfile"
)

// ErrNoSecret is matched by Load's error when the pod holds no job secret.
var ErrNoSecret = errors.New("no job secret found")

// DefaultKeyDir is where a Secret made for mpiup is mounted: it may hold "key",
// "ssh-privatekey" or "id_rsa", or one file of any other name.
const DefaultKeyDir = "/etc/mpiup"

// secret is a key that was found.
type secret struct {
	material []byte
	file     string // where it was read; "": it is in no file
	at       stamp  // of that file, from before it was read
	from     string
	mounted  bool
}

// finder carries one search and what it passed over, for the error.
type finder struct {
	o      Options
	passed []string
	denied error
}

// findSecret looks at --key, MPIUP_KEY and DefaultKeyDir. Then it looks at mounted volumes that hold id_rsa with
// authorized_keys beside it, as the operators mount them: $HOME/.ssh first, then /root/.ssh, then the others, which
// must agree. A key that is not on a volume of its own (a person's) is never taken unless named. Where all of that finds
// nothing, Options.Named counts.
func findSecret(o Options) (secret, error) {
	f := &finder{o: o}
	env := o.Env("MPIUP_KEY")
	if name := o.KeyFile; name != "" {
		from := "--key "
		if name == env {
			from = "MPIUP_KEY "
		}
		return f.namedKey(name, from+name)
	}
	if env != "" {
		return f.namedKey(env, "MPIUP_KEY "+env)
	}
	ms, err := mountsOf(o.Root)
	if err != nil {
		return secret{}, fmt.Errorf("look for the job's secret: %w", err)
	}
	for _, find := range []func([]mount) (secret, bool, error){f.defaultDir, f.home, f.scan} {
		if s, ok, err := find(ms); ok || err != nil {
			return s, err
		}
	}
	if s, ok, err := f.named(ms); ok || err != nil {
		return s, err
	}
	if f.denied != nil {
		return secret{}, f.denied
	}
	return secret{}, f.none()
}

// namedKey reads the key that a flag or a variable names. It counts as mounted where a volume of its
// own holds it: naming the key that is mounted anyway changes nothing.
func (f *finder) namedKey(name, from string) (secret, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		file, err := keyIn(name)
		if errors.Is(err, fs.ErrNotExist) {
			return secret{}, fmt.Errorf("%s (%s) is a directory without a key in it; name the file of the key that the agents have", name, from)
		}
		if err != nil {
			return secret{}, err
		}
		name = file
	}
	s, _, err := readKey(name, name)
	if errors.Is(err, fs.ErrNotExist) {
		return secret{}, fmt.Errorf("%w (%s): name the key that the agents have; mpiup keygen FILE makes a new one, to be copied to every host", err, from)
	}
	if err != nil {
		return secret{}, err
	}
	ms, err := mountsOf(f.o.Root)
	if err != nil {
		return secret{}, fmt.Errorf("look for the volume of %s: %w", name, err)
	}
	s.from, s.mounted = from, f.onVolume(name, ms)
	return s, nil
}

// named takes what Options.Named has: of files that are named for themselves the first that is there, of those that
// a list of authorized keys names all that are there, which must be one key.
func (f *finder) named(ms []mount) (found secret, ok bool, err error) {
	for _, n := range f.o.Named {
		file := filepath.Join(f.o.Root, n.File)
		s, k, err := readKey(file, n.File)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			f.passed = append(f.passed, fmt.Sprintf("%s (%s; it is not there)", n.File, n.From))
			continue
		case err != nil && n.Insist:
			return secret{}, false, fmt.Errorf("%w (%s)", err, n.From)
		case err != nil:
			f.passed = append(f.passed, fmt.Sprintf("%v (%s)", err, n.From))
			continue
		}
		s.from, s.mounted = n.File+" ("+n.From+")", f.onVolume(file, ms)
		if n.Authorized == "" {
			return s, true, nil
		}
		text, err := bounded.Regular(filepath.Join(f.o.Root, n.Authorized), maxTextFile)
		switch {
		case err != nil || !k.NamedIn(text):
			f.passed = append(f.passed, fmt.Sprintf("%s (%s, which does not name it)", n.File, n.From))
		case !ok:
			found, ok = s, true
		case !bytes.Equal(found.material, s.material):
			return secret{}, false, fmt.Errorf("two different keys are authorized, %s and %s: name the job's with MPIUP_KEY", found.from, s.from)
		}
	}
	return found, ok, nil
}

// onVolume says whether a file lies on a volume that was mounted into this container. File systems that machines have
// by themselves, or that hold a person's files, are none.
func (f *finder) onVolume(name string, ms []mount) bool {
	real, err := filepath.Abs(name)
	if err == nil {
		real, err = filepath.EvalSymlinks(real) // kubelet's files are links to those of ..data
	}
	if err != nil {
		return false
	}
	shown := f.shown(real)
	point := "/"
	for _, m := range ms {
		if within(shown, m.point) && len(m.point) > len(point) {
			point = m.point
		}
	}
	for _, dir := range []string{"/etc", "/home", "/root", "/tmp", "/usr", "/var", "/opt", "/run", "/srv", "/dev/shm", f.o.Env("HOME")} {
		if dir != "" && within(dir, point) {
			return false
		}
	}
	return !within(point, "/run/user")
}

// within says whether a path is dir or below it.
func within(name, dir string) bool {
	return dir == "/" || name == dir || strings.HasPrefix(name, dir+"/")
}

// keyIn chooses the key among a directory's files. Names that begin with a dot (the kubelet's
// ..data) do not count.
func keyIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", unreadable(dir, dir, err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	for _, want := range []string{"key", "ssh-privatekey", "id_rsa"} {
		if slices.Contains(names, want) {
			return filepath.Join(dir, want), nil
		}
	}
	switch {
	case len(names) == 1:
		return filepath.Join(dir, names[0]), nil
	case slices.Contains(names, "tls.key"):
		return "", fmt.Errorf("%s holds certificates: name it with --tls-dir", dir)
	case len(names) == 0:
		return "", fmt.Errorf("%s holds no key: %w", dir, fs.ErrNotExist)
	}
	return "", fmt.Errorf("%s holds %d files and none is called key: name the job's secret with --key", dir, len(names))
}

func (f *finder) defaultDir(ms []mount) (secret, bool, error) {
	dir := filepath.Join(f.o.Root, DefaultKeyDir)
	if st, err := os.Stat(filepath.Join(dir, "key")); err == nil && st.IsDir() {
		dir = filepath.Join(dir, "key")
	}
	file, err := keyIn(dir)
	if errors.Is(err, fs.ErrNotExist) {
		f.passed = append(f.passed, DefaultKeyDir+" (absent or empty)")
		return secret{}, false, nil
	}
	if err != nil {
		return secret{}, false, err
	}
	shown := f.shown(file)
	s, _, err := readKey(file, shown)
	s.mounted = f.onVolume(file, ms)
	return s, err == nil, err
}

// home takes $HOME/.ssh/id_rsa, then /root/.ssh/id_rsa, where that directory or that file is
// a mounted volume itself. A home directory on a volume of its own is not enough: what lies
// there is a person's.
func (f *finder) home(ms []mount) (secret, bool, error) {
	dirs := []string{"/root/.ssh"}
	if h := f.o.Env("HOME"); path.IsAbs(h) && path.Clean(h) != "/root" {
		dirs = []string{path.Join(h, ".ssh"), "/root/.ssh"}
	}
	for _, dir := range dirs {
		file := path.Join(dir, "id_rsa")
		i := slices.IndexFunc(ms, func(m mount) bool {
			return (m.point == dir || m.point == file) && m.secretVolume()
		})
		if i < 0 {
			f.passed = append(f.passed, file+" (not on a volume mounted there)")
			continue
		}
		if s, ok, err := f.mountedKey(file); ok || err != nil {
			return s, ok, err
		}
	}
	return secret{}, false, nil
}

// scan looks at every other mount. Several different keys are an error, since launcher and
// workers could choose differently.
func (f *finder) scan(ms []mount) (secret, bool, error) {
	var files []string
	for _, m := range ms {
		if !m.secretVolume() {
			continue
		}
		file := path.Join(m.point, "id_rsa")
		if path.Base(m.point) == "id_rsa" {
			file = m.point
		}
		files = append(files, file)
	}
	slices.Sort(files)
	var found secret
	for _, file := range slices.Compact(files) {
		s, ok, err := f.mountedKey(file)
		switch {
		case err != nil:
			return secret{}, false, err
		case !ok:
		case found.material == nil:
			found = s
		case !bytes.Equal(found.material, s.material):
			return secret{}, false, fmt.Errorf("two different keys are mounted, %s and %s: name the job's with --key or MPIUP_KEY",
				found.from, s.from)
		}
	}
	f.passed = append(f.passed, fmt.Sprintf("%d mounted volumes (no id_rsa with authorized_keys beside it)", len(files)))
	return found, found.material != nil, nil
}

// mountedKey takes the key at file, on a mounted volume, if it looks like an operator's.
func (f *finder) mountedKey(file string) (secret, bool, error) {
	real := filepath.Join(f.o.Root, file)
	if _, err := os.Stat(real); err != nil {
		if errors.Is(err, fs.ErrPermission) && strings.Contains(file, "/.ssh/") && f.denied == nil {
			f.denied = unreadable(real, file, err)
		}
		return secret{}, false, nil
	}
	beside := filepath.Join(filepath.Dir(real), "authorized_keys")
	if _, err := os.Stat(beside); err != nil {
		f.passed = append(f.passed, file+" (no authorized_keys beside it)")
		return secret{}, false, nil
	}
	s, k, err := readKey(real, file)
	if errors.Is(err, fs.ErrPermission) {
		if f.denied == nil {
			f.denied = err
		}
		return secret{}, false, nil
	}
	if err != nil {
		return secret{}, false, err
	}
	if authorized, err := bounded.Regular(beside, maxTextFile); err == nil && !k.AuthorizedBy(authorized) {
		f.passed = append(f.passed, file+" (a person's: authorized_keys beside it names other keys only)")
		return secret{}, false, nil
	}
	s.mounted = true
	return s, true, nil
}

func (f *finder) shown(file string) string {
	rel, err := filepath.Rel(f.o.Root, file)
	if err != nil {
		return file
	}
	return "/" + rel
}

// readKey reads the key in a file, which messages call shown.
func readKey(file, shown string) (secret, keyfile.Key, error) {
	at, err := stampOf(file)
	var data []byte
	if err == nil {
		data, err = bounded.Regular(file, keyfile.MaxSize)
	}
	if err != nil {
		return secret{}, keyfile.Key{}, unreadable(file, shown, err)
	}
	k, err := keyfile.Parse(data)
	if err != nil {
		return secret{}, k, fmt.Errorf("key %s: it is %w", shown, err)
	}
	return secret{material: k.Material, file: file, at: at, from: shown}, k, nil
}

// unreadable explains why a key could not be read: who we are, whose it is.
func unreadable(file, shown string, err error) error {
	err = bounded.Cause(err)
	if !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("key %s: %w", shown, err)
	}
	whose := "in a directory that uid may not enter"
	if st, serr := os.Stat(file); serr == nil {
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			whose = fmt.Sprintf("it belongs to uid %d, gid %d, mode %04o", sys.Uid, sys.Gid, st.Mode().Perm())
		}
	}
	return fmt.Errorf("key %s cannot be read by uid %d, gid %d (%s): %w", shown, os.Geteuid(), os.Getegid(), whose, err)
}

func (f *finder) none() error {
	if !f.o.inPod() {
		return fmt.Errorf("%w\ngive the key that the agents have, --key FILE or MPIUP_KEY (mpiup keygen FILE makes one, to be copied to every host), "+
			"or certificates, --tls-dir", ErrNoSecret)
	}
	return fmt.Errorf(`%w. mpiup needs one Secret, mounted in every pod of the job:
  MPI Operator      mounts its own in the first container of launcher and workers
  Kubeflow Trainer  in the containers called "node"
  Volcano           with the plugin ssh (plugins: {ssh: []})
  elsewhere         mpiup keygen key; kubectl create secret generic NAME --from-file=key; mount it at %s
Or name a file with --key or MPIUP_KEY, or certificates with --tls-dir or MPIUP_TLS_DIR. Looked at:
  --key and MPIUP_KEY (not given)
  %s`, ErrNoSecret, DefaultKeyDir, strings.Join(f.passed, "\n  "))
}
