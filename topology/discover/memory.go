package discover

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// File is one file of a machine: a text, or a symbolic link.
type File struct {
	Data []byte
	Link string // where it points; "": it is no link
}

// Files is a machine's files by their names, without the leading "/". Directories are there by what is in them. Format writes them as one text, from
// which the machine can be looked at elsewhere, and Parse reads such texts.
//
//	-- sys/devices/system/cpu/cpu{0-3}/topology/physical_package_id --
//	0
//	-- sys/class/net/eth0 -> ../../devices/pci0000:00/0000:00:01.0/net/eth0 --
//	-- sys/devices/pci0000:00/0000:00:01.0/config (hex) --
//	8680573d
//
// It is the txtar format. {LIST} stands for one file of the same content for each number of the
// list; " -> " makes a symbolic link; (hex) is a file of bytes. Everything before the first file is
// a comment.
//
// Take reads what this package, gpu and rdma read, and no more: table.go has the names. A
// capture leaves out or replaces what tells of somebody (private.go). It holds no environment, host name, serial
// number, UUID, hardware or network address, and no name of a pod or container.
type Files map[string]File

// FS is files as an fs.FS in which symbolic links are followed, absolute ones from its own root: none
// leads out of it.
func (f Files) FS() fs.FS {
	m := memory{nodes: map[string]*node{".": {name: "."}}}
	for name, file := range f {
		if fs.ValidPath(name) && name != "." {
			m.add(name, &node{name: path.Base(name), file: &file})
		}
	}
	return m
}

// memory is a tree of nodes by their full names.
type memory struct{ nodes map[string]*node }

// node is a file, or a directory.
type node struct {
	name    string
	file    *File // nil of a directory
	entries []string
}

// add puts a node into its directory, which is made where there is none. What already stands in its
// way, or for it, stays.
func (m memory) add(name string, n *node) {
	if old := m.nodes[name]; old != nil {
		return
	}
	dir := path.Dir(name)
	if m.nodes[dir] == nil {
		m.add(dir, &node{name: path.Base(dir)})
	}
	if parent := m.nodes[dir]; parent != nil && parent.file == nil {
		m.nodes[name] = n
		parent.entries = append(parent.entries, n.name)
	}
}

// maxLinks is how many symbolic links a name may lead through, as in Linux.
const maxLinks = 40

var errLoop = errors.New("too many levels of symbolic links")

// find is the node of a name, of a link itself where follow is false.
func (m memory) find(op, name string, follow bool) (*node, error) {
	bad := func(err error) (*node, error) { return nil, &fs.PathError{Op: op, Path: name, Err: err} }
	if !fs.ValidPath(name) {
		return bad(fs.ErrInvalid)
	}
	at, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		word := rest[0]
		rest = rest[1:]
		switch word {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, word)
		n := m.nodes[next]
		switch {
		case n == nil:
			return bad(fs.ErrNotExist)
		case n.file != nil && n.file.Link != "" && (follow || len(rest) > 0):
			if links++; links > maxLinks || len(n.file.Link) > maxName {
				return bad(errLoop)
			}
			if path.IsAbs(n.file.Link) {
				at = "."
			}
			rest = append(strings.Split(n.file.Link, "/"), rest...)
		default:
			at = next
		}
	}
	return m.nodes[at], nil
}

// maxName bounds a name and a link's text (PATH_MAX).
const maxName = 4096

// Open is fs.FS's.
func (m memory) Open(name string) (fs.File, error) {
	n, err := m.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if n.file == nil {
		names := slices.Sorted(slices.Values(n.entries))
		return &directory{memory: m, node: n, at: name, left: names}, nil
	}
	return fileReader{bytes.NewReader(n.file.Data), n}, nil
}

// Stat is fs.StatFS's.
func (m memory) Stat(name string) (fs.FileInfo, error) {
	n, err := m.find("stat", name, true)
	if err != nil {
		return nil, err
	}
	return info{n}, nil
}

// Lstat is fs.ReadLinkFS's.
func (m memory) Lstat(name string) (fs.FileInfo, error) {
	n, err := m.find("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return info{n}, nil
}

// ReadLink is fs.ReadLinkFS's.
func (m memory) ReadLink(name string) (string, error) {
	n, err := m.find("readlink", name, false)
	if err == nil && (n.file == nil || n.file.Link == "") {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return n.file.Link, nil
}

// fileReader is an open file.
type fileReader struct {
	*bytes.Reader
	node *node
}

func (r fileReader) Stat() (fs.FileInfo, error) { return info{r.node}, nil }
func (r fileReader) Close() error               { return nil }

// directory is an open directory.
type directory struct {
	memory memory
	node   *node
	at     string
	left   []string
}

func (d *directory) Stat() (fs.FileInfo, error) { return info{d.node}, nil }
func (d *directory) Close() error               { return nil }
func (d *directory) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.at, Err: errors.New("is a directory")}
}

func (d *directory) ReadDir(n int) (entries []fs.DirEntry, err error) {
	if n <= 0 || n > len(d.left) {
		if n > 0 && len(d.left) == 0 {
			return nil, io.EOF
		}
		n = len(d.left)
	}
	for _, name := range d.left[:n] {
		i, err := d.memory.Lstat(path.Join(d.at, name))
		if err != nil {
			return entries, err
		}
		entries = append(entries, fs.FileInfoToDirEntry(i))
	}
	d.left = d.left[n:]
	return entries, nil
}

// info describes a node.
type info struct{ *node }

func (i info) Name() string       { return i.name }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.file == nil }
func (i info) Sys() any           { return nil }
func (i info) Size() int64 {
	if i.file == nil {
		return 0
	}
	return int64(len(i.file.Data))
}

func (i info) Mode() fs.FileMode {
	switch {
	case i.file == nil:
		return fs.ModeDir | 0o555
	case i.file.Link != "":
		return fs.ModeSymlink | 0o777
	}
	return 0o444
}
