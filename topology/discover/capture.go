package discover

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/mpiup/mpiup/topology/sysfs"
)

// Take reads a machine. What is missing is left out; the error says that there is more than a machine
// has.
func Take(fsys sysfs.FS) (Files, error) {
	t := &taker{fs: fsys, files: Files{}, room: newRoom(), links: map[string]string{}}
	for _, e := range table {
		if err := t.entry(e); err != nil {
			return nil, err
		}
	}
	if err := t.cgroups(); err != nil {
		return nil, err
	}
	return t.files, nil
}

// taker collects files.
type taker struct {
	fs    sysfs.FS
	files Files
	room  *room
	links map[string]string // what is known of links: "" for a name that is none
	alias private
}

// entry takes the files of one line of the table.
func (t *taker) entry(e entry) error {
	for _, dir := range t.match(strings.Split(e.dir, "/")) {
		for _, name := range strings.Fields(e.files) {
			for _, file := range t.match(strings.Split(path.Join(dir, name), "/")) {
				if err := t.take(file, e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// match is the names that a pattern stands for; only a part with a * is looked for.
func (t *taker) match(parts []string) []string {
	found := []string{""}
	for _, part := range parts {
		var next []string
		for _, dir := range found {
			if !strings.Contains(part, "*") {
				next = append(next, path.Join(dir, part))
				continue
			}
			names, _ := t.fs.Names(path.Join(dir, "."))
			for _, name := range names {
				if ok, _ := path.Match(part, name); ok && !t.foreign(path.Join(dir, name)) {
					next = append(next, path.Join(dir, name))
				}
			}
		}
		if found = next; len(found) == 0 {
			return nil
		}
	}
	return found
}

// foreign are network interfaces and InfiniBand devices that are no hardware; their names tell of
// pods.
func (t *taker) foreign(name string) bool {
	if !strings.HasPrefix(name, "sys/class/") {
		return false
	}
	target := t.link(name)
	return strings.Contains(target, "/virtual/net/") || strings.Contains(target, "/virtual/infiniband/")
}

// take takes one file, with the links on the way to it.
func (t *taker) take(name string, e entry) error {
	if e.empty {
		if t.fs.Exists(name) {
			return t.add(name, File{})
		}
		return nil
	}
	real, err := t.real(name)
	if err != nil {
		return err
	}
	if real == "" {
		return nil
	}
	if path.Base(real) == "config" && t.told(path.Dir(real)) {
		return nil
	}
	data, err := t.fs.Prefix(real, sysfs.MaxText)
	if err != nil {
		return nil // unreadable is as missing
	}
	if e.private != nil {
		data = []byte(e.private(&t.alias, string(data)))
	}
	return t.add(real, File{Data: data})
}

// told reports whether the kernel tells of a PCI function all that its configuration space, whose reading
// can wake it, would be asked for (since Linux 4.13).
func (t *taker) told(dir string) bool {
	class := strings.TrimSpace(string(t.files[dir+"/class"].Data))
	_, revision := t.files[dir+"/revision"]
	_, bus := t.files[dir+"/secondary_bus_number"]
	return revision && (bus || !strings.HasPrefix(class, "0x0604"))
}

// real is the name of a file without links, which are taken. /proc/self is a link to a number that
// is nobody's business.
func (t *taker) real(name string) (string, error) {
	if strings.HasPrefix(name, "proc/") {
		return name, nil
	}
	done, rest := "", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		target := t.link(next)
		if target == "" {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil
		}
		if err := t.add(next, File{Link: target}); err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			target = target[1:]
		} else {
			target = path.Join(done, target)
		}
		if target == ".." || strings.HasPrefix(target, "../") {
			return "", nil
		}
		done, rest = "", append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

// link is where a name points, "" if it is no link.
func (t *taker) link(name string) string {
	target, known := t.links[name]
	if !known {
		target, _ = t.fs.Link(name)
		t.links[name] = target
	}
	return target
}

func (t *taker) add(name string, f File) error {
	if _, there := t.files[name]; there || !fs.ValidPath(name) || name == "." {
		return nil
	}
	t.files[name] = f
	if err := t.room.take(name, f); err != nil {
		return fmt.Errorf("/%s: %w", name, err)
	}
	return nil
}
