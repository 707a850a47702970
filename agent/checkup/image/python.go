package image

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/mpilib/script"
	"github.com/mpiup/mpiup/internal/pattern"
)

var pythonName = pattern.Of(`^(python|pypy)[0-9.]*$`)

// pythonCommand is a command line of Python's, of which one of module, file and code is given; none: it reads its standard input.
type pythonCommand struct {
	module string // of -m
	file   string // a script, or a directory with one
	code   string // of -c
	alone  bool   // an option changes where it looks for modules: -E, -I, -s or -S
}

// readPython reads the words behind "python3" (CPython's Python/getopt.c: letters may stand together, and a value behind its letter).
func readPython(args []string) (c pythonCommand) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && !strings.HasPrefix(args[0], "--") {
		letters := args[0][1:]
		args = args[1:]
		for at, letter := range letters {
			if strings.ContainsRune("EIsS", letter) {
				c.alone = true
			}
			if !strings.ContainsRune("cmWX", letter) {
				continue
			}
			value := letters[at+1:]
			if value == "" && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			switch letter {
			case 'c':
				c.code = value
				return c
			case 'm':
				c.module = value
				return c
			}
			break
		}
	}
	if len(args) > 0 && args[0] != "-" && !strings.HasPrefix(args[0], "--") {
		c.file = args[0]
	}
	return c
}

// python looks at what an interpreter is to run. exe is "" where nobody knows which interpreter it is.
func (i *image) python(exe string, q mpilib.Query) {
	c, by := readPython(q.Argv[1:]), path.Base(q.Argv[0])
	switch {
	case c.module != "":
		if exe != "" {
			i.module(exe, c, q)
		}
	case c.file != "":
		file := script.Absolute(q.Dir, c.file)
		if !i.script(file, by) {
			return
		}
		i.add("script", checkup.Pass, fmt.Sprintf("%.200s is here, for %s; of what it imports only frameworks are looked for", file, by), "")
		if exe != "" {
			i.imports(exe, path.Base(file), i.text(file), i.places(exe, file, c, q))
		}
	case c.code != "":
		i.unchecked("what " + by + " -c runs, but for frameworks that it imports")
		if exe != "" {
			i.imports(exe, by+" -c", strings.ReplaceAll(c.code, ";", "\n"), i.places(exe, "", c, q))
		}
	case len(q.Argv) > 1:
		i.unchecked("what " + by + " with these options runs")
	}
}

// places are where an interpreter finds modules.
type places struct {
	dirs   []string
	opaque bool // there may be more: only Python knows what a .pth file's code or an archive adds
}

// Bounds of what .pth files add.
const (
	maxPathFiles = 256
	maxPlaces    = 1024
)

// add adds a directory, unless it is known.
func (p *places) add(dir string) {
	switch {
	case slices.Contains(p.dirs, dir):
	case len(p.dirs) >= maxPlaces:
		p.opaque = true
	default:
		p.dirs = append(p.dirs, dir)
	}
}

func (i *image) places(exe, file string, c pythonCommand, q mpilib.Query) places {
	p := places{dirs: i.libs.Places(q, exe, file), opaque: c.alone}
	library, pathFiles := false, 0
	for _, dir := range slices.Clone(p.dirs) {
		library = library || i.stat(path.Join(dir, "os.py")) != nil
		if info := i.stat(dir); info != nil && !info.IsDir() {
			p.opaque = true
		}
		for _, e := range i.entries(dir) {
			if !strings.HasSuffix(e.Name(), ".pth") || e.Name() == "distutils-precedence.pth" || strings.HasSuffix(e.Name(), "-nspkg.pth") {
				continue // setuptools' add no directory
			}
			if pathFiles++; pathFiles > maxPathFiles {
				p.opaque = true
				break
			}
			for line := range strings.Lines(i.text(path.Join(dir, e.Name()))) {
				switch line = strings.TrimSpace(line); {
				case strings.HasPrefix(line, "import "), strings.HasPrefix(line, "import\t"):
					p.opaque = true
				case line != "" && line[0] != '#':
					p.add(script.Absolute(dir, line))
				}
			}
		}
	}
	p.opaque = p.opaque || !library
	return p
}

// text is the beginning of a text; "" of one that cannot be read.
func (i *image) text(file string) string {
	text, _ := i.beginning(file, 64<<10)
	return string(text)
}

// Bounds of the entries that are read: of one directory, and of all in one look.
const (
	maxEntries    = 4096
	maxAllEntries = 256 << 10
)

// entries are a directory's, sorted by name, as many as the bounds let.
func (i *image) entries(dir string) []fs.DirEntry {
	if i.listed >= maxAllEntries {
		return nil
	}
	f, err := i.Files.Open(inFS(dir))
	if err != nil {
		return nil
	}
	defer f.Close()
	opened, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil
	}
	entries, _ := opened.ReadDir(maxEntries) // those that could be read
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	i.listed += len(entries)
	return entries
}

// module is the file or directory of a module; "" where there is none.
func (p places) module(i *image, name string) string {
	for _, dir := range p.dirs {
		for _, file := range []string{name + "/__init__.py", name + ".py", name + ".pyc"} {
			if i.stat(path.Join(dir, file)) != nil {
				return strings.TrimSuffix(path.Join(dir, file), "/__init__.py")
			}
		}
		for _, e := range i.entries(dir) {
			if strings.HasPrefix(e.Name(), name+".") && strings.HasSuffix(e.Name(), ".so") {
				return path.Join(dir, e.Name())
			}
		}
	}
	for _, dir := range p.dirs { // a namespace package
		if info := i.stat(path.Join(dir, name)); info != nil && info.IsDir() {
			return path.Join(dir, name)
		}
	}
	return ""
}

// module looks for what python3 -m is to run.
func (i *image) module(exe string, c pythonCommand, q mpilib.Query) {
	const name = "module"
	p := i.places(exe, "", c, q)
	first, inner, _ := strings.Cut(c.module, ".")
	at := p.module(i, first)
	absent := at == ""
	for part := range strings.SplitSeq(inner, ".") {
		if part != "" && at != "" {
			at = (places{dirs: []string{at}}).module(i, part)
		}
	}
	info := i.stat(at)
	switch {
	case at != "" && info != nil && (!info.IsDir() || i.stat(path.Join(at, "__main__.py")) != nil):
		i.add(name, checkup.Pass, fmt.Sprintf("%.200s is here, for %s", at, exe), "")
		if strings.HasSuffix(at, ".py") {
			i.imports(exe, c.module, i.text(at), p)
		}
	case absent && !p.opaque:
		i.add(name, checkup.Fail, fmt.Sprintf("%s has no module %.100s%s", exe, first, i.elsewhere(first)), "install it for that interpreter, or name "+
			"another one by its path")
	case at != "" && i.stat(path.Join(at, "__init__.py")) != nil && !p.opaque:
		i.add(name, checkup.Fail, fmt.Sprintf("%.200s is a package without __main__.py: -m cannot run it", at), "name the module in it that is to run")
	default:
		i.unchecked("whether " + exe + " finds the module " + c.module)
	}
}

// elsewhere says which other interpreter has a package, for the end of a sentence.
func (i *image) elsewhere(name string) string {
	for _, site := range i.sites() {
		if dir := "/" + path.Join(site, name); i.stat(dir) != nil {
			by := path.Join(path.Dir(path.Dir(path.Dir("/"+site))), "bin/python3")
			if i.stat(by) != nil {
				return fmt.Sprintf("; %s has: %s", by, dir)
			}
			return "; it is in " + dir
		}
	}
	return ""
}

// importLine is one that is run whatever the program does: it is not indented.
var importLine = pattern.Of(`(?m)^(?:import[ \t]+([\w., \t]+)|from[ \t]+(\w+))`)

// imports looks for the frameworks that a text names.
func (i *image) imports(exe, who, text string, p places) {
	var found []string
	for _, m := range importLine().FindAllStringSubmatch(text, 256) {
		for word := range strings.SplitSeq(m[1]+","+m[2], ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(word), " ")
			if name, _, _ = strings.Cut(name, "."); slices.Contains(packages, name) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	for _, name := range found {
		switch at := p.module(i, name); {
		case at != "":
			i.add("imports", checkup.Pass, fmt.Sprintf("%s, of %s: %s", name, who, at), "")
		case p.opaque || strings.Contains(text, "sys.path"):
			i.unchecked("whether " + exe + " finds " + name + ", which " + who + " imports")
		default:
			i.add("imports", checkup.Warn, fmt.Sprintf("%s imports %s, which %s does not have%s", who, name, exe, i.elsewhere(name)),
				"install it for that interpreter, or name another one by its path")
		}
	}
}
