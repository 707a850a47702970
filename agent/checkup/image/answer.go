package image

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/internal/awake"
)

// CheckAnswering is Check, unless a file or directory does not answer: where one takes longer than patience to be opened, read or asked for, as on a
// mount whose server is gone, that is the one finding, which fails. The goroutine that asks stays until it does.
func CheckAnswering(c Config, patience time.Duration) (Facts, []checkup.Finding) {
	type looked struct {
		facts Facts
		list  []checkup.Finding
	}
	now := &asked{}
	reply := make(chan looked, 1)
	go func() {
		facts, list := Check(now.watched(c))
		reply <- looked{facts, list}
	}()

	for {
		_, before := now.last()
		late, cancel := awake.Within(context.Background(), patience)
		select {
		case l := <-reply:
			cancel()
			return l.facts, l.list
		case <-late.Done():
			cancel()
		}
		if name, n := now.last(); n == before {
			return Facts{Version: c.Version, UID: c.UID, Libraries: []string{}, Names: map[string]string{}}, []checkup.Finding{{
				Name: "file systems", Verdict: checkup.Fail, Text: fmt.Sprintf("%.200s does not answer, so nothing is said of the image", name),
				Fix: "see to its mount (a dead NFS, Lustre or FUSE server?), or unmount it"}}
		}
	}
}

// asked is what was asked for last.
type asked struct {
	mu   sync.Mutex
	name string // guarded by mu
	n    uint64 // how many it was with that, guarded by mu
}

func (a *asked) note(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.name = name
	a.n++
}

func (a *asked) last() (name string, n uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.name, a.n
}

// watched is an image of which all that is asked for is noted.
func (a *asked) watched(c Config) Config {
	w := c
	w.Files = watchedFiles{c.Files, a}
	w.Ours = func(path string) bool { a.note(path); return c.Ours(path) }
	w.Write = func(dir string) error { a.note(dir); return c.Write(dir) }
	w.Size = func(dir string) uint64 { a.note(dir); return c.Size(dir) }
	return w
}

// watchedFiles notes what is asked of a tree.
type watchedFiles struct {
	files fs.FS
	asked *asked
}

// fs.FS, and what a look asks of it beyond that.
var (
	_ fs.StatFS     = watchedFiles{}
	_ fs.ReadDirFS  = watchedFiles{}
	_ fs.ReadLinkFS = watchedFiles{}
)

// Open implements fs.FS.
func (w watchedFiles) Open(name string) (fs.File, error) {
	w.asked.note("/" + name)
	return w.files.Open(name)
}

// Stat implements fs.StatFS.
func (w watchedFiles) Stat(name string) (fs.FileInfo, error) {
	w.asked.note("/" + name)
	return fs.Stat(w.files, name)
}

// ReadDir implements fs.ReadDirFS.
func (w watchedFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	w.asked.note("/" + name)
	return fs.ReadDir(w.files, name)
}

// Lstat implements fs.ReadLinkFS.
func (w watchedFiles) Lstat(name string) (fs.FileInfo, error) {
	w.asked.note("/" + name)
	return fs.Lstat(w.files, name)
}

// ReadLink implements fs.ReadLinkFS.
func (w watchedFiles) ReadLink(name string) (string, error) {
	w.asked.note("/" + name)
	return fs.ReadLink(w.files, name)
}
